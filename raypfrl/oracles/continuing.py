"""The continuing oracle: a finite MDP that no episode cuts, without noise. Values by linear solves, J = sum_s mu(s)
V(s) with gamma below 1; batch sizes and streams are ignored, as in ``exact``, whose horizon it has not."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from raypfrl.oracles.oracle import Credit, Matrix, Meter, Oracle, Outcome
from raypfrl.policies import LogLinear, Vector
from raypfrl.populations.population import MDP, successors
from raypfrl.streams import Stream


class _Values(NamedTuple):
    """log pi and pi (S, A), its chain (S, S), the discounted visits d (S,), Q (S, A) and V (S,)."""

    log_pi: Matrix
    pi: Matrix
    chain: Matrix
    d: Vector
    Q: Matrix
    V: Vector


class ContinuingOracle(Oracle):
    """J, grad J and hess J . v of one agent without a horizon; its tables of values, and its chain in the long run.

    Raises ValueError for gamma = 1, where nothing of this is finite.
    """

    def __init__(self, mdp: MDP, policy: LogLinear, gamma: float) -> None:
        if not gamma < 1:
            raise ValueError(f"the continuing oracle needs gamma below 1, and it is {gamma:g}")
        self.meter = Meter()
        self._mdp, self._policy, self._gamma = mdp, policy, gamma
        self._after, self._P = successors(mdp.P)

    def objective(self, theta: Vector) -> float:
        """J(theta) = sum_s mu(s) V(s)."""
        return float(self._mdp.mu @ self._solve(theta).V)

    def policy_gradient(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """grad J(theta) = sum_s d(s) sum_a pi(a|s) grad logit(s, a) (Q - V)(s, a)."""
        start = time.perf_counter()
        _, pi, _, d, Q, V = self._solve(theta)
        self.meter.seconds += time.perf_counter() - start
        return self._policy.pullback(pi * d[:, None] * (Q - V[:, None]))

    def hessian_vector_product(
        self, theta: Vector, v: Vector, m: int = 0, stream: Stream | None = None, *, credit: Credit = "all",
        baseline: Vector | None = None,
    ) -> Vector:  # fmt: skip
        """hess J(theta) v: the tangent along v of every quantity in ``policy_gradient``. There is nothing to estimate,
        so causal credit and a baseline change nothing. It does not answer for credit = "none"."""
        if credit == "none":
            raise self.unanswered("hessian_vector_product with credit = none")
        start = time.perf_counter()
        _, pi, chain, d, Q, V = self._solve(theta)
        logits_dot = self._policy.logits(v)
        pi_dot = pi * (logits_dot - (pi * logits_dot).sum(-1, keepdims=True))
        one = np.eye(len(d)) - self._gamma * chain
        V_dot = np.linalg.solve(one, (pi_dot * Q).sum(-1))
        d_dot = np.linalg.solve(one.T, self._gamma * (d @ self._chain(pi_dot)))
        advantage, advantage_dot = Q - V[:, None], self._gamma * self._expected(V_dot) - V_dot[:, None]
        in_logits = d[:, None] * (pi_dot * advantage + pi * advantage_dot) + d_dot[:, None] * pi * advantage
        self.meter.seconds += time.perf_counter() - start
        return self._policy.pullback(in_logits)

    def returns(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Outcome:
        """J(theta). There is no last decision, and what goes on for ever enters the goal or is never asked."""
        start = time.perf_counter()
        J = self.objective(theta)
        self.meter.seconds += time.perf_counter() - start
        return Outcome(J, float("nan"), float("nan"))

    def transitions(self, theta: Vector, position: Vector, m: int = 0, stream: Stream | None = None) -> Matrix:
        """Every (s, a, s', a') with the weight rho(s) pi(a|s) P(s'|s, a) pi(a'|s'), rho the chain's stationary
        distribution, shape (S A K A, 4) for K successors. The position is nothing to a chain in the long run."""
        start = time.perf_counter()
        pi = _softmax(self._policy.logits(theta))[1]
        states, actions = pi.shape
        rho = np.linalg.solve(np.eye(states) - self._chain(pi).T + 1.0, np.ones(states))
        weight = (rho[:, None] * pi)[:, :, None, None] * self._P[..., None] * pi[self._after]
        x = np.arange(states * actions).reshape(states, actions, 1, 1)
        after = self._after[..., None] * actions + np.arange(actions)
        columns = np.broadcast_arrays(weight, x, self._mdp.r[:, :, None, None], after)
        self.meter.seconds += time.perf_counter() - start
        return np.stack([column.reshape(-1) for column in columns], axis=-1, dtype=np.float64)

    def action_values(self, theta: Vector, m: int = 0, stream: Stream | None = None, *, omega: float = 0.0) -> Vector:
        """Q by a linear solve for V."""
        start = time.perf_counter()
        Q = self._solve(theta, omega).Q
        self.meter.seconds += time.perf_counter() - start
        return Q.reshape(-1)

    def direct_gradient(self, pi: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """d(s) Q(s, a)."""
        start = time.perf_counter()
        table = self._policy.logits(pi)
        _, _, _, d, Q, _ = self._of(np.zeros_like(table), table, 0.0)
        self.meter.seconds += time.perf_counter() - start
        return (d[:, None] * Q).reshape(-1)

    def backup(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """r + gamma P max_a' Q(s', a')."""
        best = self._policy.logits(theta).max(-1)
        return np.asarray(self._mdp.r + self._gamma * self._expected(best)).reshape(-1)

    def _solve(self, theta: Vector, omega: float = 0.0) -> _Values:
        return self._of(*_softmax(self._policy.logits(theta)), omega)

    def _of(self, log_pi: Matrix, pi: Matrix, omega: float) -> _Values:
        chain = self._chain(pi)
        one = np.eye(len(pi)) - self._gamma * chain
        V = np.linalg.solve(one, (pi * (self._mdp.r - omega * log_pi)).sum(-1))
        Q = self._mdp.r + self._gamma * self._expected(V)
        d = np.asarray(np.linalg.solve(one.T, self._mdp.mu), np.float64)
        return _Values(log_pi, pi, chain, d, Q, V)

    def _expected(self, V: Vector) -> Matrix:
        """E[V(s')|s, a], (S, A)."""
        return np.asarray((self._P * V[self._after]).sum(-1))

    def _chain(self, pi: Matrix) -> Matrix:
        """sum_a pi(a|s) P(s'|s, a), (S, S)."""
        chain = np.zeros((len(pi), len(pi)))
        np.add.at(chain, (np.arange(len(pi))[:, None, None], self._after), pi[:, :, None] * self._P)
        return chain


def _softmax(logits: Matrix) -> tuple[Matrix, Matrix]:
    """log pi and pi."""
    shifted = logits - logits.max(-1, keepdims=True)
    log_pi = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return log_pi, np.exp(log_pi)
