"""One run: rounds, evaluations between them, and a metrics dict after each evaluation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from raypfrl.config import RunConfig
from raypfrl.diagnostics import summary
from raypfrl.evaluation import mean_outcome
from raypfrl.federation.agent import Agent, Evaluation, Update, build_agent
from raypfrl.federation.server import Agents, Array, Server
from raypfrl.methods import METHODS
from raypfrl.oracles import Diverged

Metrics = dict[str, Any]


class InProcess:
    """All agents in this process, one after the other."""

    def __init__(self, config: RunConfig) -> None:
        self._config, self._agents = config, dict[int, Agent]()

    def local_updates(self, numbers: Sequence[int], theta: Array, round: int) -> list[Update]:
        """Every named agent's ``Agent.local_update``."""
        return [self._agent(i).local_update(row, round) for i, row in zip(numbers, rows(theta, numbers), strict=True)]

    def evaluations(self, numbers: Sequence[int], theta: Array, round: int) -> list[Evaluation]:
        """Every named agent's ``Agent.evaluate``."""
        alpha, m_adapt, m_eval = self._config.alpha, self._config.m_adapt, self._config.m_eval
        return [
            self._agent(i).evaluate(row, round, alpha, m_adapt, m_eval)
            for i, row in zip(numbers, rows(theta, numbers), strict=True)
        ]

    def _agent(self, number: int) -> Agent:
        if number not in self._agents:
            self._agents[number] = build_agent(self._config, number)
        return self._agents[number]


def rows(theta: Array, numbers: Sequence[int]) -> Sequence[Array]:
    """One theta an agent: the shared vector (d,), or the rows of (len(numbers), d)."""
    return [theta] * len(numbers) if theta.ndim == 1 else list(theta)


def splits(config: RunConfig) -> dict[str, list[int]]:
    """The agents to evaluate: those that learn, and, where theta is shared, the others too."""
    n, population = config.n, config.build_population()
    numbers = {"train": list(range(n)), "held_out": list(range(n, len(population.tasks)))}
    own = METHODS[config.method].initial(population, config.seed, config.agents()).ndim == 2
    return {name: agents for name, agents in numbers.items() if agents and (name == config.participants or not own)}


class Training:
    """The iterator behind ``train``: each step runs up to the next evaluation and gives its metrics.

    ``server`` holds theta and the state that a checkpoint needs. A run whose numbers stop being finite ends with a
    metrics dict of status ``diverged`` that holds the message; theta stays at the last finite one.
    """

    def __init__(self, config: RunConfig, agents: Agents | None = None, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.server = Server(config, agents or InProcess(config))
        self._splits = splits(config)
        self._seconds, self._start = 0.0, time.perf_counter()
        self._started = self._over = False
        if state is not None:
            self.server.restore(state)
            self._seconds = float(state["seconds"])
            self._started = self.server.round < config.rounds  # else only the last word is missing

    def __iter__(self) -> Self:
        return self

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
        metrics: Metrics = {"evaluations": [], "missed": " ".join(f"{k}:{i}" for k, i in self.server.missed)}
        self.server.missed.clear()
        for split, numbers in self._splits.items():
            answers = self.server.agents.evaluations(numbers, self.server.theta, self.server.round)
            self.server.spent.evaluation_seconds += sum(answer.seconds for answer in answers)
            outcomes = {
                m: mean_outcome([answer.outcomes[index] for answer in answers])
                for index, m in enumerate(self.config.m_adapt)
            }
            prefix = "" if split == self.config.participants else f"{split}/"
            largest = max(self.config.m_adapt, key=lambda m: float("inf") if m == "exact" else m)
            for when, m in (("before", 0), ("after", largest)):
                if m in outcomes:
                    metrics |= {
                        f"{prefix}{when}/return": outcomes[m].return_,
                        f"{prefix}{when}/success": outcomes[m].success,
                        f"{prefix}{when}/final_distance": outcomes[m].final_distance,
                    }
            if self.config.diagnostics and split == self.config.participants:
                after = [answer.outcomes[self.config.m_adapt.index(largest)].return_ for answer in answers]
                metrics |= summary(self.server.notes, [answer.diagnosis for answer in answers], after)
                self.server.notes.clear()
            metrics["evaluations"] += [
                {
                    "split": split,
                    "m_adapt": m,
                    "return": outcome.return_,
                    "success": outcome.success,
                    "final_distance": outcome.final_distance,
                }
                for m, outcome in outcomes.items()
            ]
        return self.counts() | metrics

    def counts(self) -> Metrics:
        """The metrics that need no evaluation: the round, and what was spent."""
        spent = self.server.spent
        return {
            "round": self.server.round,
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
