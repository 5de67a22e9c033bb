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

from raypfrl.oracles.oracle import Credit, Meter, Oracle, Outcome
from raypfrl.policies import LogLinear, Vector
from raypfrl.populations.population import MDP, Successors
from raypfrl.streams import Stream

Array = NDArray[Any]  # float64, or complex128 under the complex step


SMALL = 100  # states up to which transitions are a matrix: then a product with it costs less than picking its entries
SOLVED = 2  # how many thetas' values are kept: a method asks several questions at theta and at theta + alpha g


class _Values(NamedTuple):
    """pi (S, A) and its chain; for h = 0..H: state distributions d (H+1, S), Q (H+1, S, A) and V (H+2, S), V[H+1] =
    0."""

    pi: Array
    chain: Any
    d: Array
    Q: Array
    V: Array


class _Matrix:
    """Transition probabilities as a dense matrix (S, A, S)."""

    def __init__(self, P: Successors | Array) -> None:
        self._P = P.dense() if isinstance(P, Successors) else P

    def expected(self, V: Array) -> Array:
        """E[V(s')|s, a] for each row of V (H, S): (H, S, A)."""
        return (V @ self._P.reshape(-1, self._P.shape[-1]).T).reshape(len(V), *self._P.shape[:2])

    def chain(self, pi: Array) -> Array:
        """sum_a pi(a|s) P(s'|s, a), (S, S)."""
        return np.asarray((pi[:, None, :] @ self._P)[:, 0])


class _Entries:
    """The same by the few states that follow each state and decision."""

    def __init__(self, P: Successors) -> None:
        self._P = P

    def expected(self, V: Array) -> Array:
        """E[V(s')|s, a] for each row of V (H, S): (H, S, A)."""
        return np.asarray(np.einsum("sak,hsak->hsa", self._P.probabilities, V[:, self._P.states]))

    def chain(self, pi: Array) -> _Chain:
        """sum_a pi(a|s) P(s'|s, a), (S, S)."""
        states = len(pi)
        return _Chain(self._P.states.reshape(states, -1), (pi[:, :, None] * self._P.probabilities).reshape(states, -1))


class _Chain:
    """An (S, S) matrix with few entries a row, for products with vectors: ``entries`` in the columns ``at``."""

    __array_ufunc__ = None  # a product with an array is this class's

    def __init__(self, at: NDArray[np.int64], entries: Array) -> None:
        self._at, self._entries = at, entries

    def __matmul__(self, V: Array) -> Array:
        return np.asarray(np.einsum("sk,sk->s", self._entries, V[self._at]))

    def __rmatmul__(self, d: Array) -> Array:
        if d.ndim > 1:
            return np.stack([row @ self for row in d])
        at, masses = self._at.reshape(-1), (d[:, None] * self._entries).reshape(-1)
        moved = np.bincount(at, masses.real, len(d))
        return moved + 1j * np.bincount(at, masses.imag, len(d)) if np.iscomplexobj(masses) else moved


class ExactOracle(Oracle):
    """J, grad J and hess J . v of one agent. Absolute discount: Q and V at step h carry gamma^h. The values of the last
    thetas are kept, so that several questions at one theta cost one pass."""

    def __init__(self, mdp: MDP, policy: LogLinear, gamma: float, horizon: int) -> None:
        self.meter = Meter()
        self._mdp, self._policy, self._horizon = mdp, policy, horizon
        few = isinstance(mdp.P, Successors) and len(mdp.mu) > SMALL
        self._transitions: Any = _Entries(mdp.P) if few and isinstance(mdp.P, Successors) else _Matrix(mdp.P)
        self._discounts = gamma ** np.arange(horizon + 1)
        self._solved: dict[tuple[str, bytes], _Values] = {}

    def objective(self, theta: Array) -> Any:
        """(1): J(theta) = sum_s mu(s) V^0(s)."""
        return self._mdp.mu @ self._solve(theta).V[0]

    def policy_gradient(self, theta: Array, m: int = 0, stream: Stream | None = None) -> Array:
        """grad J(theta) = sum_h sum_s d^h(s) sum_a pi(a|s) grad logit(s, a) (Q^h - V^h)(s, a)."""
        start = time.perf_counter()
        pi, _, d, Q, V = self._solve(theta)
        in_logits = pi * _over_time(d, Q - V[:-1, :, None])
        self.meter.seconds += time.perf_counter() - start
        return self._policy.pullback(in_logits)

    def hessian_vector_product(
        self, theta: Array, v: Array, m: int = 0, stream: Stream | None = None, *, credit: Credit = "all",
        baseline: Vector | None = None,
    ) -> Array:  # fmt: skip
        """hess J(theta) v: the tangent along v of every quantity in ``policy_gradient``. There is nothing to estimate,
        so causal credit and a baseline change nothing. It does not answer for credit = "none"."""
        if credit == "none":
            raise self.unanswered("hessian_vector_product with credit = none")
        start = time.perf_counter()
        pi, chain, d, Q, V = self._solve(theta)
        logits_dot = self._policy.logits(v)
        pi_dot = pi * (logits_dot - (pi * logits_dot).sum(-1, keepdims=True))
        V_dot, d_dot = np.zeros_like(V), np.zeros_like(d)
        from_pi = (pi_dot * Q).sum(-1)
        for h in reversed(range(self._horizon + 1)):
            V_dot[h] = from_pi[h] + chain @ V_dot[h + 1]
        moved = d @ self._transitions.chain(pi_dot)
        for h in range(self._horizon):
            d_dot[h + 1] = moved[h] + d_dot[h] @ chain
        advantage = Q - V[:-1, :, None]
        advantage_dot = self._transitions.expected(V_dot[1:]) - V_dot[:-1, :, None]
        in_logits = pi * (_over_time(d_dot, advantage) + _over_time(d, advantage_dot)) + pi_dot * _over_time(
            d, advantage
        )
        self.meter.seconds += time.perf_counter() - start
        return self._policy.pullback(in_logits)

    def weighted_gradient(self, theta: Vector, snapshot: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """grad J(snapshot): weighted, what theta samples tells it without error."""
        return self.policy_gradient(snapshot)

    def kl_gradient(self, theta: Vector, anchor: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """The gradient in theta of sum_s d(s) KL(pi_theta(.|s) || pi_anchor(.|s)), d the mean of the d^h(s) of theta,
        held fixed: in the logits d(s) pi(a|s) (log ratio(s, a) - KL(s))."""
        start = time.perf_counter()
        pi, _, d, _, _ = self._solve(theta)
        log_ratio = np.log(pi) - np.log(_softmax(self._policy.logits(anchor)))
        kl = (pi * log_ratio).sum(-1, keepdims=True)
        in_logits = d.mean(0)[:, None] * pi * (log_ratio - kl)
        self.meter.seconds += time.perf_counter() - start
        return self._policy.pullback(in_logits)

    def returns(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Outcome:
        """J(theta), the probability that s_0..s_H touch the goal, and the expected distance of s_H to it."""
        start = time.perf_counter()
        _, chain, d, _, V = self._solve(theta)
        success = final_distance = float("nan")
        if (distance := self._mdp.distance) is not None:
            away = distance > 0
            untouched = self._mdp.mu * away
            for _ in range(self._horizon):
                untouched = untouched @ chain * away
            success, final_distance = float(1 - untouched.sum()), float(d[-1] @ distance)
        self.meter.seconds += time.perf_counter() - start
        return Outcome(float(self._mdp.mu @ V[0]), success, final_distance)

    def mean_rewards(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """E[gamma^t r_t] for t = 0..H, shape (H+1,)."""
        pi, _, d, _, _ = self._solve(theta)
        return np.asarray(self._discounts * (d @ (pi * self._mdp.r).sum(-1)))

    def value_baseline(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """``mean_rewards``: what is exact needs no baseline."""
        return self.mean_rewards(theta)

    def _solve(self, theta: Array) -> _Values:
        """Of a theta that was asked for lately, what was found then."""
        key = (theta.dtype.char, theta.tobytes())
        values = self._solved.pop(key, None) or self._values(theta)
        self._solved[key] = values
        if len(self._solved) > SOLVED:
            del self._solved[next(iter(self._solved))]  # the one that was asked for longest ago
        return values

    def _values(self, theta: Array) -> _Values:
        pi = _softmax(self._policy.logits(theta))
        chain = self._transitions.chain(pi)
        d = np.empty((self._horizon + 1, len(self._mdp.mu)), pi.dtype)
        V = np.zeros((self._horizon + 2, len(self._mdp.mu)), pi.dtype)
        r = np.outer(self._discounts, (pi * self._mdp.r).sum(-1))
        for h in reversed(range(self._horizon + 1)):
            V[h] = r[h] + chain @ V[h + 1]
        d[0] = self._mdp.mu
        for h in range(self._horizon):
            d[h + 1] = d[h] @ chain
        Q = self._discounts[:, None, None] * self._mdp.r + self._transitions.expected(V[1:])
        return _Values(pi, chain, d, Q, V)


def _over_time(d: Array, x: Array) -> Array:
    """sum_h d^h(s) x^h(s, a), (S, A)."""
    return np.asarray(np.einsum("hs,hsa->sa", d, x))


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
