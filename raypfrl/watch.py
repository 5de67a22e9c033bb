"""Diagnostics of a run (``diagnostics = true``): an oracle that is watched, for what the paper's bounds are about.

They only watch. What a run computes is the same to the byte with and without them, and without them they cost nothing.
Lemmas 1, 3(i) and 4 hold surely, so a run in which one fails has a mistake in it: it ends there, and the message says
which agent, round and local step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from raypfrl.bounds import Bounds
from raypfrl.methods import Direction
from raypfrl.methods.per_fedavg_pg import exact
from raypfrl.oracles import AgentError, Credit, Oracle
from raypfrl.policies import Vector
from raypfrl.streams import LocalStep, Purpose, Stream

REPLICATES = 32  # directions that the bias and the variance of one are computed from
ROUNDING = 1 + 1e-5  # bounds are reached, and the fused oracle computes in float32


class Notes(NamedTuple):
    """What one agent noted in one round: sums over its local steps, and the largest drift ratio."""

    curvature_terms: int
    cosine: float
    ratio: float
    drift_ratio: float


class Diagnosis(NamedTuple):
    """One agent's grad F_i (d,) and grad J_i (d,) at theta, and the bias and variance of the direction there."""

    gradient: Vector
    unadapted: Vector
    bias: float
    variance: float


@dataclass(frozen=True)
class Replicate:
    """Stands for a ``LocalStep`` of which there are many at one theta; its batches have a purpose of their own."""

    seed: int
    agent: int
    round: int
    number: int
    part: int = 0

    @property
    def inner(self) -> Stream:
        """D_in."""
        return self._stream(0)

    @property
    def hessian(self) -> Stream:
        """D_h."""
        return self._stream(1)

    @property
    def outer(self) -> Stream:
        """D_out."""
        return self._stream(2)

    @property
    def perturbation(self) -> Stream:
        """What is drawn beside trajectories."""
        return self.numbered(self.part + 2**19)._stream(0)

    def numbered(self, part: int) -> Replicate:
        """This replicate's batches of another part."""
        return replace(self, part=part)

    def _stream(self, batch: int) -> Stream:
        return Stream(self.seed, self.agent, self.round, 3 * self.number + batch, Purpose.DIAGNOSE, self.part)


class Watched(Oracle):
    """An oracle that is watched as it answers."""

    def __init__(self, oracle: Oracle, exact: Oracle | None, bounds: Bounds, *, alpha: float, beta: float) -> None:
        self.meter = oracle.meter
        self._oracle, self._exact, self._bounds = oracle, exact, bounds
        self._alpha, self._beta = alpha, beta
        self._notes = Notes(0, 0.0, 0.0, 0.0)

    def ask(self, question: str, *arguments: Any, **options: Any) -> Any:
        """The answer of the oracle behind."""
        return getattr(self._oracle, question)(*arguments, **options)

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2), held to Lemma 1(ii)."""
        g = super().policy_gradient(theta, m, stream)
        _hold(stream, "Lemma 1(ii)", "||g||", float(np.linalg.norm(g)), "G_J", self._bounds.G_J)
        return g

    def hessian_vector_product(
        self,
        theta: Vector,
        v: Vector,
        m: int,
        stream: Stream,
        *,
        credit: Credit = "all",
        baseline: Vector | None = None,
    ) -> Vector:
        """(3), held to Lemma 1(iii); notes how the curvature term lies to v = g_out."""
        H_v = super().hessian_vector_product(theta, v, m, stream, credit=credit, baseline=baseline)
        size, of_v = float(np.linalg.norm(H_v)), float(np.linalg.norm(v))
        _hold(stream, "Lemma 1(iii)", "||H_hat v||", size, "L_J ||v||", self._bounds.L_J * of_v if of_v else np.inf)
        if size and of_v:
            terms, cosine, ratio, drift_ratio = self._notes
            cosine += float(H_v @ v) / (size * of_v)
            self._notes = Notes(terms + 1, cosine, ratio + self._alpha * size / of_v, drift_ratio)
        return H_v

    def local_step(self, step: LocalStep, broadcast: Vector, direction: Vector, theta: Vector) -> None:
        """One local step has been made, from theta^{k,t} to theta = theta^{k,t+1}: Lemmas 3(i) and 4."""
        where = f"agent {step.agent}, round {step.round}, local step {step.step}"
        G_F = self._bounds.G_F
        _hold(where, "Lemma 3(i)", "||d||", float(np.linalg.norm(direction)), "G_F", G_F)
        drift, bound = float(np.linalg.norm(theta - broadcast)), self._beta * (step.step + 1) * G_F
        _hold(where, "Lemma 4", "||theta^{k,t+1} - theta^k||", drift, "beta (t+1) G_F", bound)
        self._notes = self._notes._replace(drift_ratio=max(self._notes.drift_ratio, drift / bound))

    def diagnose(self, direction: Direction, theta: Vector, *, seed: int, agent: int, round: int) -> Diagnosis | None:
        """grad F_i(theta) by (6), grad J_i(theta), and how far the direction is from the former in the mean and from
        draw to draw; None without an exact oracle. The bias found is never below its own noise, about
        sqrt(variance / REPLICATES)."""
        if self._exact is None:
            return None
        steps = [Replicate(seed, agent, round, number) for number in range(REPLICATES)]
        gradient = exact(self._exact, theta, steps[0], alpha=self._alpha, m_in=1, m_h=1, m_out=1)
        unadapted = self._exact.policy_gradient(theta, 1, steps[0].inner)
        drawn = np.stack([direction(self._oracle, theta, step) for step in steps])
        mean = drawn.mean(axis=0)
        variance = float(((drawn - mean) ** 2).sum()) / (REPLICATES - 1)
        return Diagnosis(gradient, unadapted, float(np.linalg.norm(mean - gradient)), variance)

    def take_notes(self) -> Notes:
        """The notes since they were last taken."""
        notes, self._notes = self._notes, Notes(0, 0.0, 0.0, 0.0)
        return notes


def _hold(where: object, lemma: str, what: str, size: float, bound_name: str, bound: float) -> None:
    if size > bound * ROUNDING:
        raise AgentError(f"{where}: {lemma} does not hold: {what} = {size:.6g} is above {bound_name} = {bound:.6g}")
