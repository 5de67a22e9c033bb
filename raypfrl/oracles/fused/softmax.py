"""The head of a softmax policy: logits to action, and what (2) and (3) need of log pi as a function of the logits y.

p = softmax(y)          d log pi(a|.) / dy_b  = 1[b = a] - p_b
along a tangent dy:     d log pi(a|.) = dy_a - p . dy          dp_b = p_b (dy_b - p . dy)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from raypfrl.oracles.fused.approximations import exp
from raypfrl.oracles.fused.lanes import Lanes, jit, registers


class Slots(NamedTuple):
    """Where a decision's record xi[h, .] keeps what; the policy's own slots come last."""

    reward: int  # gamma^h r_h
    success: int  # 1 in the goal region
    action: int
    slope: int  # psi_h . v
    slopes: int  # z_{0:h} . v
    observation: int
    logits: int  # after sample(): the probabilities p
    dlogits: int  # along the tangent v; after slope(): dp
    score: int
    dscore: int
    own: int


def slots(inputs: int, actions: int) -> Slots:
    """The layout for observations of ``inputs`` numbers."""
    logits = 5 + inputs
    return Slots(0, 1, 2, 3, 4, 5, logits, *(logits + part * actions for part in (1, 2, 3, 4)))


class Softmax(NamedTuple):
    """The compiled functions of the head."""

    sample: Callable[..., Lanes]
    score: Callable[..., None]
    slope: Callable[..., Lanes]
    score_tangent: Callable[..., None]


def softmax(at: Slots, actions: int, lanes: int) -> Softmax:
    """The head for one number of actions and lanes."""

    @jit
    def sample(xi: Lanes, h: int, u: Lanes) -> Lanes:
        """The action a_h that u in [0, 1) selects: the first whose cumulative probability exceeds u."""
        p = registers(actions, lanes)
        top = xi[h, at.logits]
        for a in range(1, actions):
            top = np.maximum(top, xi[h, at.logits + a])
        total = np.zeros_like(u)
        for a in range(actions):
            p[a] = exp(xi[h, at.logits + a] - top)
            total = total + p[a]
        cumulative = np.zeros_like(u)
        action = np.zeros_like(u)
        for a in range(actions - 1):
            cumulative = cumulative + p[a]
            action = action + np.where(cumulative <= u * total, 1.0, 0.0)
        for a in range(actions):
            xi[h, at.logits + a] = p[a] * (1.0 / total)
        xi[h, at.action] = action
        return action.astype(np.int32)

    @jit
    def residual(xi: Lanes, h: int, a: int) -> Lanes:
        """d log pi / dy_a = 1[a = a_h] - p_a."""
        others = np.zeros_like(xi[h, at.action])
        for b in range(actions):
            others = others + np.where(xi[h, at.action] == b, 0.0, xi[h, at.logits + b])
        return np.where(xi[h, at.action] == a, others, -xi[h, at.logits + a])

    @jit
    def score(xi: Lanes, h: int, weight: Lanes) -> None:
        """score = weight d log pi / dy."""
        for a in range(actions):
            xi[h, at.score + a] = residual(xi, h, a) * weight

    @jit
    def slope(xi: Lanes, h: int) -> Lanes:
        """psi_h . v, the derivative of log pi(a_h|s_h) along v; dlogits become dp."""
        taken = xi[h, at.dlogits]
        for a in range(1, actions):
            taken = np.where(xi[h, at.action] == a, xi[h, at.dlogits + a], taken)
        dlog_pi = np.zeros_like(taken)
        for a in range(actions):
            dlog_pi = dlog_pi + xi[h, at.logits + a] * (taken - xi[h, at.dlogits + a])
        for a in range(actions):
            xi[h, at.dlogits + a] = xi[h, at.logits + a] * (xi[h, at.dlogits + a] - taken + dlog_pi)
        return dlog_pi

    @jit
    def score_tangent(xi: Lanes, h: int, weight: Lanes, dweight: Lanes) -> None:
        """score = weight d log pi / dy and dscore = dweight d log pi / dy - weight dp."""
        for a in range(actions):
            one = residual(xi, h, a)
            xi[h, at.score + a] = one * weight
            xi[h, at.dscore + a] = one * dweight - xi[h, at.dlogits + a] * weight

    return Softmax(sample, score, slope, score_tangent)
