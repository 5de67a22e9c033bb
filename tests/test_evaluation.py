"""Evaluation: before and after the adaptation step, from streams of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tiny import small

from raypfrl.evaluation import mean_outcome
from raypfrl.federation import Agent, build_agent
from raypfrl.methods import MAdapt
from raypfrl.oracles import ORACLES, Meter, Outcome
from raypfrl.oracles.exact import F, f
from raypfrl.policies import Vector
from raypfrl.streams import Purpose, Stream


class Recorder:
    """grad J = (1, 1); the return of theta is theta[0]; writes down what it is asked."""

    def __init__(self) -> None:
        self.meter, self.asked = Meter(), list[Any]()

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        self.asked.append(("g", m, stream))
        return np.ones(2)

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        self.asked.append(("J", m, stream))
        return Outcome(float(theta[0]), 0.5, 1.0)


def agent_with(oracle: Any, judge: Any, method: str = "first_order", **settings: Any) -> Agent:
    """Agent 1 of seed 3 in a population whose policy has two parameters, with oracles of its own."""
    config = small("navigation", method, seed=3, **settings)
    return Agent(1, oracle, judge, config.build_method(), config.build_population(), config.seed, config.seed)


def evaluated(agent: Agent, theta: Vector, m_adapt: Sequence[MAdapt], m_eval: int, round: int = 40) -> list[Outcome]:
    return agent.evaluate(round, {"theta": theta}, None, m_adapt, m_eval).outcomes


def test_each_entry_has_its_own_streams_and_answers_in_order() -> None:
    oracle, judge = Recorder(), Recorder()
    outcomes = evaluated(agent_with(oracle, judge, alpha=0.5), np.zeros(2), (20, 0, "exact", 5), 9)
    assert [outcome.return_ for outcome in outcomes] == [0.5, 0.0, 0.5, 0.5]

    def stream(m: int, purpose: Purpose, part: int = 0) -> Stream:
        return Stream(3, 1, 40, m, purpose, part)

    assert oracle.asked == [("g", m, stream(m, Purpose.ADAPT)) for m in (20, 5)]
    rollouts = [("J", 9, stream(m, Purpose.EVALUATE)) for m in (20, 0, 0, 5)]
    assert judge.asked == [*rollouts[:2], ("g", 0, stream(0, Purpose.ADAPT)), *rollouts[2:]]


def test_every_step_of_an_adaptation_has_a_batch_of_its_own() -> None:
    """nu = 3: theta + alpha g three times, from the parts 0, 1, 2 of the entry's stream."""
    oracle = Recorder()
    (outcome,) = evaluated(agent_with(oracle, oracle, alpha=0.5, inner_steps=3), np.zeros(2), (20,), 9)
    assert outcome.return_ == 1.5
    assert oracle.asked[:-1] == [("g", 20, Stream(3, 1, 40, 20, Purpose.ADAPT, part)) for part in range(3)]


def test_theta_is_not_changed() -> None:
    theta = np.array([1.0, 2.0])
    theta.setflags(write=False)
    evaluated(agent_with(Recorder(), Recorder(), alpha=2.0), theta, (0, 5, "exact"), 1)
    assert theta.tolist() == [1.0, 2.0]


def test_exact_evaluation_is_J_and_the_summand_of_F() -> None:
    config = small("gridworld", oracle="exact", n=3, horizon=15, alpha=2.0)
    population = config.build_population()
    oracles: list[Any] = [ORACLES["exact"](task, population.policy, 0.9, 15) for task in population.train]
    theta = np.random.default_rng(0).normal(size=100)
    outcomes = [evaluated(build_agent(config, i), theta, (0, "exact"), 1) for i in range(3)]
    assert np.mean([before.return_ for before, _ in outcomes]) == pytest.approx(f(oracles, theta), abs=1e-14)
    assert np.mean([after.return_ for _, after in outcomes]) == pytest.approx(F(oracles, theta, 2.0), abs=1e-14)


@pytest.mark.parametrize(("population", "m_adapt"), [("gridworld", (0, 20, "exact")), ("navigation", (0, 4, 20))])
def test_an_entry_does_not_depend_on_the_others(population: str, m_adapt: tuple[MAdapt, ...]) -> None:
    """Asked alone, or in another order, the answer has the same bits."""
    config = small(population, m_adapt=m_adapt, horizon=10, alpha=0.7)
    agent, theta = build_agent(config, 1), config.build_population().initial()
    together = evaluated(agent, theta, m_adapt, 16)
    for m, outcome in zip(m_adapt, together, strict=True):
        assert evaluated(agent, theta, (m,), 16) == [outcome]
    assert evaluated(agent, theta, m_adapt[::-1], 16) == together[::-1]
    assert len(set(together)) == 3


def test_rounds_are_evaluated_on_fresh_rollouts() -> None:
    config = small("navigation", m_eval=32)
    agent, theta = build_agent(config, 1), config.build_population().initial()
    one, other = (evaluated(agent, theta, (0,), 32, round=round_) for round_ in (0, 1))
    assert one != other


def test_where_the_task_is_tabular_the_exact_oracle_judges_and_rollouts_are_not_needed() -> None:
    """The adaptation step is sampled as it was asked for; its worth is exact."""
    config = small("gridworld", oracle="autodiff")
    agent = build_agent(config, 0)
    theta = np.random.default_rng(0).normal(size=100)
    few, many = (evaluated(agent, theta, (7,), m_eval) for m_eval in (1, 1000))
    assert few == many
    assert agent.oracle.meter.trajectories == 14
    assert agent.judge.meter.trajectories == 0


def test_mean_over_agents() -> None:
    assert mean_outcome([Outcome(1.0, 0.0, 3.0), Outcome(2.0, 1.0, 1.0)]) == Outcome(1.5, 0.5, 2.0)
