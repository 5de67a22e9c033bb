"""The zeroth-order oracle: gradients and products with the Hessian from the returns of rollouts alone, for tasks that
tell nothing else (``Measured``). U is uniform on the sphere of radius r, u standard normal and sigma = r / sqrt(d), so
that both look as far from theta."""

from __future__ import annotations

import math
import time

import numpy as np

from raypfrl.oracles.oracle import Credit, Meter, Oracle, Outcome
from raypfrl.policies import Vector
from raypfrl.populations.population import Measured, Returns
from raypfrl.streams import Stream


class ZerothOrderOracle(Oracle):
    """Estimates from m directions; the rollouts of one direction share their chances, and every rollout is charged."""

    def __init__(self, task: Measured, horizon: int) -> None:
        self.meter = Meter()
        self._task, self._horizon = task, horizon

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The mean of d/(2 r^2) [J(theta + U) - J(theta - U)] U, from 2 m rollouts, or of d/r^2 J(theta + U) U, from m;
        (d,). E = the gradient of J averaged over the ball of radius r."""
        r, rng = self._task.smoothing, stream.generator()
        U = rng.standard_normal((m, theta.size))
        U *= r / np.sqrt((U * U).sum(axis=1, keepdims=True))
        chances = rng.standard_normal((m, self._task.chances))
        if self._task.points == 1:
            (slope,) = self._returns(chances, theta + U)
        else:
            up, down = self._returns(chances, theta + U, theta - U)
            slope = (up - down) / 2
        return theta.size / r**2 * _mean(slope[:, None] * U)

    def hessian_vector_product(
        self, theta: Vector, v: Vector, m: int, stream: Stream, *, credit: Credit = "all",
        baseline: Vector | None = None,
    ) -> Vector:  # fmt: skip
        """Stein's identity: the mean of [J(theta + sigma u) + J(theta - sigma u) - 2 J(theta)] (u (u . v) - v) / (2
        sigma^2), from 3 m rollouts; (d,). There are no decisions to credit; it does not answer for credit = "none"."""
        if credit == "none":
            raise self.unanswered("hessian_vector_product with credit = none")
        sigma, rng = self._task.smoothing / math.sqrt(theta.size), stream.generator()
        u = rng.standard_normal((m, theta.size))
        chances = rng.standard_normal((m, self._task.chances))
        up, down, here = self._returns(chances, theta + sigma * u, theta - sigma * u, theta + 0 * u)
        along = (u * v).sum(axis=1)
        return _mean(((up + down - 2 * here) / (2 * sigma**2))[:, None] * (u * along[:, None] - v))

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        """The mean return; -inf where a rollout does not settle, since without an end it is worth that. No goal."""
        chances = stream.generator().standard_normal((m, self._task.chances))
        found, settled = self._rollouts(np.tile(theta, (m, 1)), chances)
        return Outcome(float(_mean(found)) if settled.all() else float("-inf"), float("nan"), float("nan"))

    def _returns(self, chances: Vector, *thetas: Vector) -> list[Vector]:
        """Those of m rollouts under each of the thetas (m, d), all with the same chances."""
        found = self._rollouts(np.concatenate(thetas), np.tile(chances, (len(thetas), 1))).returns
        return np.split(found, len(thetas))

    def _rollouts(self, thetas: Vector, chances: Vector) -> Returns:
        start = time.perf_counter()
        found = self._task.rollouts(thetas, chances, self._horizon)
        self.meter.trajectories += len(thetas)
        self.meter.env_steps += len(thetas) * (self._horizon + 1)
        self.meter.seconds += time.perf_counter() - start
        return found


def _mean(rows: Vector) -> Vector:
    return np.asarray(rows.sum(axis=0) / len(rows))
