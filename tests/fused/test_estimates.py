"""g, H_hat v and the returns of the fused oracle against float64 autodiff on the same trajectories, and in the mean."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypfrl.oracles import Credit
from raypfrl.oracles.exact import ExactOracle
from raypfrl.oracles.fused import FusedOracle, covers
from raypfrl.policies import MLPGaussian, MLPSoftmax, TabularSoftmax, Vector
from raypfrl.populations import GridworldTask, NavigationTask, Population, QuadraticTask, gridworld, navigation
from raypfrl.streams import DRAWS, Purpose, Stream
from tests.fused.families import FAMILIES, STREAM, Reference, error, fused, vectors


def compare(population: Population, m: int, scale: float = 0.5, tolerance: float = 1e-5) -> None:
    """Every estimator within ``tolerance`` of autodiff."""
    oracle = fused(population)
    theta, v = vectors(population.policy, scale)
    stream = batch(oracle, theta, m, rewarded=True)
    reference = Reference(population, oracle.trajectories(theta, m, stream))
    assert error(oracle.policy_gradient(theta, m, stream), reference.policy_gradient(theta)) <= tolerance
    b = np.linspace(0.3, 0.0, population.horizon + 1)
    b_w = np.concatenate([b, np.random.default_rng(3).standard_normal(features(population))])
    questions: list[tuple[Credit, Vector | None]] = [("all", None), ("none", None), ("causal", None), ("causal", b)]
    for credit, baseline in [*questions, ("causal", b_w)]:
        product = oracle.hessian_vector_product(theta, v, m, stream, credit=credit, baseline=baseline)
        truth = reference.hessian_vector_product(theta, v, credit, baseline)
        assert error(product, truth) <= tolerance, (credit, baseline)


def features(population: Population) -> int:
    """How many numbers a state is told by to a baseline."""
    policy = population.policy
    return policy.hidden[-1] if isinstance(policy, MLPSoftmax) else 25


def batch(oracle: FusedOracle, theta: Vector, m: int, *, rewarded: bool) -> Stream:
    """The stream of a batch with rewards, or without any."""
    streams = (dataclasses.replace(STREAM, round=k) for k in range(100))
    return next(stream for stream in streams if (oracle.returns(theta, m, stream).return_ > 0) == rewarded)


def rewarding(population: Population) -> Population:
    """With a first agent whose goal region holds about a fifth of the starts or more, so that few trajectories do."""
    task = population.train[0]
    near = dataclasses.replace(task, goal=(0.0, 0.0) if isinstance(task, NavigationTask) else (2, 2))
    return dataclasses.replace(population, train=(near, *population.train[1:]))


@pytest.mark.parametrize("m", [1, 7, 16, 129, 1000])
@pytest.mark.parametrize("family", FAMILIES)
def test_estimates_are_autodiffs_on_the_same_trajectories(family: str, m: int) -> None:
    compare(rewarding(FAMILIES[family]), m)


@pytest.mark.parametrize("hidden", [1, 7, 64])
def test_any_width_of_the_hidden_layer(hidden: int) -> None:
    compare(rewarding(navigation(n=1, hidden=(hidden,))), m=129)


@pytest.mark.slow
@pytest.mark.parametrize("actions", [2, 3, 5])
def test_any_number_of_actions(actions: int) -> None:
    policy = MLPSoftmax(inputs=2, actions=actions, hidden=(5,))
    compare(dataclasses.replace(rewarding(navigation(n=1)), policy=policy), m=129)


@pytest.mark.slow
def test_a_single_action_has_no_gradient() -> None:
    policy = MLPSoftmax(inputs=2, actions=1, hidden=(5,))
    oracle = fused(dataclasses.replace(rewarding(navigation(n=1)), policy=policy))
    theta, v = vectors(policy)
    assert not oracle.policy_gradient(theta, 20, STREAM).any()
    assert not oracle.hessian_vector_product(theta, v, 20, STREAM).any()


def test_many_trajectories_lose_no_digits() -> None:
    compare(navigation(n=1, hidden=(8,)), m=10_000)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    hidden=st.integers(1, 40),
    horizon=st.integers(0, 12),
    m=st.integers(1, 40),
    gamma=st.just(0.0) | st.floats(0.1, 1.0),  # powers within float32's range
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape(hidden: int, horizon: int, m: int, gamma: float, seed: int) -> None:
    population = rewarding(navigation(n=1, gamma=gamma, horizon=horizon, hidden=(hidden,)))
    stream = dataclasses.replace(STREAM, seed=seed)
    oracle, (theta, v) = fused(population), vectors(population.policy, seed=seed)
    xi = oracle.trajectories(theta, m, stream)
    truth = Reference(population, xi)
    g, H_v = truth.policy_gradient(theta), truth.hessian_vector_product(theta, v, "causal")
    # atol: the rounding of terms that cancel, each of the size of v times a reward
    np.testing.assert_allclose(oracle.policy_gradient(theta, m, stream), g, rtol=1e-4, atol=1e-6)
    product = oracle.hessian_vector_product(theta, v, m, stream, credit="causal")
    np.testing.assert_allclose(product, H_v, rtol=1e-4, atol=1e-5 * max(1.0, float(np.linalg.norm(v))))
    mean_rewards = gamma ** np.arange(horizon + 1) * xi.rewards.mean(0)
    np.testing.assert_allclose(oracle.mean_rewards(theta, m, stream), mean_rewards, rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_baseline_takes_its_share_of_every_reward(family: str) -> None:
    """Zero returns: with b = 0 all estimates are exactly 0; with another b the causal one is not."""
    population = FAMILIES[family]
    oracle, (theta, v) = fused(population), vectors(population.policy)
    stream = batch(oracle, theta, 1, rewarded=False)
    assert not oracle.policy_gradient(theta, 1, stream).any()
    assert not oracle.hessian_vector_product(theta, v, 1, stream).any()
    assert not oracle.hessian_vector_product(theta, v, 1, stream, credit="causal").any()
    b = np.full(population.horizon + 1, 0.1)
    truth = Reference(population, oracle.trajectories(theta, 1, stream)).hessian_vector_product(theta, v, "causal", b)
    assert error(oracle.hessian_vector_product(theta, v, 1, stream, credit="causal", baseline=b), truth) <= 1e-5


@pytest.mark.parametrize("m", [1, 10, 129])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_fitted_baseline_is_the_reference_s_on_the_same_trajectories(family: str, m: int) -> None:
    population = rewarding(FAMILIES[family])
    oracle, (theta, _) = fused(population), vectors(population.policy)
    stream = batch(oracle, theta, m, rewarded=True)
    truth = Reference(population, oracle.trajectories(theta, m, stream)).value_baseline(theta)
    assert error(oracle.value_baseline(theta, m, stream), truth) <= 1e-4


@pytest.mark.parametrize("scale", [10.0, 50.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_large_parameters(family: str, scale: float) -> None:
    """Logits of +-50 and far beyond: almost every decision is certain, and what is left of the gradient, however
    small, has its digits (float32 logits of size y leave p a relative error of y 2^-24 a few times over)."""
    population = rewarding(FAMILIES[family])
    policy = population.policy
    theta, _ = vectors(policy)
    if isinstance(policy, MLPSoftmax):
        theta[: 3 * policy.hidden[0]] *= 4.0
    theta[-policy.dim // 2 :] *= scale
    oracle, v = fused(population), vectors(policy)[1]
    reference = Reference(population, oracle.trajectories(theta, 129, STREAM))
    assert error(oracle.policy_gradient(theta, 129, STREAM), reference.policy_gradient(theta)) <= 1e-3
    product = oracle.hessian_vector_product(theta, v, 129, STREAM)
    assert error(product, reference.hessian_vector_product(theta, v)) <= 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_certain_decisions_have_no_gradient(family: str) -> None:
    population = rewarding(FAMILIES[family])
    policy = population.policy
    theta = np.zeros(policy.dim)
    if isinstance(policy, TabularSoftmax):
        theta.reshape(policy.states, policy.actions)[:, 1] = 1e30
    else:
        theta[-2] = 1e30
    oracle, v = fused(population), vectors(policy)[1]
    assert np.abs(oracle.policy_gradient(theta, 100, STREAM)).max() < 1e-30
    assert np.abs(oracle.hessian_vector_product(theta, v, 100, STREAM)).max() < 1e-30


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_that_are_no_numbers_give_answers_that_are_none(family: str, bad: float) -> None:
    population = rewarding(FAMILIES[family])
    oracle, (theta, v) = fused(population), vectors(population.policy)
    theta[-population.policy.dim :: 3] = bad
    assert not np.isfinite(oracle.policy_gradient(theta, 100, STREAM)).all()
    assert not np.isfinite(oracle.hessian_vector_product(theta, v, 100, STREAM)).all()


def test_the_estimators_are_unbiased_and_the_test_sees_a_bias() -> None:
    """On the gridworld, 200 batches of 1000: along 20 random directions, the mean within four of its standard errors of
    the exact value (83 comparisons: a chance of 0.5 % for right ones at random, and the seeds are fixed)."""
    population = rewarding(gridworld(n=1))
    oracle, (theta, v) = fused(population), vectors(population.policy)
    mdp = GridworldTask((2, 2)).mdp()
    truth = ExactOracle(mdp, population.policy, population.gamma, population.horizon)
    shorter = ExactOracle(mdp, population.policy, population.gamma, population.horizon - 1)
    streams = [Stream(1, 0, batch, 0, Purpose.HESSIAN) for batch in range(200)]
    directions = np.random.default_rng(5).standard_normal((population.policy.dim, 20))

    def deviation(estimates: Any, exact: Any) -> float:
        spread = np.std(estimates, axis=0, ddof=1) / np.sqrt(len(estimates))
        return float((np.abs(np.mean(estimates, axis=0) - exact) / spread).max())

    g = np.array([oracle.policy_gradient(theta, 1000, stream) for stream in streams])
    assert deviation(g @ directions, truth.policy_gradient(theta) @ directions) < 4
    assert deviation(g @ directions, shorter.policy_gradient(theta) @ directions) > 4
    for estimator in ({}, {"credit": "causal"}, {"credit": "causal", "baseline": truth.mean_rewards(theta)}):
        u_v = np.array([oracle.hessian_vector_product(theta, v, 1000, stream, **estimator) for stream in streams])
        H_v = truth.hessian_vector_product(theta, v)
        assert deviation(u_v @ directions, H_v @ directions) < 4, estimator
        assert deviation(u_v @ directions, 0.8 * H_v @ directions) > 4, estimator
    outcomes = np.array([oracle.returns(theta, 1000, stream) for stream in streams])
    assert deviation(outcomes, np.array(truth.returns(theta))) < 4
    assert deviation(outcomes, np.array(shorter.returns(theta))) > 4


def test_another_size_of_grid_is_the_same_machine_code_and_exact_in_the_mean() -> None:
    """9 x 9 on the fused oracle: return, success, final distance and the gradient along 20 random directions, over 50
    batches of 1000, within four of their standard errors; no start is the goal."""
    population = gridworld(n=8, size=9, horizon=12)
    arguments = (population.policy, population.gamma, population.horizon)
    oracle, theta = FusedOracle(population.train[4], *arguments), vectors(population.policy)[0]
    task = population.train[4]
    assert isinstance(task, GridworldTask)
    truth = ExactOracle(task.mdp(), *arguments)
    streams = [Stream(1, 0, batch, 0, Purpose.INNER) for batch in range(50)]
    directions = np.random.default_rng(5).standard_normal((population.policy.dim, 20))
    g = np.array([oracle.policy_gradient(theta, 1000, stream) for stream in streams]) @ directions
    outcomes = np.array([oracle.returns(theta, 1000, stream) for stream in streams])
    for found, exact in ((g, truth.policy_gradient(theta) @ directions), (outcomes, np.array(truth.returns(theta)))):
        spread = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert (np.abs(found.mean(axis=0) - exact) < 4 * spread).all()
    starts = oracle.trajectories(theta, 4000, streams[0]).observations[:, 0]
    assert set(starts) == set(range(81)) - {4}


@pytest.mark.parametrize("family", FAMILIES)
def test_returns_and_mean_rewards_are_the_trajectories_own(family: str) -> None:
    population = rewarding(FAMILIES[family])
    oracle, (theta, _) = fused(population), vectors(population.policy)
    xi = oracle.trajectories(theta, 129, STREAM)
    rewards = population.gamma ** np.arange(population.horizon + 1) * xi.rewards
    np.testing.assert_allclose(oracle.mean_rewards(theta, 129, STREAM), rewards.mean(0), rtol=1e-6)
    outcome = oracle.returns(theta, 129, STREAM)
    expected = (rewards.sum(1).mean(), xi.success.mean(), xi.final_distance.mean())
    np.testing.assert_allclose(outcome, expected, rtol=1e-6)
    assert 0 < outcome.success < 1


def test_the_meter_counts_what_is_sampled_and_not_what_is_drawn_again() -> None:
    population = FAMILIES["gridworld"]
    oracle, (theta, v) = fused(population), vectors(population.policy)
    oracle.policy_gradient(theta, 10, STREAM)
    oracle.hessian_vector_product(theta, v, 20, STREAM)
    oracle.returns(theta, 30, STREAM)
    assert (oracle.meter.trajectories, oracle.meter.env_steps) == (60, 60 * 16)
    seconds = oracle.meter.seconds
    assert seconds > 0
    oracle.mean_rewards(theta, 10, STREAM)
    oracle.value_baseline(theta, 10, STREAM)
    oracle.hessian_vector_product(theta, v, 10, STREAM, credit="none")
    assert (oracle.meter.trajectories, oracle.meter.env_steps) == (60, 60 * 16)
    assert oracle.meter.seconds > seconds


def test_theta_may_be_read_only_and_is_left_alone() -> None:
    population = FAMILIES["gridworld"]
    oracle, (theta, v) = fused(population), vectors(population.policy)
    theta.flags.writeable = v.flags.writeable = False
    first = oracle.hessian_vector_product(theta, v, 10, STREAM)
    assert first.dtype == np.float64
    oracle.policy_gradient(theta, 10, STREAM)
    assert first.tobytes() == oracle.hessian_vector_product(theta, v, 10, STREAM).tobytes()


def test_bad_questions_are_refused() -> None:
    population = FAMILIES["gridworld"]
    oracle, (theta, v) = fused(population), vectors(population.policy)
    with pytest.raises(ValueError, match="m = 0"):
        oracle.policy_gradient(theta, 0, STREAM)
    with pytest.raises(ValueError, match="shape"):
        oracle.policy_gradient(theta[:1], 1, STREAM)
    with pytest.raises(ValueError, match="credit = 'all'"):
        oracle.hessian_vector_product(theta, v, 1, STREAM, baseline=np.zeros(16))
    with pytest.raises(ValueError, match="credit = 'newton'"):
        oracle.hessian_vector_product(theta, v, 1, STREAM, credit="newton")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lanes = 3"):
        fused(population, lanes=3)
    with pytest.raises(ValueError, match="horizon = 16380"):
        fused(dataclasses.replace(population, horizon=4 * DRAWS - 4))


def test_what_is_covered() -> None:
    grid, point = GridworldTask((0, 0)), NavigationTask((0.8, 0.0))
    assert covers(grid, TabularSoftmax(25, 4))
    assert covers(point, MLPSoftmax(2, 8, (3,)))
    for task, policy in (
        (grid, MLPSoftmax(2, 8, (3,))),
        (grid, TabularSoftmax(24, 4)),
        (point, TabularSoftmax(25, 4)),
        (point, MLPSoftmax(2, 8, (3, 3))),
        (point, MLPSoftmax(2, 9, (3,))),
        (point, MLPGaussian(2, 2, (3,))),
    ):
        assert not covers(task, policy)
        with pytest.raises(ValueError, match="take the oracle autodiff"):
            FusedOracle(task, policy, 0.9, 5)


def test_a_subclass_has_its_parents_kernel_unless_it_says_otherwise() -> None:
    class Named(GridworldTask):
        name = "the same environment"

    class Windy(GridworldTask):
        kernel = None

    policy = TabularSoftmax(25, 4)
    assert covers(Named((0, 0)), policy)
    assert not covers(Windy((0, 0)), policy)
    assert not covers(QuadraticTask(1.0, 0.0), policy)
