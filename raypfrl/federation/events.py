"""The event clock: agents that work at their own speed, in simulated time. Another driver of the same methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from raypfrl.config import RunConfig
from raypfrl.federation.agent import Update, frozen
from raypfrl.federation.server import Agents, Call, Server
from raypfrl.methods import Arrays
from raypfrl.oracles import AgentError, Diverged


class EventServer(Server):
    """A server that waits for nobody: "round" k is its k-th step, on the arrival of one agent's answer.

    Agent i takes ``task_times[i]`` for a task and is sent what there is as soon as it has answered, so by time T the
    server has made sum_i floor(T / t_i) steps; of answers that arrive together that of the lower agent is first. What
    an agent was sent may be old when its answer comes: its change is applied to what the server has now, and ``delay``,
    how many steps that is since, is an array of what came up for whoever wants to know.

    What an agent answers depends on what it was sent alone, so whoever is at work can be asked as soon as somebody's
    answer is needed, all at once. That order is no part of the results.
    """

    def __init__(self, config: RunConfig, agents: Agents) -> None:
        super().__init__(config, agents)
        self._learners = config.agents()
        self._times = np.broadcast_to(config.task_times, len(self._learners))
        self._done = np.zeros(len(self._learners), int)  # tasks that each has done
        self._calls = [self._sent(i) for i in self._learners]
        self._answers: dict[
            int, Update
        ] = {}  # of those at work, by their row: a cache, asked for again when it is lost
        self.time, self._delays = 0.0, 0

    def run_round(self) -> None:
        """The next arrival. All of it counts or, where something raises, nothing does.

        Raises Diverged where numbers stop being finite, AgentError where an agent or the server's step fails.
        """
        ends = (self._done + 1) * self._times
        row = int(ends.argmin())
        call, (phase,) = self._calls[row], self.method.phases
        update, spent, delay = self._answer(row), replace(self.spent), self.round - (call.round or 0)
        self._count(spent, call, update)
        up = {**self._applied(update.reply.up, call.down, delay), "delay": np.array([float(delay)])}
        arrays = self._combined(phase, self.arrays, [frozen(up)])
        self.arrays = {name: arrays[name] for name in self.arrays}
        self.kept = {**self.kept, call.agent: update.reply.kept}
        self.spent, self.drift, self.round = spent, 0.0, self.round + 1
        self.notes += [update.notes] if update.notes else []
        self.time, self._delays = float(ends[row]), self._delays + delay
        self._done[row] += 1
        self._calls[row] = self._sent(call.agent)
        del self._answers[row]

    def clock(self) -> Mapping[str, float]:
        """The metrics ``time`` and ``delay``."""
        return {"time": self.time, "delay": self._delays / max(self.round, 1)}

    def state(self) -> dict[str, Any]:
        """And who is at work, on what."""
        sent = {f"sent/{name}": np.stack([call.down[name] for call in self._calls]) for name in self._calls[0].down}
        since = np.array([call.round for call in self._calls])
        at_work = {"done": self._done.copy(), "since": since, "time": self.time, "delays": self._delays}
        return super().state() | sent | at_work

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken: whoever was at work still is."""
        super().restore(state)
        self._done, self.time = np.array(state["done"]), float(state["time"])
        self._delays, self._answers = int(state["delays"]), {}
        names = self.method.phases[0].down
        self._calls = [
            Call(i, frozen({n: state[f"sent/{n}"][row] for n in names}), self.kept.get(i), int(state["since"][row]))
            for row, i in enumerate(self._learners)
        ]

    def _sent(self, agent: int) -> Call:
        """A task: what the server has now, to work on under the number of its step."""
        return Call(agent, self._rows(self.arrays, self.method.phases[0].down, agent), self.kept.get(agent), self.round)

    def _answer(self, row: int) -> Update:
        """The answer of an agent at work; whoever else is at work is asked with it. Where one of these fails, this one
        alone says what is to happen now."""
        if row not in self._answers:
            waiting = [other for other in range(len(self._calls)) if other not in self._answers]
            try:
                found = self.agents.answers(0, self.round, [self._calls[other] for other in waiting])
            except (AgentError, Diverged):
                waiting, found = [row], self.agents.answers(0, self.round, [self._calls[row]])
            self._answers |= {other: update for other, update in zip(waiting, found, strict=True) if update is not None}
        return self._answers[row]

    def _applied(self, up: Arrays, sent: Arrays, delay: int) -> dict[str, Any]:
        """For what came back of the server's arrays: the server's own now plus the change."""
        changed = {name for name in up if name in sent and delay}
        return {name: self.arrays[name] + (x - sent[name]) if name in changed else x for name, x in up.items()}
