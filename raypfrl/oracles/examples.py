"""The oracle of agents that learn from examples: J(theta) = the mean of log pi(y|x; theta) over them, less decay / 2
times ||theta||^2, for a tanh network with a softmax. Gradients and products by back-propagation, in NumPy.

An example is charged as a trajectory of one decision. Which examples an agent sees does not depend on theta, so the
score of a batch is 0.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypfrl.oracles.oracle import Credit, Meter, Oracle, Outcome
from raypfrl.policies import MLPSoftmax, Vector
from raypfrl.policies.networks import layers
from raypfrl.populations.population import Supervised
from raypfrl.streams import Stream

Matrix = NDArray[np.float64]


class Batch(NamedTuple):
    """Inputs (m, f) and labels (m,)."""

    x: Matrix
    y: NDArray[np.int64]


class ExamplesOracle(Oracle):
    """Estimates from m examples, drawn with replacement; with ``whole`` from all of them, which is exact, costs nothing
    and ignores m and the stream."""

    def __init__(self, task: Supervised, policy: MLPSoftmax, *, whole: bool = False) -> None:
        self.meter = Meter()
        self._sizes, self._decay, self._whole = policy.sizes, task.decay, whole
        x, y, x_test, y_test = task.examples()
        self._own, self._test = Batch(x, y), Batch(x_test, y_test)

    def policy_gradient(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """Minus the gradient of the loss on the batch, (d,)."""
        return self._gradient(theta, self._charged(m, stream))

    def hessian_vector_product(
        self, theta: Vector, v: Vector, m: int = 0, stream: Stream | None = None, *, credit: Credit = "all",
        baseline: Vector | None = None,
    ) -> Vector:  # fmt: skip
        """Minus the Hessian of the loss on the batch times v, (d,): the tangent along v of every quantity of the
        gradient. One decision needs no credit and no baseline; with credit = "none" the batch was paid for."""
        batch = self._batch(m, stream) if credit == "none" else self._charged(m, stream)
        start = time.perf_counter()
        product = tangent(theta, v, batch, self._sizes) + self._decay * v
        self.meter.seconds += time.perf_counter() - start
        return -product

    def score_sum(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """0: theta does not say which examples there are."""
        return np.zeros_like(theta)

    def weighted_gradient(self, theta: Vector, snapshot: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """The gradient at the snapshot, on the same examples: they weigh 1."""
        return self._gradient(snapshot, self._batch(m, stream))

    def mean_rewards(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """J on the batch, shape (1,)."""
        return np.array([self._objective(theta, self._batch(m, stream))])

    def value_baseline(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """``mean_rewards``: there is no state to tell apart by."""
        return self.mean_rewards(theta, m, stream)

    def returns(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Outcome:
        """J on the batch; success: the share that is predicted rightly, of the test examples where the oracle is exact,
        else of the batch. No goal."""
        batch = self._charged(m, stream)
        start = time.perf_counter()
        seen = self._test if self._whole else batch
        rightly = (forward(theta, seen.x, self._sizes)[-1].argmax(axis=1) == seen.y).mean()
        objective = self._objective(theta, batch)
        self.meter.seconds += time.perf_counter() - start
        return Outcome(objective, float(rightly), float("nan"))

    def objective(self, theta: Vector) -> float:
        """J(theta) on all examples."""
        return self._objective(theta, self._own)

    def _objective(self, theta: Vector, batch: Batch) -> float:
        log_pi = log_softmax(forward(theta, batch.x, self._sizes)[-1])
        return float(log_pi[np.arange(len(batch.y)), batch.y].mean() - self._decay / 2 * (theta * theta).sum())

    def _gradient(self, theta: Vector, batch: Batch) -> Vector:
        start = time.perf_counter()
        gradient = backward(theta, batch, self._sizes) + self._decay * theta
        self.meter.seconds += time.perf_counter() - start
        return -gradient

    def _charged(self, m: int, stream: Stream | None) -> Batch:
        if not self._whole:
            self.meter.trajectories += m
            self.meter.env_steps += m
        return self._batch(m, stream)

    def _batch(self, m: int, stream: Stream | None) -> Batch:
        if self._whole or stream is None:
            return self._own
        drawn = stream.generator().integers(len(self._own.y), size=m)
        return Batch(self._own.x[drawn], self._own.y[drawn])


# --- the network. Products by einsum and not by @: BLAS may add otherwise with another number of threads --------------


def _times(a: Matrix, b: Matrix) -> Matrix:
    return np.asarray(np.einsum("ij,jk->ik", a, b))


def forward(theta: Vector, x: Matrix, sizes: tuple[int, ...]) -> list[Matrix]:
    """The layers' outputs, the inputs first and the logits last."""
    *hidden, (W, b) = layers(theta, sizes)
    outputs = [x]
    for V, c in hidden:
        outputs.append(np.tanh(_times(outputs[-1], V) + c))
    return [*outputs, _times(outputs[-1], W) + b]


def log_softmax(logits: Matrix) -> Matrix:
    """log pi, row by row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def backward(theta: Vector, batch: Batch, sizes: tuple[int, ...]) -> Vector:
    """The gradient of the mean of -log pi(y|x), (d,)."""
    *inputs, logits = forward(theta, batch.x, sizes)
    G = _residual(logits, batch.y)
    parts: list[Vector] = []
    for x, (W, _) in reversed([*zip(inputs, layers(theta, sizes), strict=True)]):
        parts = [_times(x.T, G).ravel(), G.sum(axis=0), *parts]
        G = _times(G, W.T) * (1 - x * x)
    return np.concatenate(parts)


def tangent(theta: Vector, v: Vector, batch: Batch, sizes: tuple[int, ...]) -> Vector:
    """The derivative of ``backward`` along v: its Hessian times v, (d,)."""
    outputs = forward(theta, batch.x, sizes)
    weights, moves = layers(theta, sizes), layers(v, sizes)
    dots = [np.zeros_like(batch.x)]
    for x, after, (W, _), (V, c) in zip(outputs, outputs[1:], weights, moves, strict=False):
        dot = _times(dots[-1], W) + _times(x, V) + c
        dots.append(dot if after is outputs[-1] else (1 - after * after) * dot)
    pi, logits_dot = np.exp(log_softmax(outputs[-1])), dots.pop()
    G = _residual(outputs.pop(), batch.y)
    G_dot = pi * (logits_dot - (pi * logits_dot).sum(axis=1, keepdims=True)) / len(batch.y)
    parts: list[Vector] = []
    for x, x_dot, (W, _), (V, _) in reversed([*zip(outputs, dots, weights, moves, strict=True)]):
        parts = [(_times(x_dot.T, G) + _times(x.T, G_dot)).ravel(), G_dot.sum(axis=0), *parts]
        back = _times(G, W.T)
        G, G_dot = back * (1 - x * x), (_times(G_dot, W.T) + _times(G, V.T)) * (1 - x * x) - 2 * back * x * x_dot
    return np.concatenate(parts)


def _residual(logits: Matrix, y: NDArray[np.int64]) -> Matrix:
    """(pi - the label) / m: the gradient of the mean of -log pi(y|x) in the logits."""
    G = np.exp(log_softmax(logits))
    G[np.arange(len(y)), y] -= 1
    return np.asarray(G / len(y))
