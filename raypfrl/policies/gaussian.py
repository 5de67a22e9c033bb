"""A Gaussian without a network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raypfrl.policies.policy import Array, Vector

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class UnitGaussian:
    """pi(x) = N(w, 1), theta = (w,). Decisions are scalars; the observation says nothing."""

    dim: int = 1

    def init(self, rng: np.random.Generator) -> Vector:
        """theta^0 = 0."""
        return np.zeros(self.dim)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """One standard normal number a decision."""
        return rng.standard_normal(shape)

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """w + noise."""
        action: Vector = theta[0] + noise
        return action

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """-(x - w)^2 / 2 - log(2 pi) / 2."""
        return -0.5 * (action.to(theta.dtype) - theta[0]) ** 2 - 0.5 * math.log(2 * math.pi)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """None: there is nothing to tell states apart by."""
        return theta.new_zeros(len(observation), 0)
