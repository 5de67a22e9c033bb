"""The entropy bonus: against the maximum-entropy objective of a small MDP, and finite differences on a batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_advantages import DISCOUNTS, TASK, H
from tiny import GymTask, as_batch, central_difference, enumerated, random_mdp

from raypfrl import RunConfig
from raypfrl.oracles.advantages import advantages
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.policies import MLPGaussian, MLPSoftmax, TabularSoftmax
from raypfrl.populations import MDP, Estimator
from raypfrl.streams import Purpose, Stream

GAMMA, HORIZON, BONUS = 0.8, 2, 0.7
LINEAR = MLPSoftmax(2, 2, ())  # its state features are the observation: nothing in them moves with theta


def maximum_entropy(mdp, theta, end, bonus=BONUS):
    """J_e by dynamic programming: a decision's reward and e times the policy's entropy, none in the state ``end``."""
    P, r, mu = (torch.tensor(part) for part in mdp[:3])
    pi = torch.softmax(theta.reshape(r.shape), -1)
    entropy = -(pi * torch.log(pi)).sum(-1)
    alive = torch.ones(len(mu))
    if end is not None:
        alive[end] = 0
    value = torch.zeros_like(mu)
    for _ in range(HORIZON + 1):
        value = alive * ((pi * (r + GAMMA * P @ value)).sum(-1) + bonus * entropy)
    return mu @ value


@pytest.mark.parametrize("end", [None, 2])
def test_the_mean_is_the_derivatives_of_the_maximum_entropy_objective(end):
    """By enumeration: g of grad J_e, and both Hessian products of hess J_e v, the causal one with any baseline; and
    without the bonus they are not."""
    mdp = random_mdp(4)
    if end is not None:
        P, r, mu, _ = mdp
        P[end], r[end] = np.eye(3)[end], 0
        mdp = MDP(P, r, mu)
    policy = TabularSoftmax(3, 2)
    theta, v = np.random.default_rng(2).normal(size=(2, policy.dim))
    oracle, plain = (AutodiffOracle(GymTask("none"), policy, GAMMA, HORIZON, Estimator(entropy=e)) for e in (BONUS, 0))
    trajectories = [(xi.q, as_batch(mdp, xi, end=end)) for xi in enumerated(mdp, theta, HORIZON) if xi.q > 0]

    def mean(function):
        return sum(q * function(batch) for q, batch in trajectories)

    at = torch.tensor(theta)
    gradient = torch.func.grad(lambda x: maximum_entropy(mdp, x, end))(at).numpy()
    hessian = torch.func.hessian(lambda x: maximum_entropy(mdp, x, end))(at).numpy()
    assert mean(lambda batch: oracle.policy_gradient_on(batch, theta)) == pytest.approx(gradient, abs=1e-12)
    for how in (("all",), ("causal",), ("causal", np.array([0.7, -0.4, 0.2]))):
        product = mean(lambda batch, how=how: oracle.hessian_vector_product_on(batch, theta, v, *how))
        assert product == pytest.approx(hessian @ v, abs=1e-12)
    assert np.abs(mean(lambda batch: plain.policy_gradient_on(batch, theta)) - gradient).max() > 0.01
    assert np.abs(mean(lambda batch: plain.hessian_vector_product_on(batch, theta, v)) - hessian @ v).max() > 0.01


@pytest.mark.parametrize("baseline", ["none", "time", "linear", "value"])
@pytest.mark.parametrize("normalise", [False, True])
def test_without_credit_the_product_is_the_derivative_of_g_in_its_unit(baseline, normalise):
    """By central differences of g on ragged episodes, baseline, mean and bonus moving along; how the unit moves is not
    differentiated."""
    estimator = Estimator(baseline, normalise, True, BONUS)
    oracle = AutodiffOracle(TASK, LINEAR, 0.9, H, estimator)
    theta, v = np.random.default_rng(0).normal(size=(2, LINEAR.dim))
    batch = oracle.sample(theta, 30, Stream(0, 0, 0, 0, Purpose.INNER))

    def unit(at):
        R = oracle._reward_to_go(batch, at)
        return advantages(batch, R, DISCOUNTS, estimator, lambda: oracle._state_features(batch, at)).unit

    def g(e):
        return oracle.policy_gradient_on(batch, theta + e * v) / unit(theta + e * v)

    moved = central_difference(g, np.zeros(1))
    product = oracle.hessian_vector_product_on(batch, theta, v, "none")
    assert product == pytest.approx(unit(theta) * moved[0], rel=1e-5, abs=1e-7)
    plain = AutodiffOracle(TASK, LINEAR, 0.9, H, estimator._replace(entropy=0.0))
    assert np.abs(product - plain.hessian_vector_product_on(batch, theta, v, "none")).max() > 1e-3


def test_a_gaussians_bonus_pulls_its_deviation_up():
    """With a bonus far above any reward: d/d log_std of a Gaussian's entropy is 1, in each of H + 1 decisions."""
    policy = MLPGaussian(2, 2, (3,))
    theta, e = policy.init(np.random.default_rng(0)), 1e6
    oracle = AutodiffOracle(GymTask("tiny/Reach-v0"), policy, 1.0, 0, Estimator(entropy=e))
    stream = Stream(0, 0, 0, 0, Purpose.INNER)
    pulls = np.array([oracle.policy_gradient(theta, 50, stream_of)[-2:] / e for stream_of in streams(stream, 40)])
    error = pulls.std(0, ddof=1) / np.sqrt(len(pulls))
    assert (np.abs(pulls.mean(0) - 1) < 3 * error).all()


def streams(first, number):
    """As many batches."""
    return [Stream(0, 0, k, first.step, first.purpose) for k in range(number)]


def test_what_a_return_is_has_no_bonus_and_what_a_baseline_is_fitted_to_has():
    stream = Stream(0, 0, 0, 0, Purpose.INNER)
    plain, other = (AutodiffOracle(TASK, LINEAR, 0.9, H, Estimator(entropy=e)) for e in (0.0, BONUS))
    theta = np.zeros(LINEAR.dim)
    assert plain.returns(theta, 20, stream) == other.returns(theta, 20, stream)
    lengths = plain.sample(theta, 20, stream).lengths
    alive = np.array([(lengths > h).mean() for h in range(H + 1)])
    bonus = BONUS * np.log(2) * alive * DISCOUNTS  # the uniform policy's, in every decision
    assert other.mean_rewards(theta, 20, stream) == pytest.approx(plain.mean_rewards(theta, 20, stream) + bonus)


def test_the_bonus_is_a_setting_that_renames_no_trial_at_its_default():
    def config(**more):
        return RunConfig(population="gymnasium", method="exact", n=2, horizon=9, **more)

    assert config().key() == config(entropy=0).key() != config(entropy=0.01).key()
    assert "entropy" not in config().identity()
    assert config(entropy=0.01).build_population().train[0].estimator.entropy == 0.01
