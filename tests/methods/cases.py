"""Small runs of every method, and what may go wrong with their agents."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tiny import runs, small

from raypfrl import RunConfig, SettingsError, Training
from raypfrl.config import known
from raypfrl.federation import Call, InProcess
from raypfrl.methods import METHODS

FEW: dict[str, Any] = {
    "n": 3, "rounds": 2, "m_in": 9, "m_h": 8, "m_out": 7, "m_baseline": 3, "m_eval": 2, "m_adapt": (0, 3), "horizon": 4,
    "prox_steps": 2, "tau_head": 1, "beta_share": 0.1, "cohort": 2, "evaluate": 1, "oracle": "auto",
}  # fmt: skip


def few(population: str, method: str, **settings: Any) -> RunConfig:
    """A run of a fraction of a second, sampled but for the quadratic; two of three agents a round where that may be."""
    sizes = {name: value for name, value in FEW.items() if name in known(population, method)}
    if population == "quadratic":
        sizes |= {"horizon": 0}
    if METHODS[method].everyone:
        del sizes["cohort"]
    if population == "quadratic":
        with contextlib.suppress(SettingsError):  # where the exact oracle does not answer all
            return small(population, method, **{**sizes, "oracle": "exact", **settings})
    return small(population, method, **{**sizes, **settings})


PAIRS = [
    pair for pair in itertools.product(("gridworld", "navigation", "quadratic"), METHODS) if runs(*pair, oracle="auto")
]


def home(method: str) -> str:
    """Where a method is looked at closely: navigation, or the gridworld where only a finite MDP answers."""
    return "navigation" if ("navigation", method) in PAIRS else "gridworld"


def arrays_after(config: RunConfig) -> Training:
    """A training whose rounds are over; nothing is evaluated."""
    training = Training(config)
    for _ in range(config.rounds):
        training.server.run_round()
    return training


class Disturbed(InProcess):
    """Everything at once that may not matter: agents made anew for every call, worked through in a random order, with
    arrays that cannot be written to, while somebody moves the global generators."""

    luck = random.Random(0)

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> list[Any]:
        return self._disturbed(calls, lambda one: super(Disturbed, self).answers(phase, round, one))

    def evaluations(self, round: int, calls: Sequence[Call]) -> list[Any]:
        return self._disturbed(calls, lambda one: super(Disturbed, self).evaluations(round, one))

    def _disturbed(self, calls: Sequence[Call], ask: Any) -> list[Any]:
        answers: dict[int, Any] = {}
        for place in self.luck.sample(range(len(calls)), len(calls)):
            self._agents.clear()
            np.random.seed(self.luck.randrange(2**32))  # noqa: NPY002
            torch.manual_seed(self.luck.randrange(2**32))
            random.seed(self.luck.random())
            for array in (*calls[place].down.values(), *(calls[place].kept or {}).values()):
                array.setflags(write=False)
            (answers[place],) = ask([calls[place]])
        return [answers[place] for place in range(len(calls))]
