"""What every oracle says of itself, and that wrappers pass every question on."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from tiny import GymTask, small

from raypfrl.bounds import Bounds
from raypfrl.oracles import ORACLES, QUESTIONS, AgentError, Guarded, Meter, Oracle, answers, covering
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.policies import LinearSoftmax, MLPSoftmax
from raypfrl.populations import POPULATIONS, BanditTask, GridworldTask, Population, QuadraticTask
from raypfrl.streams import Purpose, Stream
from raypfrl.watch import Watched

STREAM = Stream(0, 3, 12, 2, Purpose.INNER)
POPULATION_OF = {name: small(name).build_population() for name in POPULATIONS}
COVERED = [(name, oracle) for name, p in POPULATION_OF.items() for oracle in covering(p.train[0], p.policy)]
SAMPLED = [pair for pair in COVERED if pair[1] != "exact"]
SCORED = ("autodiff", "fused")  # those whose batches are episodes of a policy with a density


def made(population: Population, name: str) -> Any:
    """The named oracle of the first agent."""
    return ORACLES[name](population.train[0], population.policy, population.gamma, population.horizon)


def vectors_of(question: str, *vectors: Any) -> tuple[Any, ...]:
    """As many of the vectors as the question has arguments before m."""
    return vectors[: list(inspect.signature(getattr(Oracle, question)).parameters).index("m") - 1]


class Recording(Oracle):
    """Answers nothing of its own, so that every question comes to ``ask``; and it writes them down."""

    def __init__(self) -> None:
        self.meter, self.asked = Meter(), list[Any]()

    def ask(self, question: str, *arguments: Any, **options: Any) -> Any:
        self.asked.append((question, arguments, options))
        return np.ones(1)


def ask_all(oracle: Oracle) -> None:
    """Every question once."""
    theta, v = np.array([0.5]), np.array([2.0])
    for question in sorted(QUESTIONS - {"hessian_vector_product"}):
        getattr(oracle, question)(*vectors_of(question, theta, v), 7, STREAM)
    oracle.hessian_vector_product(theta, v, 7, STREAM, credit="causal", baseline=v)


@pytest.mark.parametrize(
    "wrap", [Guarded, lambda oracle: Watched(oracle, None, Bounds(), alpha=1.0, beta=1.0)], ids=["guarded", "watched"]
)
def test_a_wrapper_passes_every_question_on(wrap: Any) -> None:
    plain, behind = Recording(), Recording()
    ask_all(plain)
    ask_all(wrap(behind))
    assert repr(behind.asked) == repr(plain.asked)
    assert {question for question, _, _ in plain.asked} == QUESTIONS
    assert wrap(behind).meter is behind.meter


@pytest.mark.parametrize(("name", "oracle"), COVERED)
def test_what_is_said_to_be_answered_is(name: str, oracle: str) -> None:
    """By the class, and by asking: what is not answered is refused in words, with the place in the protocol."""
    population = POPULATION_OF[name]
    said = answers(oracle, population.train[0], population.policy)
    asked = made(population, oracle)
    assert asked.answers == said
    theta = population.initial()
    for question in QUESTIONS:
        arguments = vectors_of(question, theta, theta)
        if question in said:
            getattr(asked, question)(*arguments, 5, STREAM)
        else:
            with pytest.raises(AgentError, match=rf"^agent 3, round 12, .*Oracle does not answer {question}; choose"):
                getattr(Guarded(asked), question)(*arguments, 5, STREAM)


def test_an_oracle_answers_nothing_where_it_does_not_cover_the_task() -> None:
    grid, box = POPULATION_OF["gridworld"], POPULATION_OF["navigation"]
    assert answers("exact", box.train[0], box.policy) == frozenset()
    assert answers("fused", grid.train[0], box.policy) == frozenset()
    fused, exact = (answers(name, grid.train[0], grid.policy) for name in ("fused", "exact"))
    assert fused - exact == {"score_sum"}
    assert exact - fused == {"kl_gradient", "weighted_gradient"}
    for oracle, task in (("exact", GymTask("tiny/Countdown-v0")), ("autodiff", object())):
        with pytest.raises(ValueError, match=f"the {oracle} oracle does not cover"):
            ORACLES[oracle](task, box.policy, 0.9, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not cover MLPSoftmax"):
        ORACLES["exact"](grid.train[0], MLPSoftmax(1, 4), 0.9, 3)


# --- parts of (3) by themselves ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "oracle"), [(name, oracle) for name, oracle in SAMPLED if oracle in SCORED])
def test_the_sum_of_the_scores_is_the_gradient_of_the_batch_s_log_probability(name: str, oracle: str) -> None:
    """On the trajectories of the same stream; nothing is charged for them."""
    population = POPULATION_OF[name]
    asked, theta = made(population, oracle), population.initial() + 0.3
    batch = (asked.sample if oracle == "autodiff" else asked.trajectories)(theta, 37, STREAM)
    observations, actions = torch.as_tensor(batch.observations), torch.as_tensor(batch.actions)
    if oracle == "fused":  # episode by episode; the other oracle's batches are rows of decisions
        live = torch.arange(observations.shape[1]) < torch.as_tensor(batch.lengths)[:, None]
        observations, actions = observations[live], actions[live]
    at = torch.tensor(theta, requires_grad=True)
    population.policy.log_prob(at, observations, actions).sum().backward()  # type: ignore[no-untyped-call]
    assert at.grad is not None
    spent = (asked.meter.trajectories, asked.meter.env_steps)
    score_sum, size = at.grad.numpy(), np.abs(at.grad.numpy()).max()
    assert asked.score_sum(theta, 37, STREAM) == pytest.approx(score_sum, rel=1e-4, abs=1e-5 * size)
    assert size > 1
    assert (asked.meter.trajectories, asked.meter.env_steps) == spent


@pytest.mark.parametrize("name", [name for name, oracle in COVERED if oracle == "autodiff"])
def test_without_credit_the_product_is_the_derivative_of_g_on_the_batch(name: str) -> None:
    """By central differences of g on the trajectories of the same stream; and with all credit it is not."""
    longer = {"horizon": 60} if name == "gymnasium" else {}  # or no pole falls, and nothing is left of the advantages
    population = small(name, **longer).build_population()
    oracle, (noise, v) = made(population, "autodiff"), np.random.default_rng(0).normal(size=(2, population.policy.dim))
    theta = population.initial() + 0.1 * noise
    assert isinstance(oracle, AutodiffOracle)
    batch = oracle.sample(theta, 200, STREAM)
    plus, minus = (oracle.policy_gradient_on(batch, theta + e * v) for e in (1e-5, -1e-5))
    spent = (oracle.meter.trajectories, oracle.meter.env_steps)
    product = oracle.hessian_vector_product(theta, v, 200, STREAM, credit="none")
    assert (oracle.meter.trajectories, oracle.meter.env_steps) == spent
    assert product == pytest.approx((plus - minus) / 2e-5, rel=1e-5, abs=1e-7)
    assert np.abs(product - oracle.hessian_vector_product(theta, v, 200, STREAM)).max() > 1e-3


@pytest.mark.parametrize("name", ["gridworld", "quadratic"])
def test_what_is_exact_has_no_half_of_a_batch_to_tell(name: str) -> None:
    population = POPULATION_OF[name]
    theta = population.initial()
    with pytest.raises(AgentError, match="does not answer hessian_vector_product with credit = none"):
        Guarded(made(population, "exact")).hessian_vector_product(theta, theta, 5, STREAM, credit="none")


# --- tasks by what is known of them --------------------------------------------------------------------------------


def test_a_task_is_covered_by_what_it_has() -> None:
    """A table alone, a formula alone, an environment alone."""

    class Table:
        mdp = BanditTask((0.0, 1.0)).mdp

    class Formula:
        closed_form = QuadraticTask(1.0, 0.0).closed_form

    policy = LinearSoftmax(features=(((0.0,), (1.0,)),))
    everywhere = ("fused", "autodiff", "exact", "table", "continuing")
    assert covering(Table(), policy) == ("exact", "table", "continuing")
    assert covering(Formula(), policy) == ("exact",)
    assert covering(GymTask("tiny/Countdown-v0"), policy) == ("autodiff",)
    assert covering(GridworldTask((0, 0)), POPULATION_OF["gridworld"].policy) == everywhere
    assert ORACLES["exact"](Table(), policy, 0.0, 0).returns(np.zeros(1), 0, STREAM).return_ == 0.5
    assert ORACLES["exact"](Formula(), policy, 0.0, 0).returns(np.ones(1), 0, STREAM).return_ == -0.5
