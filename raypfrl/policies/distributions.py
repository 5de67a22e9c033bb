"""The two distributions over actions: how noise picks one (NumPy), and its log-probability (torch)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from raypfrl.policies.policy import Array, Vector

if TYPE_CHECKING:
    from torch import Tensor


def categorical(logits: Array, u: Vector) -> Array:
    """Inverse-CDF sample of softmax(logits): the first action whose cumulative probability exceeds u. (batch, actions)
    and (batch,) to (batch,) int64."""
    cumulative = np.exp(logits - logits.max(axis=-1, keepdims=True)).cumsum(axis=-1)
    exceeded = cumulative <= u[..., None] * cumulative[..., -1:]
    action: Array = np.minimum(exceeded.sum(axis=-1), logits.shape[-1] - 1)
    return action


def categorical_log_prob(logits: Tensor, action: Tensor) -> Tensor:
    """log softmax(logits)_action, shape (batch,)."""
    import torch

    return torch.log_softmax(logits, -1).gather(-1, action.long()[..., None])[..., 0]


def gaussian_log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """The Gaussian log density, summed over the action's coordinates; shape (batch,)."""
    standardized = (action.to(mean.dtype) - mean) / log_std.exp()
    density: Tensor = -0.5 * standardized**2 - log_std - 0.5 * math.log(2 * math.pi)
    return density.sum(-1)
