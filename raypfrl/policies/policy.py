"""The interface of a policy pi(a|s; theta) over one flat float64 vector theta, and what some can do beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Vector = NDArray[np.float64]
Array = NDArray[Any]


class Policy(Protocol):
    """What an oracle needs of a policy. Shapes: theta (dim,), observations (batch, ...), actions (batch, ...).

    ``act`` is NumPy: an environment is stepped without torch. ``log_prob`` is torch: it is differentiated.
    """

    @property
    def dim(self) -> int:
        """d, the length of theta."""

    def init(self, rng: np.random.Generator) -> Vector:
        """theta^0, shape (dim,)."""

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """The randomness of one action each, drawn ahead of the rollout; leading axes ``shape``."""

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """The actions that ``noise`` selects under pi(.|observation; theta), shape (batch, ...). A row's action must
        not depend, in a single bit, on the other rows: which episodes run side by side changes no result."""

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """log pi(action|observation; theta), shape (batch,); differentiable in theta."""

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """phi(s), shape (batch, f): what a baseline of the reward-to-go is linear in (``oracles/baseline.py``)."""


@runtime_checkable
class LogLinear(Policy, Protocol):
    """A softmax policy on finitely many states whose logits are linear in theta: what the exact oracle solves."""

    def logits(self, theta: Vector) -> NDArray[np.float64]:
        """The (states, actions) table of logits, a linear map of theta."""

    def pullback(self, table: NDArray[np.float64]) -> Vector:
        """The transpose of ``logits``: from a gradient in the logits to one in theta."""


@runtime_checkable
class Layered(Policy, Protocol):
    """A network whose representation and last layer can be told apart."""

    @property
    def blocks(self) -> Mapping[str, slice]:
        """Where in theta they stand: ``body``, all but the last layer, then ``head``, the last layer and, of a
        Gaussian, log_std. Together they are all of theta."""
