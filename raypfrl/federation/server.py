"""The server: Algorithm 1's outer loop. It holds theta and the count of what was spent, and sees no trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from raypfrl.config import RunConfig
from raypfrl.diagnostics import Notes
from raypfrl.federation.agent import Evaluation, Update
from raypfrl.methods import METHODS
from raypfrl.oracles import Diverged
from raypfrl.streams import SERVER, Purpose, Stream

Array = NDArray[np.float64]


class Agents(Protocol):
    """Where the agents live: in this process or in Ray actors. Answers come in the order of ``numbers``.

    theta: one vector (d,) for all, or one row (len(numbers), d) for each.
    """

    def local_updates(self, numbers: Sequence[int], theta: Array, round: int) -> Sequence[Update | None]:
        """Every named agent's ``Agent.local_update``; None for one that is left out of this round (min_agents)."""

    def evaluations(self, numbers: Sequence[int], theta: Array, round: int) -> list[Evaluation]:
        """Every named agent's ``Agent.evaluate``."""


@dataclass
class Spent:
    """What a run has spent so far: the counts over all agents together; seconds of computing in the agents."""

    trajectories: int = 0
    env_steps: int = 0
    floats_sent: int = 0
    kernel_seconds: float = 0.0
    evaluation_seconds: float = 0.0


class Server:
    """theta^k, the round k, and the agents. theta is (d,), or (n, d) where every agent keeps its own."""

    def __init__(self, config: RunConfig, agents: Agents) -> None:
        self.config, self.agents = config, agents
        self.method = METHODS[config.method]
        self.round, self.spent, self.drift = 0, Spent(), 0.0
        self.missed: list[tuple[int, int]] = []  # (round, agent) that was left out, since the last evaluation
        self.notes: list[Notes] = []  # with diagnostics, since the last evaluation
        self.theta = self.method.initial(config.build_population(), config.seed, config.agents())

    def run_round(self) -> None:
        """Round k of Algorithm 1: broadcast theta^k, tau local steps in every agent of the cohort, combine.

        Raises Diverged (and keeps theta^k) where an agent's numbers stop being finite.
        """
        rows = self.cohort()
        numbers = [self.config.agents()[row] for row in rows]
        answers = self.agents.local_updates(numbers, self.rows_of(rows), self.round)
        self.missed += [(self.round, i) for i, answer in zip(numbers, answers, strict=True) if answer is None]
        rows = [row for row, answer in zip(rows, answers, strict=True) if answer is not None]
        updates = [answer for answer in answers if answer is not None]
        results = np.stack([update.theta for update in updates])
        for row, result in zip(rows, results, strict=True):
            if not np.isfinite(result).all():
                agent = self.config.agents()[row]
                raise Diverged(f"agent {agent}, round {self.round}: its theta is not finite; lower beta or alpha")
        self.theta = self.method.combine(self.theta, rows, results)
        self.drift = float(np.sqrt(((results - results.mean(axis=0)) ** 2).sum(axis=1).mean()))
        self.spent.trajectories += sum(update.trajectories for update in updates)
        self.spent.env_steps += sum(update.env_steps for update in updates)
        self.spent.kernel_seconds += sum(update.seconds for update in updates)
        self.spent.floats_sent += self.method.floats_a_round * results.size
        self.notes += [update.notes for update in updates if update.notes]
        self.round += 1

    def cohort(self) -> list[int]:
        """The rows of the agents that take part in this round, in order: r of them, without replacement."""
        learners, r = len(self.config.agents()), self.config.cohort
        if r == learners:
            return list(range(learners))
        rng = Stream(self.config.seed, SERVER, self.round, 0, Purpose.COHORT).generator()
        return sorted(int(row) for row in rng.choice(learners, size=r, replace=False))

    def rows_of(self, rows: Sequence[int]) -> Array:
        """What is broadcast: theta itself, or each agent's own row."""
        return self.theta if self.theta.ndim == 1 else self.theta[list(rows)]

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds: arrays and numbers only."""
        return {"theta": self.theta, "round": self.round, "drift": self.drift, **vars(self.spent)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken; there is no random state to bring back."""
        self.theta = np.array(state["theta"], np.float64)
        self.round, self.drift = int(state["round"]), float(state["drift"])
        self.spent = Spent(**{name: type(value)(state[name]) for name, value in vars(Spent()).items()})
