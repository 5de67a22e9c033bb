"""Evaluation: before and after the adaptation step, from streams of its own."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import small

from raypfrl.evaluation import evaluate, mean_outcome
from raypfrl.federation import build_agent
from raypfrl.oracles import ORACLES, Meter, Outcome
from raypfrl.oracles.exact import F, f
from raypfrl.streams import Purpose, Stream

WHERE = {"seed": 3, "agent": 1, "round": 40}


class Recorder:
    """grad J = (1, 1); the return of theta is theta[0]; writes down what it is asked."""

    def __init__(self):
        self.meter, self.asked = Meter(), []

    def policy_gradient(self, theta, m, stream):
        self.asked.append(("g", m, stream))
        return np.ones(2)

    def returns(self, theta, m, stream):
        self.asked.append(("J", m, stream))
        return Outcome(float(theta[0]), 0.5, 1.0)


def test_each_entry_has_its_own_streams_and_answers_in_order():
    oracle, judge = Recorder(), Recorder()
    outcomes = evaluate(oracle, judge, np.zeros(2), alpha=0.5, m_adapt=(20, 0, "exact", 5), m_eval=9, **WHERE)
    assert [outcome.return_ for outcome in outcomes] == [0.5, 0.0, 0.5, 0.5]

    def stream(m, purpose):
        return Stream(3, 1, 40, m, purpose)

    assert oracle.asked == [("g", m, stream(m, Purpose.ADAPT)) for m in (20, 5)]
    rollouts = [("J", 9, stream(m, Purpose.EVALUATE)) for m in (20, 0, 0, 5)]
    assert judge.asked == [*rollouts[:2], ("g", 0, stream(0, Purpose.ADAPT)), *rollouts[2:]]


def test_theta_is_not_changed():
    theta = np.array([1.0, 2.0])
    theta.setflags(write=False)
    evaluate(Recorder(), Recorder(), theta, alpha=2.0, m_adapt=(0, 5, "exact"), m_eval=1, **WHERE)
    assert theta.tolist() == [1.0, 2.0]


def test_exact_evaluation_is_J_and_the_summand_of_F():
    config = small("gridworld", oracle="exact", n=3, horizon=15)
    population = config.build_population()
    oracles = [ORACLES["exact"](task, population.policy, 0.9, 15) for task in population.train]
    theta = np.random.default_rng(0).normal(size=100)
    outcomes = [
        evaluate(oracle, oracle, theta, alpha=2.0, m_adapt=(0, "exact"), m_eval=1, **WHERE) for oracle in oracles
    ]
    assert np.mean([before.return_ for before, _ in outcomes]) == pytest.approx(f(oracles, theta), abs=1e-14)
    assert np.mean([after.return_ for _, after in outcomes]) == pytest.approx(F(oracles, theta, 2.0), abs=1e-14)


@pytest.mark.parametrize(("population", "m_adapt"), [("gridworld", (0, 20, "exact")), ("navigation", (0, 4, 20))])
def test_an_entry_does_not_depend_on_the_others(population, m_adapt):
    """Asked alone, or in another order, the answer has the same bits."""
    config = small(population, m_adapt=m_adapt, horizon=10)
    agent, theta = build_agent(config, 1), config.build_population().initial()
    together = agent.evaluate(theta, 3, 0.7, m_adapt, 16).outcomes
    for m, outcome in zip(m_adapt, together, strict=True):
        assert agent.evaluate(theta, 3, 0.7, (m,), 16).outcomes == [outcome]
    assert agent.evaluate(theta, 3, 0.7, m_adapt[::-1], 16).outcomes == together[::-1]
    assert len(set(together)) == 3


def test_rounds_are_evaluated_on_fresh_rollouts():
    config = small("navigation", m_eval=32)
    agent, theta = build_agent(config, 1), config.build_population().initial()
    outcomes = [agent.evaluate(theta, round_, 0.7, (0,), 32).outcomes[0] for round_ in (0, 1)]
    assert outcomes[0] != outcomes[1]


def test_where_the_task_is_tabular_the_exact_oracle_judges_and_rollouts_are_not_needed():
    """The adaptation step is sampled as it was asked for; its worth is exact."""
    config = small("gridworld", oracle="autodiff")
    agent = build_agent(config, 0)
    theta = np.random.default_rng(0).normal(size=100)
    few, many = (agent.evaluate(theta, 0, 1.0, (7,), m_eval).outcomes for m_eval in (1, 1000))
    assert few == many
    assert agent.oracle.meter.trajectories == 14
    assert agent.judge.meter.trajectories == 0


def test_mean_over_agents():
    assert mean_outcome([Outcome(1.0, 0.0, 3.0), Outcome(2.0, 1.0, 1.0)]) == Outcome(1.5, 0.5, 2.0)
