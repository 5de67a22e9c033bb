"""A run's bytes depend on nothing but its settings."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
import torch
from tiny import bytes_of, run, small, without_times

from raypfrl import Training, train
from raypfrl.federation import InProcess
from raypfrl.oracles import NOISELESS, answers, covering


class Shuffled(InProcess):
    """Works through the agents in a random order, as if they finished so; answers in the order of the numbers."""

    order = random.Random(0)

    def _one_by_one(self, ask, calls):
        places = list(range(len(calls)))
        self.order.shuffle(places)
        answers = {place: ask([calls[place]])[0] for place in places}
        return [answers[place] for place in range(len(calls))]

    def answers(self, phase, round, calls):
        return self._one_by_one(lambda one: super(Shuffled, self).answers(phase, round, one), calls)

    def evaluations(self, round, calls):
        return self._one_by_one(lambda one: super(Shuffled, self).evaluations(round, one), calls)


class Forgetful(InProcess):
    """Every call finds new agents: nothing that a call needs is kept between calls."""

    def answers(self, phase, round, calls):
        self._agents.clear()
        return super().answers(phase, round, calls)


def sampling(name):
    """The oracles that sample, of those that cover the population and answer what ``exact`` asks."""
    task, policy = (population := small(name).build_population()).train[0], population.policy
    asked = {"policy_gradient", "hessian_vector_product"}
    return [
        oracle
        for oracle in covering(task, policy)
        if oracle not in NOISELESS and asked <= answers(oracle, task, policy)
    ]


CONFIGS = [
    small(name, method, n=2, oracle=oracle)
    for name, method in (("gridworld", "exact"), ("navigation", "independent"))
    for oracle in sampling(name)
]
CONFIGS.append(small("gymnasium", "exact", env_id="Pendulum-v1", vary="g", standardise=3))
EXPECTED = {}


@pytest.fixture(params=CONFIGS, ids=lambda config: f"{config.population}-{config.method}-{config.oracle}")
def reference(request):
    """A run's settings, and what it gives undisturbed."""
    config = request.param
    if config.key() not in EXPECTED:
        EXPECTED[config.key()] = run(config)
    return config, EXPECTED[config.key()]


def test_a_run_can_be_repeated(reference):
    config, expected = reference
    assert run(config) == expected
    assert run(config.model_copy(update={"seed": 1})) != expected


@pytest.mark.parametrize("agents", [Shuffled, Forgetful])
def test_the_bytes_do_not_depend_on_how_the_agents_work(reference, agents):
    config, expected = reference
    assert run(config, agents(config)) == expected


def poison(value):
    """Every global generator at another place."""
    random.seed(value)
    np.random.seed(value)  # noqa: NPY002
    torch.manual_seed(value)
    for _ in range(value):
        random.random()
        np.random.rand()  # noqa: NPY002
        torch.rand(1)


class Poisoned(InProcess):
    """Global generators are moved between any two calls."""

    calls = 0

    def answers(self, phase, round, calls):
        Poisoned.calls += 1
        poison(Poisoned.calls)
        return super().answers(phase, round, calls)

    def evaluations(self, round, calls):
        poison(77)
        return super().evaluations(round, calls)


def test_global_generators_are_neither_read_nor_moved(reference):
    config, expected = reference
    poison(5)
    assert run(config, Poisoned(config)) == expected
    poison(6)
    before = (random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state())  # noqa: NPY002
    run(config)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tobytes() == before[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


def test_evaluating_more_changes_nothing_else(reference):
    config, (theta, rows) = reference
    rarely = config.model_copy(update={"evaluate": ()})
    more = config.model_copy(update={"m_adapt": (0, 5, 3, 20), "m_eval": 50})
    for changed in (rarely, more):
        other, other_rows = run(changed)
        assert other == theta
        for name in ("trajectories", "env_steps", "floats_sent", "drift"):
            assert other_rows[-1][name] == rows[-1][name]


def test_interrupted_at_any_evaluation_and_resumed_is_uninterrupted(reference):
    """The state goes through pickle, as in a checkpoint. After the end the last word is given again: it may be lost."""
    config, (theta, rows) = reference
    for interrupted_after in range(1, len(rows) + 1):
        first = Training(config)
        log = [without_times(next(first)) for _ in range(interrupted_after)]
        state = pickle.loads(pickle.dumps(first.state()))
        second = Training(config, state=state)
        again = [without_times(metrics) for metrics in second]
        assert log + again == rows if interrupted_after < len(rows) else again == rows[-1:]
        assert bytes_of(second.server) == theta


def test_a_checkpoint_holds_arrays_and_numbers_only():
    training = train(small("gridworld", oracle="exact"))
    next(training)
    for name, value in training.state().items():
        assert isinstance(value, int | float | np.ndarray), name
    assert "seed" not in training.state(), "there is no random state to bring back"


def test_seconds_go_on_after_a_resume():
    training = train(small("gridworld", oracle="exact"))
    next(training)
    state = training.state() | {"seconds": 1000.0, "kernel_seconds": 900.0}
    metrics = next(Training(training.config, state=state))
    assert 1000 < metrics["seconds"] < 1100
    assert 900 < metrics["kernel_seconds"] < 1000


def test_two_trainings_in_one_process_one_after_the_other_and_interleaved(reference):
    config, expected = reference
    one, two = Training(config), Training(config.model_copy(update={"seed": 5}))
    rows = []
    for metrics, _ in zip(one, two, strict=True):
        rows.append(without_times(metrics))
    assert (bytes_of(one.server), rows) == expected
