"""The reference approach to (2) and (3) on neural navigation, as a yardstick: plain NumPy in float64.

Rollouts batched over trajectories, gradients by trajectory, and the second half of (3), hess nu v, as a finite
difference of gradients. Vectorised with care, but as one would write it for a paper's figures.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypfrl.policies import MLPSoftmax
from raypfrl.populations import NavigationTask
from raypfrl.populations.navigation import DIRECTIONS, GOAL_RADIUS, STEP
from raypfrl.streams import Stream

Array = NDArray[np.float64]


class Batch(NamedTuple):
    """positions (m, H+1, 2), actions (m, H+1), discounted rewards-to-go R^h (m, H+1)."""

    positions: Array
    actions: NDArray[np.int64]
    R: Array


class NumpyReference:
    """Estimates for a navigation task and a policy of one hidden layer."""

    def __init__(self, task: NavigationTask, policy: MLPSoftmax, gamma: float, horizon: int) -> None:
        self._goal, self._hidden, self._actions = np.array(task.goal), policy.hidden[0], policy.actions
        self._discounts = gamma ** np.arange(horizon + 1)
        angles = 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
        self._moves = STEP * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def policy_gradient(self, theta: Array, m: int, stream: Stream) -> Array:
        """(2): the mean of g(xi)."""
        return self.policy_gradient_on(self.sample(theta, m, stream), theta)

    def hessian_vector_product(self, theta: Array, v: Array, m: int, stream: Stream) -> Array:
        """(3): the mean of u(xi) v."""
        return self.hessian_vector_product_on(self.sample(theta, m, stream), theta, v)

    def policy_gradient_on(self, batch: Batch, theta: Array) -> Array:
        """The mean of g(xi) = sum_h psi_h R^h on given trajectories, shape (d,)."""
        return np.asarray(self._weighted_scores(batch, theta, batch.R).mean(0))

    def hessian_vector_product_on(self, batch: Batch, theta: Array, v: Array) -> Array:
        """The mean of g (z . v) + hess nu v on given trajectories, shape (d,)."""
        g = self._weighted_scores(batch, theta, batch.R)
        z = self._weighted_scores(batch, theta, np.ones_like(batch.R))
        step = 1e-4 / np.linalg.norm(v)
        after, before = (self.policy_gradient_on(batch, theta + sign * step * v) for sign in (1, -1))
        return np.asarray(g.T @ (z @ v) / len(g) + (after - before) / (2 * step))

    def sample(self, theta: Array, m: int, stream: Stream) -> Batch:
        """m trajectories in lockstep."""
        rng = stream.generator()
        position, positions, actions, rewards = rng.uniform(-1.0, 1.0, (m, 2)), [], [], []
        for gamma_h in self._discounts:
            _, p = self._forward(theta, position)
            action = (p.cumsum(-1)[:, :-1] <= rng.random((m, 1))).sum(-1)
            positions.append(position)
            actions.append(action)
            rewards.append(gamma_h * (((position - self._goal) ** 2).sum(-1) <= GOAL_RADIUS**2))
            position = np.clip(position + self._moves[action], -1.0, 1.0)
        R = np.stack(rewards, 1)[:, ::-1].cumsum(1)[:, ::-1]
        return Batch(np.stack(positions, 1), np.stack(actions, 1), R)

    def _forward(self, theta: Array, x: Array) -> tuple[Array, Array]:
        """The hidden layer and pi(.|x)."""
        W1, b1, W2, b2 = self._layers(theta)
        hidden = np.tanh(x @ W1 + b1)
        logits = hidden @ W2 + b2
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return hidden, weights / weights.sum(-1, keepdims=True)

    def _weighted_scores(self, batch: Batch, theta: Array, weight: Array) -> Array:
        """sum_h weight^h psi_h of every trajectory, shape (m, d)."""
        hidden, p = self._forward(theta, batch.positions)
        logits = weight[..., None] * ((batch.actions[..., None] == np.arange(self._actions)) - p)
        back = (logits @ self._layers(theta)[2].T) * (1 - hidden**2)
        W1, W2 = batch.positions.transpose(0, 2, 1) @ back, hidden.transpose(0, 2, 1) @ logits
        parts = (W1.reshape(len(W1), -1), back.sum(1), W2.reshape(len(W2), -1), logits.sum(1))
        return np.concatenate(parts, axis=1)

    def _layers(self, theta: Array) -> tuple[Array, Array, Array, Array]:
        """W1, b1, W2, b2."""
        N, A = self._hidden, self._actions
        W1, b1, W2, b2 = np.split(theta, [2 * N, 3 * N, 3 * N + N * A])
        return W1.reshape(2, N), b1, W2.reshape(N, A), b2
