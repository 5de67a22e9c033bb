"""Keyed random streams: every random number of a run is addressed, none is remembered.

A batch is named by (seed, agent, round, local step, purpose). Those five integers are packed without a hash into the
key and the counter of a counter-based generator (Philox, Salmon et al. 2011), so two different names can never share
numbers, nothing has to be checkpointed, and a batch can be drawn again anywhere, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

SERVER = 2**32 - 1  # the "agent" of everything that is drawn once for the whole federation
_BELOW = {"seed": 2**32, "agent": 2**32, "round": 2**32, "step": 2**24, "purpose": 2**8}


class Purpose(IntEnum):
    """What a batch is for. The numbers are part of every result: never renumber, only append."""

    INIT = 0  # theta^0
    INNER = 1  # D_in  ~ q(theta)
    HESSIAN = 2  # D_h   ~ q(theta), independent of D_in
    OUTER = 3  # D_out ~ q(theta + alpha g_in)
    COHORT = 4  # which agents take part in a round
    ADAPT = 5  # evaluation: the batch of the adaptation step (step = m_adapt)
    EVALUATE = 6  # evaluation: the rollouts (step = m_adapt)
    SEARCH = 7  # a sweep: points drawn from samplers
    DIAGNOSE = 8  # diagnostics: directions drawn again and again at one theta (step = 3 x replicate + batch)


@dataclass(frozen=True, slots=True)
class Stream:
    """The name of one batch. ``step`` is the local step t (in evaluation: m_adapt)."""

    seed: int
    agent: int
    round: int
    step: int
    purpose: Purpose

    def __post_init__(self) -> None:
        if not (
            0 <= self.seed < 2**32
            and 0 <= self.agent < 2**32
            and 0 <= self.round < 2**32
            and 0 <= self.step < 2**24
            and 0 <= self.purpose < 2**8
        ):
            bad = next(name for name, bound in _BELOW.items() if not 0 <= getattr(self, name) < bound)
            raise ValueError(f"stream {bad} = {getattr(self, bad)} is outside [0, {_BELOW[bad]})")

    def __str__(self) -> str:
        """The place in the protocol, for messages: "agent 3, round 12, local step 2, hessian batch"."""
        where = "evaluation" if self.purpose in (Purpose.ADAPT, Purpose.EVALUATE) else f"local step {self.step}"
        return f"agent {self.agent}, round {self.round}, {where}, {self.purpose.name.lower()} batch"

    @property
    def words(self) -> tuple[int, int, int, int]:
        """Four 32-bit words, one to one with the name: Philox-4x32's key (seed, agent) and its two high counter
        words (round, step and purpose); the two low counter words are left for (decision, trajectory)."""
        return self.seed, self.agent, self.round, self.step << 8 | self.purpose

    def generator(self) -> np.random.Generator:
        """A NumPy generator (Philox-4x64) that starts at this stream's own place; equal names, equal numbers."""
        seed, agent, round_, step = self.words
        return np.random.Generator(np.random.Philox(key=[seed, agent], counter=[0, 0, round_, step]))


@dataclass(frozen=True, slots=True)
class LocalStep:
    """Where in the protocol one local step stands; names its three independent batches."""

    seed: int
    agent: int
    round: int
    step: int

    @property
    def inner(self) -> Stream:
        """D_in ~ q_i(.; theta)."""
        return Stream(self.seed, self.agent, self.round, self.step, Purpose.INNER)

    @property
    def hessian(self) -> Stream:
        """D_h ~ q_i(.; theta), independent of D_in."""
        return Stream(self.seed, self.agent, self.round, self.step, Purpose.HESSIAN)

    @property
    def outer(self) -> Stream:
        """D_out ~ q_i(.; theta + alpha g_in)."""
        return Stream(self.seed, self.agent, self.round, self.step, Purpose.OUTER)
