"""Cohorts: who takes part in a round."""

from __future__ import annotations

import numpy as np
from tiny import run, small

from raypfrl import Training, train
from raypfrl.federation import InProcess, Server, build_agent


class Spy(InProcess):
    """Writes down who was asked for an update."""

    def __init__(self, config):
        super().__init__(config)
        self.cohorts = []

    def answers(self, phase, round, calls):
        self.cohorts.append(tuple(call.agent for call in calls))
        return super().answers(phase, round, calls)


def test_trajectories_are_counted_per_agent_that_learns():
    """The axis of cost: of four agents one takes part in each of two rounds."""
    config = small("gridworld", "first_order", n=4, cohort=1, rounds=2, tau=1)
    *_, last = train(config)
    assert last["trajectories"] == 2 * (config.m_in + config.m_out) / 4


def test_cohorts_are_drawn_anew_without_replacement_and_the_same_again():
    config = small("gridworld", n=8, cohort=3, rounds=20, evaluate=(), oracle="exact", tau=1)
    configs = [config, config, config.model_copy(update={"seed": 1})]
    spies = [Spy(each) for each in configs]
    results = [run(each, spy) for each, spy in zip(configs, spies, strict=True)]
    cohorts = spies[0].cohorts
    assert all(len(set(cohort)) == 3 and list(cohort) == sorted(cohort) for cohort in cohorts)
    assert len(set(cohorts)) > 10
    assert set().union(*cohorts) == set(range(8))
    assert spies[1].cohorts == cohorts != spies[2].cohorts
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]
    assert results[0][1][-1]["floats_sent"] == 20 * 2 * 3 * 100


def test_a_cohort_is_uniform():
    """Each of eight agents is in 3/8 of 2000 cohorts, within 4 standard errors."""
    server = Server(small("gridworld", n=8, cohort=3), InProcess(small("gridworld", n=8)))
    counts = np.zeros(8)
    for server.round in range(2000):
        counts[server.cohort()] += 1
    assert np.abs(counts / 2000 - 3 / 8).max() < 4 * np.sqrt(3 / 8 * 5 / 8 / 2000)


def test_a_cohort_of_all_is_no_cohort():
    runs = [run(small("gridworld", n=3, oracle="exact", cohort=cohort)) for cohort in ("all", 3)]
    assert runs[0] == runs[1]


def test_who_is_not_in_the_cohort_does_not_matter():
    """The average is over the cohort alone; an independent agent outside it stays as it is."""
    config = small("navigation", "independent", n=3, cohort=1, rounds=1, oracle="autodiff")
    spy = Spy(config)
    training = Training(config, spy)
    list(training)
    (number,) = spy.cohorts[0]
    assert list(training.server.kept) == [number]
    assert training.server.kept[number]["theta"].tobytes() != build_agent(config, number).own_theta().tobytes()
