"""Diagnostics of a run (``diagnostics = true``): the quantities that the paper's bounds are about, and the bounds.

They only watch. What a run computes is the same to the byte with and without them, and without them they cost nothing.
Lemmas 1, 3(i) and 4 hold surely, so a run in which one fails has a mistake in it: it ends there, and the message says
which agent, round and local step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from raypfrl.methods import METHODS
from raypfrl.oracles import AgentError, Meter, Oracle, Outcome
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.streams import LocalStep, Purpose, Stream
from raypfrl.theory import Problem
from raypfrl.theory_report import reading

REPLICATES = 32  # directions that the bias and the variance of one are computed from
ROUNDING = 1 + 1e-5  # bounds are reached, and the fused oracle computes in float32
# By how much a baseline that is a mean of gamma^t r_t can enlarge R_max in L_J: |gamma^t r_t - b_t| <= 2 gamma^t R_max.
CURVATURE = {"paper": 1.0, "causal": 1.0, "causal_baseline": 2.0}
COVERED = ("exact", "first_order", "fedavg_pg", "independent")  # methods whose directions Lemma 3(i) bounds


class Notes(NamedTuple):
    """What one agent noted in one round: sums over its local steps, and the largest drift ratio."""

    curvature_terms: int
    cosine: float
    ratio: float
    drift_ratio: float


class Diagnosis(NamedTuple):
    """One agent's grad F_i (d,) at theta, and the bias and variance of the direction there."""

    gradient: Vector
    bias: float
    variance: float


class Bounds(NamedTuple):
    """Lemma 1: ||g|| <= G_J and ||u|| <= L_J, the estimator's own; Lemma 3(i): ||d|| <= G_F. inf: no bound is known."""

    G_J: float = np.inf
    L_J: float = np.inf
    G_F: float = np.inf


def bounds(population: Population, method: str, settings: Mapping[str, Any]) -> Bounds:
    """The bounds of a run, by the tight constants where there are such, else by the paper's. None are known for a
    policy whose score has no bound, for gamma = 1, and for methods and estimators that the lemmas do not cover."""
    if population.gamma == 1:
        return Bounds()
    read = reading(population)
    problem: Problem | None = read.tight or read.paper
    if problem is None or read.caveat:
        return Bounds()
    L_J = problem.L_J * CURVATURE.get(settings.get("curvature", "paper"), np.inf)
    alpha = settings.get("alpha", 0.0)
    G_F = (1 + alpha * L_J) * problem.G_J if alpha > 0 else problem.G_J
    return Bounds(problem.G_J, L_J, G_F if method in COVERED else np.inf)


@dataclass(frozen=True)
class Replicate:
    """Stands for a ``LocalStep`` of which there are many at one theta; its batches have a purpose of their own."""

    seed: int
    agent: int
    round: int
    number: int

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

    def _stream(self, batch: int) -> Stream:
        return Stream(self.seed, self.agent, self.round, 3 * self.number + batch, Purpose.DIAGNOSE)


class Watched:
    """An oracle that is watched as it answers; an ``Oracle``."""

    def __init__(self, oracle: Oracle, exact: Oracle | None, bounds: Bounds, *, alpha: float, beta: float) -> None:
        self._oracle, self._exact, self._bounds = oracle, exact, bounds
        self._alpha, self._beta = alpha, beta
        self._notes = Notes(0, 0.0, 0.0, 0.0)

    @property
    def meter(self) -> Meter:
        """The meter of the oracle behind."""
        return self._oracle.meter

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2), held to Lemma 1(ii)."""
        g = self._oracle.policy_gradient(theta, m, stream)
        _hold(stream, "Lemma 1(ii)", "||g||", float(np.linalg.norm(g)), "G_J", self._bounds.G_J)
        return g

    def hessian_vector_product(self, theta: Vector, v: Vector, m: int, stream: Stream, **estimator: Any) -> Vector:
        """(3), held to Lemma 1(iii); notes how the curvature term lies to v = g_out."""
        H_v = self._oracle.hessian_vector_product(theta, v, m, stream, **estimator)
        size, of_v = float(np.linalg.norm(H_v)), float(np.linalg.norm(v))
        _hold(stream, "Lemma 1(iii)", "||H_hat v||", size, "L_J ||v||", self._bounds.L_J * of_v if of_v else np.inf)
        if size and of_v:
            terms, cosine, ratio, drift_ratio = self._notes
            cosine += float(H_v @ v) / (size * of_v)
            self._notes = Notes(terms + 1, cosine, ratio + self._alpha * size / of_v, drift_ratio)
        return H_v

    def mean_rewards(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch mean of gamma^t r_t."""
        return self._oracle.mean_rewards(theta, m, stream)

    def value_baseline(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The baseline (b_t, w)."""
        return self._oracle.value_baseline(theta, m, stream)

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        """(1)."""
        return self._oracle.returns(theta, m, stream)

    def local_step(self, step: LocalStep, broadcast: Vector, direction: Vector, theta: Vector) -> None:
        """One local step has been made, from theta^{k,t} to theta = theta^{k,t+1}: Lemmas 3(i) and 4."""
        where = f"agent {step.agent}, round {step.round}, local step {step.step}"
        G_F = self._bounds.G_F
        _hold(where, "Lemma 3(i)", "||d||", float(np.linalg.norm(direction)), "G_F", G_F)
        drift, bound = float(np.linalg.norm(theta - broadcast)), self._beta * (step.step + 1) * G_F
        _hold(where, "Lemma 4", "||theta^{k,t+1} - theta^k||", drift, "beta (t+1) G_F", bound)
        self._notes = self._notes._replace(drift_ratio=max(self._notes.drift_ratio, drift / bound))

    def diagnose(
        self, direction: Callable[..., Vector], theta: Vector, settings: Mapping[str, Any], *, seed: int, agent: int,
        round: int,
    ) -> Diagnosis | None:  # fmt: skip
        """grad F_i(theta) by (6), and how far the direction is from it in the mean and from draw to draw; None without
        an exact oracle. The bias found is never below its own noise, about sqrt(variance / REPLICATES)."""
        if self._exact is None:
            return None
        steps = [Replicate(seed, agent, round, number) for number in range(REPLICATES)]
        gradient = METHODS["exact"].direction(
            self._exact, theta, steps[0], alpha=self._alpha, m_in=1, m_h=1, m_out=1, curvature="paper",
            curvature_clip=None,
        )  # fmt: skip
        drawn = np.stack([direction(self._oracle, theta, step, **settings) for step in steps])
        mean = drawn.mean(axis=0)
        variance = float(((drawn - mean) ** 2).sum()) / (REPLICATES - 1)
        return Diagnosis(gradient, float(np.linalg.norm(mean - gradient)), variance)

    def take_notes(self) -> Notes:
        """The notes since they were last taken."""
        notes, self._notes = self._notes, Notes(0, 0.0, 0.0, 0.0)
        return notes


def _hold(where: object, lemma: str, what: str, size: float, bound_name: str, bound: float) -> None:
    if size > bound * ROUNDING:
        raise AgentError(f"{where}: {lemma} does not hold: {what} = {size:.6g} is above {bound_name} = {bound:.6g}")


def summary(notes: Sequence[Notes], diagnoses: Sequence[Diagnosis | None], after: Sequence[float]) -> dict[str, float]:
    """The metrics of one evaluation (the glossary is in ``metrics``): means over the agents and the local steps since
    the last one. after: every agent's after/return. What a population does not tell is left out."""
    metrics = {}
    if terms := sum(note.curvature_terms for note in notes):
        metrics["diagnostics/curvature_cosine"] = sum(note.cosine for note in notes) / terms
        metrics["diagnostics/curvature_ratio"] = sum(note.ratio for note in notes) / terms
    if drift_ratio := max((note.drift_ratio for note in notes), default=0.0):
        metrics["diagnostics/drift_ratio"] = drift_ratio
    if known := [diagnosis for diagnosis in diagnoses if diagnosis is not None]:
        gradient = np.mean([diagnosis.gradient for diagnosis in known], axis=0)
        metrics["diagnostics/gradient_norm"] = float(np.linalg.norm(gradient))
        metrics["diagnostics/bias"] = float(np.mean([diagnosis.bias for diagnosis in known]))
        metrics["diagnostics/variance"] = float(np.mean([diagnosis.variance for diagnosis in known]))
    if after:
        metrics["diagnostics/spread"] = float(np.std(after))
    return metrics
