"""Linear feedback, the policy of linear-quadratic control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raypfrl.policies.policy import Array, Vector

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LinearFeedback:
    """u = -K x, theta = K (controls, states) row by row. It is deterministic, so it has no density and no score: its
    gradients come from formulas, or from returns alone. start: theta^0."""

    states: int
    controls: int
    start: tuple[float, ...]

    @property
    def dim(self) -> int:
        """d = controls x states."""
        return self.controls * self.states

    def init(self, rng: np.random.Generator) -> Vector:
        """The start: not every K keeps a system stable, so none is drawn."""
        return np.array(self.start)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """None."""
        return np.zeros(shape)

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """-K x, shape (batch, controls)."""
        return np.asarray(-np.einsum("us,bs->bu", theta.reshape(self.controls, self.states), observation))

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """Raises NotImplementedError."""
        raise NotImplementedError("linear feedback is deterministic: its actions have no density")

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """The state itself."""
        return observation.to(theta.dtype)
