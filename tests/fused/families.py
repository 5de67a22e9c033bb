"""What the tests of the fused oracle run on: one row a family of tasks and policies, and how to ask autodiff."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from raypfrl.oracles import autodiff
from raypfrl.oracles.fused import FusedOracle, Trajectories
from raypfrl.policies import Policy, Vector
from raypfrl.populations import Population, gridworld, navigation
from raypfrl.streams import Purpose, Stream

FAMILIES: Mapping[str, Population] = {"gridworld": gridworld(n=2), "navigation": navigation(n=2)}
STREAM = Stream(seed=7, agent=2**32 - 1, round=3, step=4, purpose=Purpose.HESSIAN)


def fused(population: Population, lanes: int = 16) -> FusedOracle:
    """The oracle of the population's first agent."""
    return FusedOracle(population.train[0], population.policy, population.gamma, population.horizon, lanes=lanes)


def vectors(policy: Policy, scale: float = 0.5, seed: int = 0) -> tuple[Vector, Vector]:
    """A theta of normal numbers of size ``scale``, and a v."""
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal(policy.dim), rng.standard_normal(policy.dim)


class Reference:
    """Float64 autodiff of (2) and (3) on a batch that the fused oracle has sampled."""

    def __init__(self, population: Population, batch: Trajectories) -> None:
        self._oracle = autodiff.AutodiffOracle(
            population.train[0], population.policy, population.gamma, population.horizon
        )
        rewards = torch.tensor(batch.rewards)
        self._batch = autodiff.Trajectories(
            torch.tensor(batch.observations),
            torch.tensor(batch.actions),
            rewards,
            torch.ones_like(rewards),
            batch.success,
            batch.final_distance,
        )

    def policy_gradient(self, theta: Vector) -> Vector:
        """(2)."""
        return self._oracle.policy_gradient_on(self._batch, theta)

    def value_baseline(self, theta: Vector) -> Vector:
        """The fit of ``oracles/baseline.py``."""
        self._oracle._sampled_before = lambda *name: self._batch  # type: ignore[method-assign]
        return self._oracle.value_baseline(theta, len(self._batch.rewards), STREAM)

    def hessian_vector_product(
        self, theta: Vector, v: Vector, curvature: str = "paper", baseline: Vector | None = None
    ) -> Vector:
        """(3), or the causal form."""
        if curvature == "causal":
            return self._oracle.causal_hessian_vector_product_on(self._batch, theta, v, baseline)
        return self._oracle.hessian_vector_product_on(self._batch, theta, v)


def error(answer: Vector, truth: Vector) -> float:
    """The relative error in the Euclidean norm."""
    return float(np.linalg.norm(answer - truth) / np.linalg.norm(truth))
