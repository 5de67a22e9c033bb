"""A network of one hidden layer: x -> hidden = tanh(x W1 + b1) -> outputs = hidden W2 + b2.

theta = (W1, b1, W2, b2, free), each W row-major; ``free`` are further outputs, the same in every state. A decision's
own slots: the hidden layer, then its tangent along v. The number of hidden units follows from theta's length and is no
constant of the compiled code.
"""

from __future__ import annotations

import numpy as np

from raypfrl.oracles.fused.approximations import tanh
from raypfrl.oracles.fused.head import Slots
from raypfrl.oracles.fused.lanes import Lanes, jit, parameters, registers
from raypfrl.oracles.fused.network import Network


def mlp(at: Slots, inputs: int, actions: int, free: int, lanes: int) -> Network:
    """The compiled network for one number of inputs, outputs that it computes (``actions``), free ones, and lanes;
    free <= inputs + actions."""

    outputs = actions + free

    @jit
    def units_of(theta: Lanes) -> int:
        units: int = (theta.size - actions) // (inputs + 1 + actions)
        return units

    @jit
    def layers(theta: Lanes) -> tuple[Lanes, Lanes, Lanes, Lanes]:
        """W1, b1, W2, b2 and, behind b2, the free outputs."""
        units = units_of(theta)
        W1 = parameters(theta, 0, units, lanes)
        b1 = parameters(theta, inputs * units, 0, lanes)
        W2 = parameters(theta, (inputs + 1) * units, actions, lanes)
        b2 = parameters(theta, (inputs + 1 + actions) * units, 0, lanes)
        return W1, b1, W2, b2

    @jit
    def forward(theta: Lanes, xi: Lanes, h: int) -> None:
        """The outputs of decision h."""
        W1, b1, W2, b2 = layers(theta)
        x, y = registers(inputs, lanes), registers(actions, lanes)
        for i in range(inputs):
            x[i] = xi[h, at.observation + i]
        for a in range(actions):
            y[a] = b2[a]
        for j in range(units_of(theta)):
            z = b1[j]
            for i in range(inputs):
                z = z + x[i] * W1[i, j]
            hidden = tanh(z)
            xi[h, at.own + j] = hidden
            for a in range(actions):
                y[a] = y[a] + hidden * W2[j, a]
        for a in range(actions):
            xi[h, at.outputs + a] = y[a]
        for a in range(actions, outputs):
            xi[h, at.outputs + a] = b2[a]

    @jit
    def forward_tangent(theta: Lanes, v: Lanes, xi: Lanes, h: int) -> None:
        """doutputs, the tangent of decision h's outputs along v; after forward()."""
        units = units_of(theta)
        W2 = layers(theta)[2]
        dW1, db1, dW2, db2 = layers(v)
        x, dy = registers(inputs, lanes), registers(actions, lanes)
        for i in range(inputs):
            x[i] = xi[h, at.observation + i]
        for a in range(actions):
            dy[a] = db2[a]
        for j in range(units):
            hidden = xi[h, at.own + j]
            dz = db1[j]
            for i in range(inputs):
                dz = dz + x[i] * dW1[i, j]
            dhidden = (1.0 - hidden * hidden) * dz
            xi[h, at.own + units + j] = dhidden
            for a in range(actions):
                dy[a] = dy[a] + (dhidden * W2[j, a] + hidden * dW2[j, a])
        for a in range(actions):
            xi[h, at.doutputs + a] = dy[a]
        for a in range(actions, outputs):
            xi[h, at.doutputs + a] = db2[a]

    @jit
    def output_bias(xi: Lanes, end: int, column: int, first: int, gradient: Lanes) -> None:
        b2 = registers(outputs, lanes)
        for h in range(end):
            for a in range(outputs):
                b2[a] = b2[a] + xi[h, column + a]
        for a in range(outputs):
            gradient[first + a] = b2[a]

    @jit
    def backward(theta: Lanes, xi: Lanes, end: int, gradient: Lanes) -> None:
        """gradient = sum_h (d outputs / d theta)^T score, hidden unit by hidden unit."""
        units = units_of(theta)
        W2 = layers(theta)[2]
        for j in range(units):
            gW1, gW2 = registers(inputs, lanes), registers(actions, lanes)
            gb1 = np.zeros_like(xi[0, at.own + j])
            for h in range(end):
                hidden = xi[h, at.own + j]
                back = np.zeros_like(hidden)
                for a in range(actions):
                    score = xi[h, at.score + a]
                    back = back + W2[j, a] * score
                    gW2[a] = gW2[a] + hidden * score
                back = back * (1.0 - hidden * hidden)
                gb1 = gb1 + back
                for i in range(inputs):
                    gW1[i] = gW1[i] + xi[h, at.observation + i] * back
            for i in range(inputs):
                gradient[i * units + j] = gW1[i]
            gradient[inputs * units + j] = gb1
            for a in range(actions):
                gradient[(inputs + 1) * units + j * actions + a] = gW2[a]
        output_bias(xi, end, at.score, (inputs + 1 + actions) * units, gradient)

    @jit
    def backward_tangent(theta: Lanes, v: Lanes, xi: Lanes, end: int, gradient: Lanes) -> None:
        """gradient = sum_h (d outputs / d theta)^T dscore + d[(d outputs / d theta)^T] score, d along v."""
        units = units_of(theta)
        W2, dW2 = layers(theta)[2], layers(v)[2]
        for j in range(units):
            gW1, gW2 = registers(inputs, lanes), registers(actions, lanes)
            gb1 = np.zeros_like(xi[0, at.own + j])
            for h in range(end):
                hidden, dhidden = xi[h, at.own + j], xi[h, at.own + units + j]
                back, dback = np.zeros_like(hidden), np.zeros_like(hidden)
                for a in range(actions):
                    score, dscore = xi[h, at.score + a], xi[h, at.dscore + a]
                    back = back + W2[j, a] * score
                    dback = dback + (W2[j, a] * dscore + dW2[j, a] * score)
                    gW2[a] = gW2[a] + (hidden * dscore + dhidden * score)
                dback = dback * (1.0 - hidden * hidden) - back * (2.0 * hidden * dhidden)
                gb1 = gb1 + dback
                for i in range(inputs):
                    gW1[i] = gW1[i] + xi[h, at.observation + i] * dback
            for i in range(inputs):
                gradient[i * units + j] = gW1[i]
            gradient[inputs * units + j] = gb1
            for a in range(actions):
                gradient[(inputs + 1) * units + j * actions + a] = gW2[a]
        output_bias(xi, end, at.dscore, (inputs + 1 + actions) * units, gradient)

    @jit
    def feature(xi: Lanes, h: int, j: int) -> Lanes:
        """A hidden unit."""
        return xi[h, at.own + j]

    return Network(forward, forward_tangent, backward, backward_tangent, feature)
