"""The server: Algorithm 1's outer loop. It holds its arrays and the count of what was spent, and sees no trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from raypfrl.config import RunConfig
from raypfrl.federation.agent import Evaluation, Update, frozen
from raypfrl.methods import Arrays, Phase, Reply
from raypfrl.oracles import AgentError, Diverged, telling
from raypfrl.streams import SERVER, Purpose, Stream
from raypfrl.watch import Notes

Array = NDArray[np.float64]


class Call(NamedTuple):
    """What goes to one agent: what the server sends, and what the agent keeps (carried for it, unread); None where it
    was never met. round: the one that names its batches, where that is not the server's."""

    agent: int
    down: Arrays
    kept: Arrays | None
    round: int | None = None


class Agents(Protocol):
    """Where the agents live: in this process or in Ray actors. Answers come in the order of the calls."""

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> Sequence[Update | None]:
        """Every called agent's ``Agent.answer``; None for one that is left out of this round (min_agents)."""

    def evaluations(self, round: int, calls: Sequence[Call]) -> list[Evaluation]:
        """Every called agent's ``Agent.evaluate``."""


@dataclass
class Spent:
    """What a run has spent so far: the counts over all agents together; seconds of computing in the agents."""

    trajectories: int = 0
    env_steps: int = 0
    floats_sent: int = 0
    kernel_seconds: float = 0.0
    evaluation_seconds: float = 0.0


class Server:
    """The server's arrays, what each agent keeps (carried for it, unread), and the round k."""

    def __init__(self, config: RunConfig, agents: Agents) -> None:
        self.config, self.agents, self.method = config, agents, config.build_method()
        self.round, self.spent, self.drift = 0, Spent(), 0.0
        self.missed: list[tuple[int, int]] = []  # (round, agent) that was left out, since the last evaluation
        self.notes: list[Notes] = []  # with diagnostics, since the last evaluation
        self.arrays = self._begun()
        self.kept: Mapping[int, Arrays] = {}

    @property
    def theta(self) -> Array:
        """theta^k (d,). Raises KeyError for a method whose server has no such array."""
        return self.arrays["theta"]

    def _begun(self) -> Arrays:
        population, rows = self.config.build_population(), len(self.config.agents())
        with telling("the server's begin"):
            arrays = frozen(self.method.begin(population))
        if any(name.endswith("_i") for name in arrays) and not self.method.everyone and self.config.cohort < rows:
            raise AgentError("the server's begin: an array with a row an agent needs all of them: leave out cohort")
        return frozen({n: np.tile(array, (rows, 1)) if n.endswith("_i") else array for n, array in arrays.items()})

    def run_round(self) -> None:
        """Round k: each phase sends, asks, combines. All of it counts or, where something raises, nothing does: who is
        left out of one phase is out of the round, and keeps what it kept before.

        Raises Diverged where numbers stop being finite, AgentError where an agent or the server's step fails.
        """
        arrays, kept, spent = self.arrays, dict(self.kept), replace(self.spent)
        numbers, missed, notes = self.cohort(), list[tuple[int, int]](), list[Notes]()
        for number, phase in enumerate(self.method.phases):
            calls = [Call(i, self._rows(arrays, phase.down, i), kept.get(i)) for i in numbers]
            updates = self.agents.answers(number, self.round, calls)
            missed += [(self.round, i) for i, update in zip(numbers, updates, strict=True) if update is None]
            answered = [(call, update) for call, update in zip(calls, updates, strict=True) if update is not None]
            for call, update in answered:
                self._count(spent, call, update)
            notes += [update.notes for _, update in answered if update.notes]
            numbers, replies = [call.agent for call, _ in answered], [update.reply for _, update in answered]
            kept |= {i: reply.kept for i, reply in zip(numbers, replies, strict=True)}
            drift = _drift(arrays, replies)
            arrays = self._combined(phase, arrays, [reply.up for reply in replies])
        self.arrays = {name: arrays[name] for name in self.arrays}  # what else a phase left was for the next phase
        self.kept = {**self.kept, **{i: kept[i] for i in numbers}}
        self.spent, self.drift, self.round = spent, drift, self.round + 1
        self.missed += missed
        self.notes += notes

    def clock(self) -> Mapping[str, float]:
        """The metrics of a clock; a server that goes by rounds has none."""
        return {}

    def evaluations(self, numbers: Sequence[int]) -> list[Evaluation]:
        """What the named agents achieve with what the server has now."""
        answers = self.agents.evaluations(self.round, [self.call(i) for i in numbers])
        self.spent.evaluation_seconds += sum(answer.seconds for answer in answers)
        return answers

    def call(self, agent: int) -> Call:
        """What an agent is given to act with now: all that the server has, and what the agent keeps."""
        return Call(agent, self._rows(self.arrays, tuple(self.arrays), agent), self.kept.get(agent))

    def cohort(self) -> list[int]:
        """The agents that take part in this round, in order: r of them, without replacement."""
        learners, r = self.config.agents(), self.config.cohort
        if r == len(learners):
            return list(learners)
        rng = Stream(self.config.seed, SERVER, self.round, 0, Purpose.COHORT).generator()
        return sorted(learners[row] for row in rng.choice(len(learners), size=r, replace=False))

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds: arrays and numbers only. theta by its name, the server's other arrays as
        ``server/<name>``, what agents keep as ``kept/<name>`` with a row for each of the agents ``kept_by``."""
        server = {name if name == "theta" else f"server/{name}": array for name, array in self.arrays.items()}
        state = {**server, "round": self.round, "drift": self.drift, **vars(self.spent)}
        numbers = [i for i, kept in self.kept.items() if kept]
        if numbers:
            names = self.kept[numbers[0]]
            state |= {f"kept/{name}": np.stack([self.kept[i][name] for i in numbers]) for name in names}
            state["kept_by"] = np.array(numbers)
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken; there is no random state to bring back."""
        if "theta" in state and np.ndim(state["theta"]) == 2:  # the first version's, of agents without a federation
            state = {**state, "kept/theta": state["theta"], "kept_by": self.config.agents()}
        self.arrays = frozen({n: np.asarray(state[n if n == "theta" else f"server/{n}"]) for n in self.arrays})
        names = [name.removeprefix("kept/") for name in state if name.startswith("kept/")]
        self.kept = {
            int(i): frozen({name: np.asarray(state[f"kept/{name}"][row]) for name in names})
            for row, i in enumerate(state.get("kept_by", ()))
        }
        self.round, self.drift = int(state["round"]), float(state["drift"])
        self.spent = Spent(**{name: type(value)(state[name]) for name, value in vars(Spent()).items()})

    def _count(self, spent: Spent, call: Call, update: Update) -> None:
        """Add what an answer cost; raises Diverged where it is not finite."""
        reply = update.reply
        self._check(f"agent {call.agent}, round {self.round}: its", {**reply.up, **reply.kept})
        spent.trajectories += update.trajectories
        spent.env_steps += update.env_steps
        spent.kernel_seconds += update.seconds
        spent.floats_sent += _floats(call.down) + _floats(reply.up)

    def _rows(self, arrays: Arrays, names: Sequence[str], agent: int) -> Arrays:
        """What is sent to an agent; of an array whose name ends in _i, (n, ...), its own row."""
        learners = self.config.agents()
        return {
            name: arrays[name][learners.index(agent)] if name.endswith("_i") and agent in learners else arrays[name]
            for name in names
        }

    def _combined(self, phase: Phase, arrays: Arrays, ups: Sequence[Arrays]) -> Arrays:
        with telling(f"round {self.round}, the server's step"):
            arrays = frozen(phase.combine(arrays, ups, len(self.config.agents())))
        self._check(f"round {self.round}: the server's", arrays)
        return arrays

    def _check(self, whose: str, arrays: Arrays) -> None:
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise Diverged(f"{whose} {name} is not finite; lower beta or alpha")


def _floats(arrays: Arrays) -> int:
    return sum(array.size for array in arrays.values())


def _drift(arrays: Arrays, replies: Sequence[Reply]) -> float:
    """The root mean square distance of what comes back for the server's arrays from its average; of what agents keep,
    where they send nothing."""
    ends = [
        {name: x for name, x in reply.up.items() if name in arrays} if reply.up else reply.kept for reply in replies
    ]
    if not ends[0]:
        return float("nan")
    rows = np.stack([np.concatenate([x for _, x in sorted(end.items())]) for end in ends])
    return float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()))
