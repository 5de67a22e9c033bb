"""The head of a softmax policy: logits to action, and what (2) and (3) need of log pi as a function of the logits y.

p = softmax(y)          d log pi(a|.) / dy_b  = 1[b = a] - p_b
along a tangent dy:     d log pi(a|.) = dy_a - p . dy          dp_b = p_b (dy_b - p . dy)
"""

from __future__ import annotations

import numpy as np

from raypfrl.oracles.fused.approximations import exp
from raypfrl.oracles.fused.head import Head, Slots
from raypfrl.oracles.fused.lanes import Lanes, jit, registers


def softmax(at: Slots, actions: int, lanes: int) -> Head:
    """The head for one number of actions and lanes."""

    @jit
    def noise(u: Lanes) -> Lanes:
        """Uniform numbers as they are."""
        return u

    @jit
    def sample(xi: Lanes, h: int, into: Lanes) -> Lanes:
        """The action a_h that u in [0, 1) selects: the first whose cumulative probability exceeds u; outputs become
        the probabilities p."""
        u = xi[h, at.action]
        p = registers(actions, lanes)
        top = xi[h, at.outputs]
        for a in range(1, actions):
            top = np.maximum(top, xi[h, at.outputs + a])
        total = np.zeros_like(u)
        for a in range(actions):
            p[a] = exp(xi[h, at.outputs + a] - top)
            total = total + p[a]
        cumulative = np.zeros_like(u)
        action = np.zeros_like(u)
        for a in range(actions - 1):
            cumulative = cumulative + p[a]
            action = action + np.where(cumulative <= u * total, 1.0, 0.0)
        for a in range(actions):
            xi[h, at.outputs + a] = p[a] * (1.0 / total)
        xi[h, at.action] = action
        return action.astype(np.int32)

    @jit
    def taken(xi: Lanes, h: int, i: int) -> Lanes:
        """The action's number."""
        return xi[h, at.action]

    @jit
    def residual(xi: Lanes, h: int, a: int) -> Lanes:
        """d log pi / dy_a = 1[a = a_h] - p_a."""
        others = np.zeros_like(xi[h, at.action])
        for b in range(actions):
            others = others + np.where(xi[h, at.action] == b, 0.0, xi[h, at.outputs + b])
        return np.where(xi[h, at.action] == a, others, -xi[h, at.outputs + a])

    @jit
    def score(xi: Lanes, h: int, weight: Lanes) -> None:
        """score = weight d log pi / dy."""
        for a in range(actions):
            xi[h, at.score + a] = residual(xi, h, a) * weight

    @jit
    def slope(xi: Lanes, h: int) -> Lanes:
        """psi_h . v; doutputs become dp."""
        taken = xi[h, at.doutputs]
        for a in range(1, actions):
            taken = np.where(xi[h, at.action] == a, xi[h, at.doutputs + a], taken)
        dlog_pi = np.zeros_like(taken)
        for a in range(actions):
            dlog_pi = dlog_pi + xi[h, at.outputs + a] * (taken - xi[h, at.doutputs + a])
        for a in range(actions):
            xi[h, at.doutputs + a] = xi[h, at.outputs + a] * (xi[h, at.doutputs + a] - taken + dlog_pi)
        return dlog_pi

    @jit
    def score_tangent(xi: Lanes, h: int, weight: Lanes, dweight: Lanes) -> None:
        """score = weight d log pi / dy and dscore = dweight d log pi / dy - weight dp."""
        for a in range(actions):
            one = residual(xi, h, a)
            xi[h, at.score + a] = one * weight
            xi[h, at.dscore + a] = one * dweight - xi[h, at.doutputs + a] * weight

    return Head(noise, sample, taken, score, slope, score_tangent)
