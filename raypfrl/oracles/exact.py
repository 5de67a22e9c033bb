"""The exact oracle: finite-horizon dynamic programming on a finite MDP with a log-linear policy.

Batch sizes and streams are ignored, so a method that runs on it runs its m -> infinity dynamics. Every function is
plain arithmetic, valid for complex theta too: ``hessian_of_F`` uses that (complex-step differentiation, Squire and
Trapp 1998, exact to rounding).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypfrl.oracles.oracle import Meter, Outcome
from raypfrl.policies import LogLinear, Vector
from raypfrl.populations.population import MDP
from raypfrl.streams import Stream

Array = NDArray[Any]  # float64, or complex128 under the complex step


class _Values(NamedTuple):
    """pi (S, A); for h = 0..H: state distributions d (H+1, S), Q (H+1, S, A) and V (H+2, S), V[H+1] = 0."""

    pi: Array
    d: Array
    Q: Array
    V: Array


class ExactOracle:
    """J, grad J and hess J . v of one agent. Absolute discount: Q and V at step h carry gamma^h."""

    def __init__(self, mdp: MDP, policy: LogLinear, gamma: float, horizon: int) -> None:
        self.meter = Meter()
        self._mdp, self._policy, self._horizon = mdp, policy, horizon
        self._discounts = gamma ** np.arange(horizon + 1)

    def objective(self, theta: Array) -> Any:
        """(1): J(theta) = sum_s mu(s) V^0(s)."""
        return self._mdp.mu @ self._solve(theta).V[0]

    def policy_gradient(self, theta: Array, m: int = 0, stream: Stream | None = None) -> Array:
        """grad J(theta) = sum_h sum_s d^h(s) sum_a pi(a|s) grad logit(s, a) (Q^h - V^h)(s, a)."""
        start = time.perf_counter()
        pi, d, Q, V = self._solve(theta)
        in_logits = (d[:, :, None] * pi * (Q - V[:-1, :, None])).sum(0)
        self.meter.seconds += time.perf_counter() - start
        return self._policy.pullback(in_logits)

    def hessian_vector_product(
        self, theta: Array, v: Array, m: int = 0, stream: Stream | None = None, **estimator: Any
    ) -> Array:
        """hess J(theta) v: the tangent along v of every quantity in ``policy_gradient``. There is nothing to estimate,
        so the choice of a curvature estimator changes nothing."""
        start = time.perf_counter()
        pi, d, Q, V = self._solve(theta)
        logits_dot = self._policy.logits(v)
        pi_dot = pi * (logits_dot - (pi * logits_dot).sum(-1, keepdims=True))
        Q_dot, V_dot, d_dot = np.zeros_like(Q), np.zeros_like(V), np.zeros_like(d)
        for h in reversed(range(self._horizon + 1)):
            Q_dot[h] = self._mdp.P @ V_dot[h + 1]
            V_dot[h] = (pi_dot * Q[h] + pi * Q_dot[h]).sum(-1)
        for h in range(self._horizon):
            d_dot[h + 1] = self._flow(d_dot[h][:, None] * pi + d[h][:, None] * pi_dot)
        advantage, advantage_dot = Q - V[:-1, :, None], Q_dot - V_dot[:-1, :, None]
        in_logits = (
            d_dot[:, :, None] * pi * advantage + d[:, :, None] * pi_dot * advantage + d[:, :, None] * pi * advantage_dot
        ).sum(0)
        self.meter.seconds += time.perf_counter() - start
        return self._policy.pullback(in_logits)

    def returns(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Outcome:
        """J(theta), the probability that s_0..s_H touch the goal, and the expected distance of s_H to it."""
        start = time.perf_counter()
        pi, d, _, V = self._solve(theta)
        success = final_distance = float("nan")
        if (distance := self._mdp.distance) is not None:
            away = distance > 0
            untouched = self._mdp.mu * away
            for _ in range(self._horizon):
                untouched = self._flow(untouched[:, None] * pi) * away
            success, final_distance = float(1 - untouched.sum()), float(d[-1] @ distance)
        self.meter.seconds += time.perf_counter() - start
        return Outcome(float(self._mdp.mu @ V[0]), success, final_distance)

    def mean_rewards(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """E[gamma^t r_t] for t = 0..H, shape (H+1,)."""
        pi, d, _, _ = self._solve(theta)
        return np.asarray(self._discounts * np.einsum("hs,sa,sa->h", d, pi, self._mdp.r))

    def value_baseline(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """``mean_rewards``: what is exact needs no baseline."""
        return self.mean_rewards(theta)

    def _solve(self, theta: Array) -> _Values:
        P, r, mu, _ = self._mdp
        pi = _softmax(self._policy.logits(theta))
        d = np.empty((self._horizon + 1, len(mu)), pi.dtype)
        Q = np.empty((self._horizon + 1, *r.shape), pi.dtype)
        V = np.zeros((self._horizon + 2, len(mu)), pi.dtype)
        for h in reversed(range(self._horizon + 1)):
            Q[h] = self._discounts[h] * r + P @ V[h + 1]
            V[h] = (pi * Q[h]).sum(-1)
        d[0] = mu
        for h in range(self._horizon):
            d[h + 1] = self._flow(d[h][:, None] * pi)
        return _Values(pi, d, Q, V)

    def _flow(self, occupancy: Array) -> Array:
        """Where the state-action masses (S, A) go: shape (S,)."""
        return np.tensordot(occupancy, self._mdp.P, axes=2)


def _softmax(logits: Array) -> Array:
    weights: Array = np.exp(logits - logits.real.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def f(oracles: Sequence[ExactOracle], theta: Array) -> Any:
    """(5): f(theta) = (1/n) sum_i J_i(theta)."""
    return sum(oracle.objective(theta) for oracle in oracles) / len(oracles)


def F(oracles: Sequence[ExactOracle], theta: Array, alpha: float) -> Any:
    """(5): F(theta) = (1/n) sum_i J_i(theta + alpha grad J_i(theta))."""
    adapted = [theta + alpha * oracle.policy_gradient(theta) for oracle in oracles]
    return sum(oracle.objective(plus) for oracle, plus in zip(oracles, adapted, strict=True)) / len(oracles)


def gradient_of_F(oracles: Sequence[ExactOracle], theta: Array, alpha: float) -> Array:
    """(6): (1/n) sum_i (I + alpha hess J_i(theta)) grad J_i(theta_i^+), shape (d,)."""
    total = np.zeros_like(theta)
    for oracle in oracles:
        adapted = theta + alpha * oracle.policy_gradient(theta)
        g_out = oracle.policy_gradient(adapted)
        total = total + g_out + alpha * oracle.hessian_vector_product(theta, g_out)
    return total / len(oracles)


def hessian_of_F(oracles: Sequence[ExactOracle], theta: Vector, v: Vector, alpha: float) -> Vector:
    """hess F(theta) v, shape (d,): the complex-step derivative of ``gradient_of_F`` along v."""
    step = 1e-30
    return np.imag(gradient_of_F(oracles, theta + 1j * step * v, alpha)) / step
