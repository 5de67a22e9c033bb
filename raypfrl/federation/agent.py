"""The agent: Algorithm 1's inner loop. An agent keeps nothing between calls; what a call needs travels with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from raypfrl.config import RunConfig
from raypfrl.diagnostics import Diagnosis, Notes, Watched, bounds
from raypfrl.evaluation import MAdapt, evaluate
from raypfrl.methods import METHODS
from raypfrl.oracles import ORACLES, Guarded, Meter, Oracle, Outcome, is_exact
from raypfrl.policies import Vector
from raypfrl.streams import LocalStep


class Update(NamedTuple):
    """What an agent sends back: theta_i^{k,tau}, and what it spent on the way."""

    theta: Vector
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
    """Agent i: an oracle for its own objective J_i, and the direction that it follows."""

    def __init__(
        self,
        number: int,
        oracle: Oracle,
        judge: Oracle,
        direction: Callable[..., Vector],
        *,
        seed: int,
        tau: int,
        beta: float,
        settings: dict[str, Any],
    ) -> None:
        self.number, self.oracle, self.judge, self.direction = number, oracle, judge, direction
        self.seed, self.tau, self.beta, self.settings = seed, tau, beta, settings
        self.watched = oracle if isinstance(oracle, Watched) else None

    def local_update(self, theta: Vector, round: int) -> Update:
        """Algorithm 1, one agent's part of round k: theta_i^{k,0} = theta^k, then tau times
        theta_i^{k,t+1} = theta_i^{k,t} + beta d_i(theta_i^{k,t}) with fresh batches."""
        before, broadcast = _copy(self.oracle.meter), theta
        for t in range(self.tau):
            step = LocalStep(self.seed, self.number, round, t)
            d = self.direction(self.oracle, theta, step, **self.settings)
            theta = theta + self.beta * d
            if self.watched:
                self.watched.local_step(step, broadcast, d, theta)
        spent = self.oracle.meter
        return Update(
            theta,
            spent.trajectories - before.trajectories,
            spent.env_steps - before.env_steps,
            spent.seconds - before.seconds,
            self.watched.take_notes() if self.watched else None,
        )

    def evaluate(self, theta: Vector, round: int, alpha: float, m_adapt: Sequence[MAdapt], m_eval: int) -> Evaluation:
        """What theta is worth to this agent before and after adaptation."""
        meters = [self.oracle.meter, self.judge.meter][: 1 if self.judge.meter is self.oracle.meter else 2]
        before = sum(meter.seconds for meter in meters)
        outcomes = evaluate(
            self.oracle, self.judge, theta, alpha=alpha, m_adapt=m_adapt, m_eval=m_eval, seed=self.seed,
            agent=self.number, round=round,
        )  # fmt: skip
        diagnosis = None
        if self.watched:
            place = {"seed": self.seed, "agent": self.number, "round": round}
            diagnosis = self.watched.diagnose(self.direction, theta, self.settings, **place)
        return Evaluation(outcomes, sum(meter.seconds for meter in meters) - before, diagnosis)


def _copy(meter: Meter) -> Meter:
    return Meter(meter.trajectories, meter.env_steps, meter.seconds)


def build_agent(config: RunConfig, number: int) -> Agent:
    """Agent ``number`` of a run: here the settings end and the mathematics begins."""
    population = config.build_population()
    task = population.tasks[number]
    arguments = (task, population.policy, population.gamma, population.horizon)
    oracle: Oracle = Guarded(ORACLES[config.oracle](*arguments))
    judge = Guarded(ORACLES["exact"](*arguments)) if is_exact(task) and config.oracle != "exact" else oracle
    if config.diagnostics and number in config.agents():
        known = bounds(population, config.method, config.method_settings())
        exact = judge if is_exact(task) else None
        oracle = Watched(oracle, exact, known, alpha=config.alpha, beta=config.beta)
    return Agent(
        number, oracle, judge, METHODS[config.method].direction, seed=config.seed, tau=config.tau, beta=config.beta,
        settings=config.method_settings(),
    )  # fmt: skip
