"""Policies on finitely many states (Example 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from raypfrl.policies.distributions import categorical, categorical_log_prob
from raypfrl.policies.policy import Array, Vector
from raypfrl.policies.scores import ScoreBounds, log_linear_scores, tight_scores

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TabularSoftmax:
    """pi(a|s) = softmax(theta[s])_a: Example 1 with one-hot features, B = 1. theta is (states, actions), row-major."""

    states: int
    actions: int

    @property
    def dim(self) -> int:
        """d = states x actions."""
        return self.states * self.actions

    def init(self, rng: np.random.Generator) -> Vector:
        """theta^0 = 0, the uniform policy."""
        return np.zeros(self.dim)

    def logits(self, theta: Vector) -> NDArray[np.float64]:
        """The (states, actions) table of logits, a linear map of theta."""
        return theta.reshape(self.states, self.actions)

    def scores(self) -> ScoreBounds:
        """One-hot features: B = 1, any two sqrt 2 apart."""
        return ScoreBounds(log_linear_scores(1.0), tight_scores(math.sqrt(2)))

    def pullback(self, table: NDArray[np.float64]) -> Vector:
        """The transpose of ``logits``: from a gradient in the logits to one in theta."""
        return table.reshape(-1)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """One uniform number an action."""
        return rng.random(shape)

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """The action whose cumulative probability first exceeds the uniform number."""
        return categorical(self.logits(theta)[observation], noise)

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """theta[s, a] - logsumexp(theta[s])."""
        return categorical_log_prob(theta.reshape(self.states, self.actions)[observation.long()], action)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """One-hot in the state."""
        return _one_hot(theta, observation, self.states)


@dataclass(frozen=True)
class LinearSoftmax:
    """pi(a|s) proportional to exp(phi(s, a) . theta): Example 1. features is phi, nested (states, actions, d)."""

    features: tuple[tuple[tuple[float, ...], ...], ...]

    @property
    def dim(self) -> int:
        """d, the length of phi(s, a)."""
        return len(self.features[0][0])

    def init(self, rng: np.random.Generator) -> Vector:
        """theta^0 = 0, the uniform policy."""
        return np.zeros(self.dim)

    def logits(self, theta: Vector) -> NDArray[np.float64]:
        """The (states, actions) table of logits, a linear map of theta."""
        return np.array(self.features) @ theta

    def scores(self) -> ScoreBounds:
        """By the largest feature; by the largest distance of two of a state where they are scalars."""
        phi = np.array(self.features)
        largest = float(np.linalg.norm(phi, axis=-1).max())
        apart = float(np.linalg.norm(phi[:, :, None] - phi[:, None], axis=-1).max())
        return ScoreBounds(log_linear_scores(largest), tight_scores(apart) if self.dim == 1 else None)

    def pullback(self, table: NDArray[np.float64]) -> Vector:
        """The transpose of ``logits``: from a gradient in the logits to one in theta."""
        return np.tensordot(table, np.array(self.features), axes=2)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """One uniform number an action."""
        return rng.random(shape)

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """The action whose cumulative probability first exceeds the uniform number."""
        return categorical(self.logits(theta)[observation], noise)

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """phi(s, a) . theta - logsumexp(phi(s, .) . theta)."""
        return categorical_log_prob(theta.new_tensor(self.features)[observation.long()] @ theta, action)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """One-hot in the state."""
        return _one_hot(theta, observation, len(self.features))


def _one_hot(theta: Tensor, state: Tensor, states: int) -> Tensor:
    import torch

    return torch.nn.functional.one_hot(state.long(), states).to(theta.dtype)
