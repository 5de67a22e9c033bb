"""The yardstick of benchmarks.estimators computes what it is compared with."""

from __future__ import annotations

import numpy as np

from benchmarks.numpy_reference import Batch, NumpyReference
from raypfrl.populations import navigation
from tests.fused.families import STREAM, error, fused, vectors


def test_the_benchmarks_reference_agrees_on_the_same_trajectories() -> None:
    population = navigation(n=1)
    task, policy, gamma, horizon = population.train[0], population.policy, population.gamma, population.horizon
    reference = NumpyReference(task, policy, gamma, horizon)  # type: ignore[arg-type]
    oracle, (theta, v) = fused(population), vectors(policy)
    xi = oracle.trajectories(theta, 129, STREAM)
    R = (gamma ** np.arange(horizon + 1) * xi.rewards)[:, ::-1].cumsum(1)[:, ::-1]
    batch = Batch(xi.observations, xi.actions, R)
    assert error(oracle.policy_gradient(theta, 129, STREAM), reference.policy_gradient_on(batch, theta)) <= 1e-5
    product = oracle.hessian_vector_product(theta, v, 129, STREAM)
    assert error(product, reference.hessian_vector_product_on(batch, theta, v)) <= 1e-5
    own = reference.sample(theta, 2000, STREAM)  # and its rollouts are like the oracle's: four standard errors
    many = oracle.returns(theta, 100_000, STREAM).return_
    assert abs(own.R[:, 0].mean() - many) < 4 * own.R[:, 0].std() * np.sqrt(1 / 2000 + 1 / 100_000)
