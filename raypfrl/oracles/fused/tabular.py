"""TabularSoftmax: logits = theta[s], a row of the (states, actions) table. The observation is the state's number.

The logits are linear in theta, so that the tangent's way back is the way back.
"""

from __future__ import annotations

import numpy as np

from raypfrl.oracles.fused.head import Slots
from raypfrl.oracles.fused.lanes import Lanes, add_at, jit
from raypfrl.oracles.fused.network import Network


def tabular(at: Slots, inputs: int, actions: int, free: int, lanes: int) -> Network:
    """The compiled table for one number of actions and lanes; it has no free outputs."""

    @jit
    def forward(theta: Lanes, xi: Lanes, h: int) -> None:
        """The logits of decision h."""
        row = (xi[h, at.observation] * actions).astype(np.int32)
        for a in range(actions):
            xi[h, at.outputs + a] = np.take(theta, row + a)

    @jit
    def forward_tangent(theta: Lanes, v: Lanes, xi: Lanes, h: int) -> None:
        """doutputs = v[s]."""
        row = (xi[h, at.observation] * actions).astype(np.int32)
        for a in range(actions):
            xi[h, at.doutputs + a] = np.take(v, row + a)

    @jit
    def scatter(theta: Lanes, xi: Lanes, end: int, column: int, gradient: Lanes) -> None:
        for k in range(theta.size):
            gradient[k] = np.zeros_like(gradient[k])
        for h in range(end):
            row = (xi[h, at.observation] * actions).astype(np.int32)
            for a in range(actions):
                add_at(gradient, row + a, xi[h, column + a])

    @jit
    def backward(theta: Lanes, xi: Lanes, end: int, gradient: Lanes) -> None:
        """gradient[s] = the sum of score over the decisions in s."""
        scatter(theta, xi, end, at.score, gradient)

    @jit
    def backward_tangent(theta: Lanes, v: Lanes, xi: Lanes, end: int, gradient: Lanes) -> None:
        """gradient[s] = the sum of dscore over the decisions in s."""
        scatter(theta, xi, end, at.dscore, gradient)

    @jit
    def feature(xi: Lanes, h: int, j: int) -> Lanes:
        """1 in state j."""
        return np.where(xi[h, at.observation] == j, 1.0, 0.0)

    return Network(forward, forward_tangent, backward, backward_tangent, feature)
