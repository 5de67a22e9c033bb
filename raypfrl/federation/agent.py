"""The agent: one agent's part of a round. It keeps nothing between calls; what a call needs travels with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from raypfrl.bounds import bounds
from raypfrl.config import RunConfig
from raypfrl.evaluation import evaluate
from raypfrl.methods import METHODS, Arrays, Direction, MAdapt, Method, Reply
from raypfrl.oracles import NOISELESS, ORACLES, Guarded, Meter, Oracle, Outcome, is_exact, telling
from raypfrl.policies import Policy, Vector
from raypfrl.populations import Population
from raypfrl.streams import LocalStep, Purpose, Stream
from raypfrl.watch import Diagnosis, Notes, Watched

PHASE = 2**20  # local steps of phase p are named from p * PHASE on


class Update(NamedTuple):
    """An agent's reply in one phase, and what it spent on the way."""

    reply: Reply
    trajectories: int
    env_steps: int
    seconds: float
    notes: Notes | None = None  # with diagnostics


class Evaluation(NamedTuple):
    """An agent's outcomes, one for each entry of m_adapt, and the seconds they took."""

    outcomes: list[Outcome]
    seconds: float
    diagnosis: Diagnosis | None = None  # with diagnostics, where there is an exact oracle


class Agent:
    """Agent i as a method sees it: an oracle for its own objective J_i, and fresh names for its batches."""

    def __init__(
        self,
        number: int,
        oracle: Oracle,
        judge: Oracle,
        method: Method,
        population: Population,
        seed: int,
        evaluation_seed: int,
    ) -> None:
        self.number, self.oracle, self.judge = number, oracle, judge
        self.method, self.population = method, population
        self.seed, self.evaluation_seed = seed, evaluation_seed
        self._round, self._step, self._part = 0, 0, 0  # the place in the protocol; each call sets it anew

    @property
    def _watched(self) -> Watched | None:
        """The oracle, where diagnostics watch it."""
        return self.oracle if isinstance(self.oracle, Watched) else None

    @property
    def policy(self) -> Policy:
        """pi(a|s; theta), the same for all agents."""
        return self.population.policy

    def answer(self, phase: int, round: int, down: Arrays, kept: Arrays | None) -> Update:
        """This agent's part of one phase of round k; ``kept`` is None when it takes part for the first time. What the
        server gives is read-only already (``frozen``), here and as Ray delivers it."""
        before, self._round, self._step = _copy(self.oracle.meter), round, phase * PHASE
        with telling(f"agent {self.number}, round {round}, phase {phase}"):
            kept = frozen(self.method.join(self, down)) if kept is None else kept
            up, still_kept = self.method.phases[phase].local(self, down, kept)
            reply = Reply(frozen(up), frozen(still_kept))
            _check_kept(kept, reply.kept)
        spent = self.oracle.meter
        return Update(
            reply,
            spent.trajectories - before.trajectories,
            spent.env_steps - before.env_steps,
            spent.seconds - before.seconds,
            watched.take_notes() if (watched := self._watched) else None,
        )

    def evaluate(
        self, round: int, down: Arrays, kept: Arrays | None, m_adapt: Sequence[MAdapt], m_eval: int
    ) -> Evaluation:
        """What the agent achieves with what the server has for it, before and after adaptation."""
        meters = [self.oracle.meter, self.judge.meter][: 1 if self.judge.meter is self.oracle.meter else 2]
        before = sum(meter.seconds for meter in meters)
        personalised = partial(self.personal, round, down, kept)
        outcomes = evaluate(
            personalised, self.judge, m_adapt=m_adapt, m_eval=m_eval, seed=self.evaluation_seed, agent=self.number,
            round=round,
        )  # fmt: skip
        diagnosis = None
        if (watched := self._watched) and (direction := self.method.direction):
            place = {"seed": self.seed, "agent": self.number, "round": round}
            diagnosis = watched.diagnose(direction, personalised(0), **place)
        return Evaluation(outcomes, sum(meter.seconds for meter in meters) - before, diagnosis)

    def personal(self, round: int, down: Arrays, kept: Arrays | None, m: MAdapt) -> Vector:
        """The theta that the agent acts with after m trajectories of evaluation, shape (d,)."""
        self._round, self._part = round, 0
        with telling(f"agent {self.number}, round {round}, evaluation"):
            own = frozen(self.method.join(self, down)) if kept is None else kept
            return np.array(self.method.personalise(self, down, own, m), np.float64)

    def own_theta(self) -> Vector:
        """An initialisation of its own, anew for each seed, shape (d,)."""
        return self.population.initial(self.seed, self.number)

    def step(self) -> LocalStep:
        """The names of the next local step's batches."""
        self._step += 1
        return LocalStep(self.seed, self.number, self._round, self._step - 1)

    def ascend(self, theta: Vector, direction: Direction, tau: int, beta: float) -> Vector:
        """theta^{t+1} = theta^t + beta d(theta^t), tau times, each on fresh batches. Diagnostics watch here."""
        start, watched = theta, self._watched
        for _ in range(tau):
            step = self.step()
            d = direction(self.oracle, theta, step)
            theta = theta + beta * d
            if watched and direction is self.method.direction:  # the bounds are of it alone
                watched.local_step(step, start, d, theta)
        return theta

    def gradient(self, theta: Vector, m: MAdapt) -> Vector:
        """In ``personalise``: g from m fresh trajectories, or grad J(theta) for ``exact``."""
        oracle, size = (self.judge, 0) if m == "exact" else (self.oracle, m)
        self._part += 1
        stream = Stream(self.evaluation_seed, self.number, self._round, size, Purpose.ADAPT, self._part - 1)
        return oracle.policy_gradient(theta, size, stream)


def frozen(arrays: Arrays) -> Arrays:
    """float64 copies that nobody can write to: what a method's functions are given is not theirs, and what they give is
    not kept uncopied. Raises TypeError for what is no array of real numbers."""
    return {name: _frozen(name, array) for name, array in arrays.items()}


def _frozen(name: str, array: object) -> Vector:
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "fiu":
        kind = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"{name} is of type {kind}; give an array of real numbers")
    copy = np.array(array, np.float64)
    copy.setflags(write=False)
    return copy


def _check_kept(before: Arrays, after: Arrays) -> None:
    """Raises ValueError where what an agent keeps changes its names or shapes, which a checkpoint stacks."""
    was, now = ({name: np.shape(array) for name, array in kept.items()} for kept in (before, after))
    if was != now:
        raise ValueError(f"it keeps {now}, and joined with {was}; names and shapes of what is kept are fixed by join")


def _copy(meter: Meter) -> Meter:
    return Meter(meter.trajectories, meter.env_steps, meter.seconds)


def build_agent(config: RunConfig, number: int) -> Agent:
    """Agent ``number`` of a run: here the settings end and the mathematics begins."""
    population, method = config.build_population(), config.build_method()
    task = population.tasks[number]
    arguments = (task, population.policy, population.gamma, population.horizon)
    with telling(f"agent {number}, start"):  # an environment that cannot be made
        oracle: Oracle = Guarded(ORACLES[config.oracle](*arguments))
        judge = Guarded(ORACLES["exact"](*arguments)) if is_exact(task) and config.oracle not in NOISELESS else oracle
    if config.diagnostics and number in config.agents():
        letters = config.method_settings()
        exact = judge if is_exact(task) else None
        known = bounds(population, METHODS[config.method].direction, letters)
        oracle = Watched(oracle, exact, known, alpha=letters.get("alpha", 0.0), beta=letters.get("beta", 0.0))
    evaluation_seed = config.seed if config.evaluation_seed == "own" else config.evaluation_seed
    return Agent(number, oracle, judge, method, population, config.seed, evaluation_seed)
