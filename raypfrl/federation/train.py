"""One run: rounds, evaluations between them, and a metrics dict after each evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from raypfrl.config import RunConfig
from raypfrl.evaluation import before_and_after, largest, mean_outcome, named
from raypfrl.federation.agent import Agent, Evaluation, Update, build_agent
from raypfrl.federation.events import EventServer
from raypfrl.federation.server import Agents, Call, Server
from raypfrl.methods import METHODS
from raypfrl.oracles import Diverged
from raypfrl.watch import Diagnosis, Notes

Metrics = dict[str, Any]


class InProcess:
    """All agents in this process, one after the other."""

    def __init__(self, config: RunConfig) -> None:
        self._config, self._agents = config, dict[int, Agent]()

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> list[Update]:
        """Every called agent's ``Agent.answer``."""
        return [
            self._agent(call.agent).answer(phase, round if call.round is None else call.round, call.down, call.kept)
            for call in calls
        ]

    def evaluations(self, round: int, calls: Sequence[Call]) -> list[Evaluation]:
        """Every called agent's ``Agent.evaluate``."""
        how = self._config.m_adapt, self._config.m_eval
        return [self._agent(call.agent).evaluate(round, call.down, call.kept, *how) for call in calls]

    def _agent(self, number: int) -> Agent:
        if number not in self._agents:
            self._agents[number] = build_agent(self._config, number)
        return self._agents[number]


def splits(config: RunConfig) -> dict[str, list[int]]:
    """The agents to evaluate: those that learn, and the others too where the method has something for them."""
    return {
        name: list(agents)
        for name, agents in config.splits().items()
        if agents and (name == config.participants or METHODS[config.method].unseen)
    }


SERVERS: Mapping[str, Callable[[RunConfig, Agents], Server]] = {"rounds": Server, "events": EventServer}
TOLD = ("refused",)  # single numbers among a server's arrays that are metrics


class Training:
    """The iterator behind ``train``: each step runs up to the next evaluation and gives its metrics.

    ``server`` holds theta (``server.theta``) and the state that a checkpoint needs. A run whose numbers stop being
    finite ends with a metrics dict of status ``diverged`` that holds the message; theta stays at the last finite one.
    """

    def __init__(self, config: RunConfig, agents: Agents | None = None, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.server = SERVERS[config.clock](config, agents or InProcess(config))
        self._splits = splits(config)
        self._seconds, self._start = 0.0, time.perf_counter()
        self._started = self._over = False
        if state is not None:
            self.server.restore(state)
            self._seconds = float(state["seconds"])
            self._started = self.server.round < config.rounds  # else only the last word is missing

    def __iter__(self) -> Self:
        return self

    @np.errstate(all="ignore")  # the numbers themselves are looked at: NumPy's warnings would only be in the way
    def __next__(self) -> Metrics:
        if self._over:
            raise StopIteration
        try:
            if self._started:
                self._run_to_next_evaluation()
            self._started = True
            metrics = self._evaluate()
        except Diverged as error:
            self._over = True
            return self.counts() | {"status": "diverged", "message": str(error), "evaluations": []}
        self._over = self.server.round >= self.config.rounds
        return metrics | {"status": "finished" if self._over else "running"}

    def state(self) -> dict[str, Any]:
        """What resumes this run after the evaluation just given: arrays and numbers only."""
        return self.server.state() | {"seconds": self._elapsed()}

    def _run_to_next_evaluation(self) -> None:
        self.server.run_round()
        while not self.config.evaluated_after(self.server.round):
            self.server.run_round()

    def _evaluate(self) -> Metrics:
        server, last = self.server, largest(self.config.m_adapt)
        metrics: Metrics = {"evaluations": [], "missed": " ".join(f"{k}:{i}" for k, i in server.missed)}
        server.missed.clear()
        for split, numbers in self._splits.items():
            answers = server.evaluations(numbers)
            means = dict(
                zip(
                    self.config.m_adapt,
                    map(mean_outcome, zip(*(a.outcomes for a in answers), strict=True)),
                    strict=True,
                )
            )
            metrics |= before_and_after("" if split == self.config.participants else f"{split}/", means)
            metrics["evaluations"] += [{"split": split, "m_adapt": m, **named(mean)} for m, mean in means.items()]
            if self.config.diagnostics and split == self.config.participants:
                after = [answer.outcomes[self.config.m_adapt.index(last)].return_ for answer in answers]
                metrics |= summary(server.notes, [answer.diagnosis for answer in answers], after)
                server.notes.clear()
        return self.counts() | metrics

    def counts(self) -> Metrics:
        """The metrics that need no evaluation: what the server's arrays tell, the round, what was spent."""
        spent, arrays = self.server.spent, self.server.arrays
        return {
            **{name: float(array[0]) for name, array in arrays.items() if name in TOLD},
            "round": self.server.round,
            **self.server.clock(),
            "trajectories": spent.trajectories / len(self.config.agents()),
            "env_steps": spent.env_steps,
            "floats_sent": spent.floats_sent,
            "drift": self.server.drift,
            "seconds": self._elapsed(),
            "kernel_seconds": spent.kernel_seconds,
            "evaluation_seconds": spent.evaluation_seconds,
        }

    def _elapsed(self) -> float:
        return self._seconds + time.perf_counter() - self._start


def train(config: RunConfig) -> Training:
    """Run ``config`` in this process, without Ray: iterate to get the metrics after each evaluation.

    >>> for metrics in train(RunConfig(population="gridworld", method="exact", rounds=2)):
    ...     print(metrics["round"], round(metrics["after/return"], 2))
    """
    return Training(config)


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
        each = np.stack([diagnosis.unadapted for diagnosis in known])
        metrics["diagnostics/heterogeneity"] = float(((each - each.mean(axis=0)) ** 2).sum(axis=1).mean())
        metrics["diagnostics/bias"] = float(np.mean([diagnosis.bias for diagnosis in known]))
        metrics["diagnostics/variance"] = float(np.mean([diagnosis.variance for diagnosis in known]))
    if after:
        metrics["diagnostics/spread"] = float(np.std(after))
    return metrics
