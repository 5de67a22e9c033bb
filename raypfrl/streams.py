"""Keyed random streams: every random number of a run is addressed, none is remembered.

A batch is named by (seed, agent, round, local step, part, purpose). Those six integers are packed without a hash into
the key and the counter of a counter-based generator (Philox, Salmon et al. 2011), so two different names can never
share numbers, nothing has to be checkpointed, and a batch can be drawn again anywhere, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

import numpy as np

SERVER = 2**32 - 1  # the "agent" of everything that is drawn once for the whole federation
DRAWS = 2**12  # in compiled code a part's draws are numbered below this (``oracles/fused/philox.py``)
_BELOW = {"seed": 2**32, "agent": 2**32, "round": 2**32, "step": 2**24, "purpose": 2**8, "part": 2**20}


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
    PERTURB = 9  # what a local step draws beside trajectories: directions in the space of theta, entries to send
    STANDARDISE = 10  # an agent's own episodes, by whose mean and deviation it sees
    TASK = 11  # what an agent's own MDP is drawn from (seed = the population's draw)


@dataclass(frozen=True, slots=True)
class Stream:
    """The name of one batch. ``step`` is the local step t (in evaluation: m_adapt); ``part`` tells apart the batches
    of one purpose within it, such as those of several inner steps."""

    seed: int
    agent: int
    round: int
    step: int
    purpose: Purpose
    part: int = 0

    def __post_init__(self) -> None:
        if not (
            0 <= self.seed < 2**32
            and 0 <= self.agent < 2**32
            and 0 <= self.round < 2**32
            and 0 <= self.step < 2**24
            and 0 <= self.purpose < 2**8
            and 0 <= self.part < 2**20
        ):
            bad = next(name for name, bound in _BELOW.items() if not 0 <= getattr(self, name) < bound)
            raise ValueError(f"stream {bad} = {getattr(self, bad)} is outside [0, {_BELOW[bad]})")

    def __str__(self) -> str:
        """The place in the protocol, for messages: "agent 3, round 12, local step 2, hessian batch"."""
        where = "evaluation" if self.purpose in (Purpose.ADAPT, Purpose.EVALUATE) else f"local step {self.step}"
        part = f", part {self.part}" if self.part else ""
        return f"agent {self.agent}, round {self.round}, {where}{part}, {self.purpose.name.lower()} batch"

    @property
    def words(self) -> tuple[int, int, int, int, int]:
        """Five 32-bit words, one to one with the name: Philox-4x32's key (seed, agent), its two high counter words
        (round, step and purpose), and what the numbers of draws begin with (part); a draw's number stands in the
        lower bits of that word, and the last counter word is left for the trajectory."""
        return self.seed, self.agent, self.round, self.step << 8 | self.purpose, self.part * DRAWS

    def generator(self) -> np.random.Generator:
        """A NumPy generator (Philox-4x64) that starts at this stream's own place; equal names, equal numbers."""
        seed, agent, round_, step, _ = self.words
        return np.random.Generator(np.random.Philox(key=[seed, agent], counter=[0, self.part, round_, step]))


class Batches(Protocol):
    """The names of the three independent batches that a direction draws."""

    @property
    def inner(self) -> Stream:
        """D_in ~ q_i(.; theta)."""

    @property
    def hessian(self) -> Stream:
        """D_h ~ q_i(.; theta), independent of D_in."""

    @property
    def outer(self) -> Stream:
        """D_out ~ q_i(.; theta + alpha g_in)."""

    @property
    def perturbation(self) -> Stream:
        """What is drawn beside trajectories: directions in the space of theta."""

    def numbered(self, part: int) -> Batches:
        """As many batches again, independent of these and of those with another number: part 0 are these."""


@dataclass(frozen=True, slots=True)
class LocalStep:
    """Where in the protocol one local step stands; names its batches (``Batches``)."""

    seed: int
    agent: int
    round: int
    step: int
    part: int = 0

    @property
    def inner(self) -> Stream:
        """D_in ~ q_i(.; theta)."""
        return Stream(self.seed, self.agent, self.round, self.step, Purpose.INNER, self.part)

    @property
    def hessian(self) -> Stream:
        """D_h ~ q_i(.; theta), independent of D_in."""
        return Stream(self.seed, self.agent, self.round, self.step, Purpose.HESSIAN, self.part)

    @property
    def outer(self) -> Stream:
        """D_out ~ q_i(.; theta + alpha g_in)."""
        return Stream(self.seed, self.agent, self.round, self.step, Purpose.OUTER, self.part)

    @property
    def perturbation(self) -> Stream:
        """What is drawn beside trajectories: directions in the space of theta, entries to send."""
        return Stream(self.seed, self.agent, self.round, self.step, Purpose.PERTURB, self.part)

    def numbered(self, part: int) -> LocalStep:
        """This local step's batches of another part."""
        return self if part == self.part else replace(self, part=part)
