"""The table oracle: a finite MDP, sampled from its own table. Episodes as every oracle has them; and the chain that no
episode cuts, for methods that learn from transitions."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from raypfrl.oracles.oracle import BEGIN, Matrix, Meter, Oracle, Outcome
from raypfrl.policies import LogLinear, Vector
from raypfrl.populations.population import MDP, successors
from raypfrl.streams import Stream

States = NDArray[np.int64]


class TableOracle(Oracle):
    """Sampled answers about one finite MDP with a log-linear policy. A chain has no memory here: its position goes in
    with the question and comes out with the answer."""

    def __init__(self, mdp: MDP, policy: LogLinear, gamma: float, horizon: int) -> None:
        self.meter = Meter()
        self._mdp, self._policy, self._horizon = mdp, policy, horizon
        self._after, probabilities = successors(mdp.P)
        self._below, self._begun = probabilities.cumsum(-1), mdp.mu.cumsum()
        self._discounts = gamma ** np.arange(horizon + 1)

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2)."""
        start = time.perf_counter()
        pi = self._pi(theta)
        states, decisions = self._episodes(pi, m, stream)
        rewards = self._discounts * self._mdp.r[states, decisions]
        to_go = rewards[:, ::-1].cumsum(-1)[:, ::-1]
        in_logits, at = np.zeros_like(pi), np.zeros(len(pi))
        np.add.at(in_logits, (states, decisions), to_go)
        np.add.at(at, states, to_go)
        self.meter.seconds += time.perf_counter() - start
        return self._policy.pullback((in_logits - at[:, None] * pi) / m)

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        """(1)."""
        start = time.perf_counter()
        states, decisions = self._episodes(self._pi(theta), m, stream)
        return_ = float((self._discounts * self._mdp.r[states, decisions]).sum(-1).mean())
        success = final_distance = float("nan")
        if (distance := self._mdp.distance) is not None:
            success = float((distance[states] == 0).any(-1).mean())
            final_distance = float(distance[states[:, -1]].mean())
        self.meter.seconds += time.perf_counter() - start
        return Outcome(return_, success, final_distance)

    def transitions(self, theta: Vector, position: Vector, m: int, stream: Stream) -> Matrix:
        """m transitions, each with the weight 1/m."""
        start = time.perf_counter()
        pi = self._pi(theta)
        states, actions = pi.shape
        below, u = pi.cumsum(-1), stream.generator().random((m + 1, 2)).tolist()
        if position[0] == BEGIN:
            s = min(int(self._begun.searchsorted(u[m][0], "right")), states - 1)
            a = min(int(below[s].searchsorted(u[m][1], "right")), actions - 1)
        else:
            s, a = divmod(int(position[0]), actions)
        rows = np.empty((m, 4))
        for row, (of_state, of_decision) in zip(rows, u, strict=False):
            x, r = s * actions + a, self._mdp.r[s, a]
            k = min(int(self._below[s, a].searchsorted(of_state, "right")), self._below.shape[-1] - 1)
            s = int(self._after[s, a, k])
            a = min(int(below[s].searchsorted(of_decision, "right")), actions - 1)
            row[:] = 1 / m, x, r, s * actions + a
        self.meter.env_steps += m
        self.meter.seconds += time.perf_counter() - start
        return rows

    def _pi(self, theta: Vector) -> Matrix:
        logits = self._policy.logits(theta)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return np.asarray(weights / weights.sum(-1, keepdims=True))

    def _episodes(self, pi: Matrix, m: int, stream: Stream) -> tuple[States, States]:
        """The states and decisions of m episodes, both (m, H+1)."""
        u = stream.generator().random((2, self._horizon + 1, m))
        states, decisions = np.empty((2, m, self._horizon + 1), np.int64)
        s, below = _drawn(self._begun[None], u[0, 0]), pi.cumsum(-1)
        for h in range(self._horizon + 1):
            a = _drawn(below[s], u[1, h])
            states[:, h], decisions[:, h] = s, a
            if h < self._horizon:
                s = self._after[s, a, _drawn(self._below[s, a], u[0, h + 1])]
        self.meter.trajectories += m
        self.meter.env_steps += m * (self._horizon + 1)
        return states, decisions


def _drawn(below: Matrix, u: Vector) -> States:
    """The first entry of each row whose cumulative probability exceeds its uniform number."""
    return np.asarray(np.minimum((below <= u[:, None]).sum(-1), below.shape[-1] - 1))
