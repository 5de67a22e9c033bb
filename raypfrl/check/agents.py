"""Agents that work as they may anywhere, and have to give the same bytes; and two that look on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from raypfrl.config import RunConfig
from raypfrl.federation import Agent, Call, Evaluation, InProcess, Training, Update
from raypfrl.oracles import Oracle


def outcome(training: Training) -> tuple[dict[str, bytes], list[str]]:
    """All that a run gives, without what a clock says: its state in the end, and its rows as text (nan is not equal to
    itself)."""
    rows = [repr({name: value for name, value in row.items() if "seconds" not in name}) for row in training]
    state = {name: np.asarray(value).tobytes() for name, value in training.state().items() if "seconds" not in name}
    return state, rows


class Forgetful(InProcess):
    """Every call finds new agents: nothing that a call needs is kept between calls."""

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> list[Update]:
        """As ever."""
        self._agents.clear()
        return super().answers(phase, round, calls)

    def evaluations(self, round: int, calls: Sequence[Call]) -> list[Evaluation]:
        """As ever."""
        self._agents.clear()
        return super().evaluations(round, calls)


class Backwards(InProcess):
    """The last agent answers first, as if the others took longer."""

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> list[Update]:
        """In the order of the calls."""
        return super().answers(phase, round, calls[::-1])[::-1]

    def evaluations(self, round: int, calls: Sequence[Call]) -> list[Evaluation]:
        """In the order of the calls."""
        return super().evaluations(round, calls[::-1])[::-1]


class Poisoned(InProcess):
    """The global generators are somewhere else at every call. They are as before in the end, and ``moved`` tells
    whether an agent has moved them."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.moved, self._calls = False, 0

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> list[Update]:
        """As ever."""
        with _Elsewhere(self):
            return super().answers(phase, round, calls)

    def evaluations(self, round: int, calls: Sequence[Call]) -> list[Evaluation]:
        """As ever."""
        with _Elsewhere(self):
            return super().evaluations(round, calls)


class _Elsewhere:
    """The global generators, moved for the time of a call."""

    def __init__(self, agents: Poisoned) -> None:
        self._agents = agents

    def __enter__(self) -> None:
        import torch

        self._before = _generators()
        self._agents._calls += 1
        random.seed(self._agents._calls)
        np.random.seed(self._agents._calls)  # noqa: NPY002
        torch.manual_seed(self._agents._calls)
        self._set = _texts(_generators())

    def __exit__(self, *error: object) -> None:
        import torch

        self._agents.moved |= _texts(_generators()) != self._set
        python, numpy, torchs = self._before
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(torchs)


def _generators() -> tuple[Any, Any, Any]:
    import torch

    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002


def _texts(generators: tuple[Any, Any, Any]) -> tuple[str, bytes, int, bytes]:
    python, numpy, torchs = generators
    return repr(python), numpy[1].tobytes(), numpy[2], torchs.numpy().tobytes()


class Recording(Oracle):
    """An oracle that writes down which questions it is asked."""

    def __init__(self, oracle: Oracle, asked: set[str]) -> None:
        self._oracle, self._asked, self.meter = oracle, asked, oracle.meter

    def ask(self, question: str, *arguments: Any, **options: Any) -> Any:
        """The answer of the oracle behind."""
        self._asked.add(question)
        return getattr(self._oracle, question)(*arguments, **options)


class Recorded(InProcess):
    """Agents whose questions are in ``asked``, and whose messages are counted: ``floats`` that were sent, and what is
    ``odd`` about an array."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.asked, self.odd, self.floats = set[str](), set[str](), 0

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> list[Update]:
        """As ever."""
        updates = super().answers(phase, round, calls)
        for call, update in zip(calls, updates, strict=True):
            up, kept = update.reply
            for name, array in [*up.items(), *kept.items()]:
                if array.ndim != 1:
                    self.odd.add(f"{name} has the shape {array.shape}")
            self.floats += sum(np.size(array) for message in (call.down, up) for array in message.values())
        return updates

    def _agent(self, number: int) -> Agent:
        agent = super()._agent(number)
        if not isinstance(agent.oracle, Recording):
            agent.oracle = Recording(agent.oracle, self.asked)
        return agent
