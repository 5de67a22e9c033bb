"""Episodes that end, real actions, and the estimators of a family's own, compiled: against autodiff on the same
trajectories, the environment that the kernel stands for, and the distribution that actions are drawn from."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from scipy import stats

from raypfrl.oracles import Credit
from raypfrl.oracles.advantages import advantages
from raypfrl.oracles.fused import FusedOracle, covers
from raypfrl.policies import MLPGaussian, Vector
from raypfrl.populations import CartPoleTask, Estimator, Population, cartpole, point_mass
from raypfrl.populations.population import PAPER
from tests.fused.families import READY, STREAM, Reference, error, fused, vectors

ESTIMATORS = [
    PAPER, Estimator(average=True), Estimator(normalise=True), Estimator("time"), Estimator("value", True, True),
    Estimator("linear", False, True), Estimator("linear", True, True),
]  # fmt: skip


def estimated(population: Population, estimator: Estimator) -> Population:
    """With a first agent that estimates so."""
    task = population.train[0]
    if isinstance(task, CartPoleTask):
        return dataclasses.replace(population, train=(dataclasses.replace(task, estimator=estimator),))
    kind = type("Estimating", (type(task),), {"estimator": estimator})
    return dataclasses.replace(population, train=(kind(task.goal),))  # type: ignore[union-attr]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("family", READY)
def test_estimates_are_autodiffs_on_the_same_trajectories(family: str, estimator: Estimator) -> None:
    population = estimated(READY[family], estimator)
    oracle, (theta, v) = fused(population), vectors(population.policy, scale=0.3)
    credits: list[Credit] = ["all", "causal", "none"]
    tolerance = 5e-4 if estimator.baseline == "value" else 2e-5  # hidden units in float32, twenty for 70 decisions
    for m in (7, 129):
        xi = oracle.trajectories(theta, m, STREAM)
        truth = Reference(population, xi, estimator)
        assert error(oracle.policy_gradient(theta, m, STREAM), truth.policy_gradient(theta)) <= tolerance
        for credit in credits:
            product = oracle.hessian_vector_product(theta, v, m, STREAM, credit=credit)
            assert error(product, truth.hessian_vector_product(theta, v, credit)) <= tolerance, credit
    if estimator == PAPER:
        b_w = oracle.value_baseline(theta, m, STREAM)
        assert error(b_w, truth.value_baseline(theta)) <= 1e-3
        product = oracle.hessian_vector_product(theta, v, m, STREAM, credit="causal", baseline=b_w)
        assert error(product, truth.hessian_vector_product(theta, v, "causal", b_w)) <= 2e-5
        assert error(oracle.score_sum(theta, m, STREAM), truth.score_sum(theta)) <= 2e-5


def test_what_an_estimator_takes_off_is_the_reference_s() -> None:
    """Decision by decision, and the deviation it divides by."""
    population = READY["cartpole"]
    estimator = Estimator("linear", normalise=True, average=True)
    oracle, (theta, _) = fused(population), vectors(population.policy, scale=0.3)
    batch = Reference(population, oracle.trajectories(theta, 50, STREAM)).batch
    discounts = population.gamma ** np.arange(population.horizon + 1)
    R = batch.reward_to_go(discounts)
    A, unit, _ = advantages(batch, R, discounts, estimator, lambda: np.empty(0))
    B, w, c = oracle._advantages(theta, 50, STREAM)
    o = batch.observations
    value = discounts[batch.columns] * (np.hstack([o, o**2]) @ w)
    np.testing.assert_allclose(R - B[batch.columns] - value, A, atol=1e-4)
    assert unit == pytest.approx(50 / (c * len(A)), rel=1e-6)


def test_returns_that_are_all_alike_say_nothing() -> None:
    population = dataclasses.replace(READY["cartpole"], horizon=0)
    oracle, (theta, v) = fused(population), vectors(population.policy)
    assert not oracle.policy_gradient(theta, 20, STREAM).any()
    assert not oracle.hessian_vector_product(theta, v, 20, STREAM).any()


# --- episodes that end --------------------------------------------------------------------------------------------


def test_what_is_charged_is_what_was_lived() -> None:
    population = READY["cartpole"]
    oracle, (theta, v) = fused(population), vectors(population.policy)
    lived = int(oracle.trajectories(theta, 37, STREAM).lengths.sum())
    assert 37 * 5 < lived < 37 * (population.horizon + 1)
    assert oracle.meter.env_steps == lived
    for charged, ask in enumerate(
        (
            lambda: oracle.policy_gradient(theta, 37, STREAM),
            lambda: oracle.hessian_vector_product(theta, v, 37, STREAM),
            lambda: oracle.returns(theta, 37, STREAM),
        ),
        2,
    ):
        ask()
        assert (oracle.meter.trajectories, oracle.meter.env_steps) == (charged * 37, charged * lived)
    oracle.hessian_vector_product(theta, v, 37, STREAM, credit="none")
    oracle.value_baseline(theta, 37, STREAM)
    oracle.score_sum(theta, 37, STREAM)
    oracle.mean_rewards(theta, 37, STREAM)
    assert oracle.meter.env_steps == 4 * lived


def test_returns_are_the_trajectories_own() -> None:
    """A longer horizon changes no episode that ended before it, nor a batch that an episode stands in."""
    population = READY["cartpole"]
    oracle, (theta, _) = fused(population), vectors(population.policy, scale=0.3)
    xi = oracle.trajectories(theta, 129, STREAM)
    assert oracle.returns(theta, 129, STREAM).return_ == pytest.approx(xi.lengths.mean())
    assert math.isnan(oracle.returns(theta, 129, STREAM).success)
    rewards = oracle.mean_rewards(theta, 129, STREAM)
    np.testing.assert_allclose(rewards, (np.arange(60) < xi.lengths[:, None]).mean(0), rtol=1e-6)
    longer = fused(dataclasses.replace(population, horizon=199)).trajectories(theta, 20, STREAM)
    assert (np.minimum(longer.lengths, 60) == xi.lengths[:20]).all()
    assert (longer.observations[:, :60] == xi.observations[:20])[np.arange(60) < xi.lengths[:20, None]].all()


def replayed(population: Population, m: int) -> tuple[Any, Any]:
    """m trajectories, and the environment that they are told to."""
    task = population.train[0]
    env: Any = gymnasium.make(task.env_id, **task.env_kwargs)  # type: ignore[union-attr]
    env.reset(seed=0)
    return fused(population).trajectories(vectors(population.policy, 0.3)[0], m, STREAM), env.unwrapped


@pytest.mark.parametrize("number", range(4))
def test_gymnasiums_cartpole_goes_the_same_way(number: int) -> None:
    """Every decision of 20 episodes from the state that it was taken in, ends included: a cart and pole amplify what
    differs in the last digits, so whole episodes of two precisions part."""
    tasks = cartpole(n=4).train
    population = dataclasses.replace(cartpole(n=4), train=(tasks[number],))
    xi, env = replayed(population, 20)
    for states, actions, length in zip(xi.observations, xi.actions, xi.lengths, strict=True):
        for h in range(length):
            env.state, env.steps_beyond_terminated = states[h], None
            observation, reward, terminated, _, _ = env.step(actions[h])
            assert reward == 1.0
            edge = min(abs(abs(observation[0]) - 2.4), abs(abs(observation[2]) - math.radians(12)))
            if edge > 1e-5:  # else rounding decides
                assert terminated == (h + 1 == length < population.horizon + 1)
            if h + 1 < length:
                np.testing.assert_allclose(states[h + 1], observation, atol=1e-5)


def test_the_point_mass_goes_the_same_way() -> None:
    """Whole episodes; actions beyond the bounds are clipped by both."""
    population = READY["point_mass"]
    xi, env = replayed(population, 20)
    assert np.abs(xi.actions).max() > 1
    for i in range(20):
        env.position = xi.observations[i, 0].copy()
        success = False
        for h in range(population.horizon + 1):
            np.testing.assert_allclose(xi.observations[i, h], env.position, atol=1e-5)
            _, reward, _, _, info = env.step(xi.actions[i, h].astype(np.float32))
            assert xi.rewards[i, h] == pytest.approx(reward, abs=1e-5)
            success |= info["success"]
        assert success == xi.success[i]
        assert xi.final_distance[i] == pytest.approx(info["distance"], abs=1e-5)


# --- real actions -------------------------------------------------------------------------------------------------


def standardised(population: Population, xi: Any, theta: Vector) -> Vector:
    """(x - mean) / std of every number of every action, by the policy's own act."""
    policy = population.policy
    flat = xi.observations.reshape(-1, xi.observations.shape[-1])
    mean = policy.act(theta, flat, np.zeros((len(flat), 2)))
    std = policy.act(theta, flat, np.ones((len(flat), 2))) - mean
    return np.asarray((xi.actions.reshape(mean.shape) - mean) / std)


@pytest.mark.parametrize("family", ["point_mass", "point_mass_given_std"])
def test_real_actions_are_drawn_from_the_policy(family: str) -> None:
    """What is left of them is standard normal, and independent from number to number and decision to decision."""
    population = READY[family]
    theta = vectors(population.policy, scale=0.3)[0]
    e = standardised(population, fused(population).trajectories(theta, 4000, STREAM), theta)
    assert stats.kstest(e[:, 0], "norm").pvalue > 1e-3
    assert stats.kstest(e[:, 1], "norm").pvalue > 1e-3
    numbers = e.reshape(4000, -1)
    correlation = np.corrcoef(numbers.T) - np.eye(numbers.shape[1])
    assert np.abs(correlation).max() < 5 / math.sqrt(4000)
    squares = np.corrcoef((numbers**2).T) - np.eye(numbers.shape[1])
    assert np.abs(squares).max() < 6 / math.sqrt(4000)
    assert stats.kstest(1.1 * e[:, 0], "norm").pvalue < 1e-3


def test_a_given_standard_deviation_is_no_part_of_theta() -> None:
    """And acts as the learned one of its size."""
    given, learned = (point_mass(n=1, horizon=4, std=std) for std in (0.7, 0.0))
    theta = vectors(given.policy)[0]
    both = np.append(theta, np.log([0.7, 0.7]))
    g, longer = fused(given).policy_gradient(theta, 50, STREAM), fused(learned).policy_gradient(both, 50, STREAM)
    assert g.shape == theta.shape
    assert g.tobytes() == longer[:-2].tobytes()


def test_what_is_not_compiled_is_refused_with_the_remedy() -> None:
    task, policy = point_mass(n=1).train[0], MLPGaussian(2, 2, (3, 3))
    assert not covers(task, policy)
    with pytest.raises(ValueError, match="take the oracle autodiff"):
        FusedOracle(task, policy, 0.9, 5)
    with pytest.raises(ValueError, match="horizon = 8190: the fused oracle takes at most 8189"):
        FusedOracle(task, MLPGaussian(2, 2, (3,)), 0.9, 8190)


def test_parameters_that_are_no_numbers_give_answers_that_are_none() -> None:
    for population in READY.values():
        oracle, (theta, v) = fused(population), vectors(population.policy)
        theta[::3] = np.nan
        assert not np.isfinite(oracle.policy_gradient(theta, 20, STREAM)).all()
        assert not np.isfinite(oracle.hessian_vector_product(theta, v, 20, STREAM)).all()


def test_torch_and_the_kernel_agree_on_log_pi() -> None:
    """The density is that of what was drawn, clipped or not: z by finite differences of the summed log density."""
    population = READY["point_mass"]
    oracle, (theta, v) = fused(population), vectors(population.policy, scale=0.3)
    xi = oracle.trajectories(theta, 30, STREAM)
    seen, acted = (torch.tensor(part.reshape(-1, 2)) for part in (xi.observations, xi.actions))

    def total(at: Vector) -> float:
        return float(population.policy.log_prob(torch.tensor(at), seen, acted).sum())

    slope = (total(theta + 1e-5 * v) - total(theta - 1e-5 * v)) / 2e-5
    assert oracle.score_sum(theta, 30, STREAM) @ v == pytest.approx(slope, rel=1e-4)
