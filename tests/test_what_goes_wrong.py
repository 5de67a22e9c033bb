"""Agents that fail: what is refused, where it is said to have happened, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import FAULTY, small

from raypfrl import AgentError, Diverged, train
from raypfrl.methods import METHODS, averaged
from raypfrl.oracles import Guarded, Meter, Outcome
from raypfrl.populations import POPULATIONS
from raypfrl.streams import Purpose, Stream


def as_it_is(agent, down, kept, m):
    """No adaptation."""
    return down["theta"]


def nan_at(agent, round_, local_step):
    """A direction that stops being a number at one place."""

    def direction(oracle, theta, step):
        bad = (step.agent, step.round, step.step) == (agent, round_, local_step)
        return np.full_like(theta, np.nan) if bad else np.ones_like(theta)

    return averaged(direction, personalise=as_it_is)


@pytest.mark.parametrize("local_step", [0, 1])
def test_an_agent_that_returns_nan_does_not_reach_the_global_model(monkeypatch, local_step):
    """Refused by the server: status diverged, the last finite theta kept, the place named."""
    monkeypatch.setitem(METHODS, "nan", nan_at(1, 1, local_step))
    training = train(small("gridworld", "nan", n=3, rounds=4, tau=2, beta=0.5, oracle="exact"))
    metrics = list(training)
    assert [row["status"] for row in metrics] == ["running", "running", "diverged"]
    assert metrics[-1]["evaluations"] == []
    assert "agent 1, round 1" in metrics[-1]["message"]
    assert "\n" not in metrics[-1]["message"]
    assert metrics[-1]["round"] == training.server.round == 1
    assert training.server.theta.tolist() == [1.0] * 100  # tau beta, after round 0
    assert list(training) == [], "a diverged run is over"
    with pytest.raises(StopIteration):
        next(training)


@pytest.fixture
def faulty(monkeypatch):
    """The populations whose agent 2 breaks."""
    for name, family in FAULTY.items():
        monkeypatch.setitem(POPULATIONS, name, family)


@pytest.mark.usefixtures("faulty")
def test_an_environment_that_gives_nan_is_named_with_its_place():
    """Agent 2's reward is not a number; its first batch tells, and that it is the environment's."""
    training = train(small("faulty_nan", n=4, horizon=15))
    metrics = list(training)
    assert [row["status"] for row in metrics] == ["running", "diverged"]
    assert metrics[-1]["message"].startswith(
        "agent 2, round 0, local step 0, inner batch: episode 0, decision 6: the environment's reward is nan for the "
    )
    assert not training.server.theta.any()


def test_a_run_that_blows_up_by_itself_ends_as_diverged():
    """The quadratic population beyond its stable step: theta grows by a factor a step until it overflows."""
    training = train(small("quadratic", n=3, beta=1e60, tau=2, rounds=20))
    *_, last = training
    assert last["status"] == "diverged"
    assert "agent" in last["message"]
    assert np.isfinite(training.server.theta).all()
    assert last["round"] < 20


@pytest.mark.usefixtures("faulty")
def test_an_environment_that_raises_is_told_with_agent_round_step_batch_and_first_cause():
    with pytest.raises(AgentError) as told:
        list(train(small("faulty_raises", n=4, horizon=15)))
    assert str(told.value) == (
        "agent 2, round 0, local step 0, inner batch: "
        "episode 0, decision 6: OSError: the sensor does not answer at step 7"
    )
    assert isinstance(told.value.__cause__, OSError)


class Silly:
    """An oracle with answers that are not numbers."""

    meter = Meter()

    def policy_gradient(self, theta, m, stream):
        return np.array([0.0, np.inf])

    hessian_vector_product = None

    def mean_rewards(self, theta, m, stream):
        return np.array([np.nan])

    def returns(self, theta, m, stream):
        return Outcome(float("nan"), 0.0, 0.0)

    def __init__(self):
        self.hessian_vector_product = lambda theta, v, m, stream, **options: np.array([np.nan, 0.0])


@pytest.mark.parametrize(
    ("question", "purpose", "message"),
    [
        ("policy_gradient", Purpose.OUTER,
         "local step 2, outer batch: the policy gradient came out not finite (m = 7)"),
        ("hessian_vector_product", Purpose.HESSIAN,
         "local step 2, hessian batch: the hessian vector product came out not finite (m = 7)"),
        ("mean_rewards", Purpose.INNER, "local step 2, inner batch: the mean rewards came out not finite (m = 7)"),
        ("returns", Purpose.EVALUATE, "evaluation, evaluate batch: the returns came out not finite (m = 7)"),
    ],
)  # fmt: skip
def test_the_guard_names_every_batch(question, purpose, message):
    arguments = [np.zeros(2)] * (2 if question == "hessian_vector_product" else 1)
    with pytest.raises(Diverged) as told:
        getattr(Guarded(Silly()), question)(*arguments, 7, Stream(0, 3, 12, 2, purpose))
    assert str(told.value).startswith(f"agent 3, round 12, {message}")
    assert "lower" in str(told.value), "no remedy"
