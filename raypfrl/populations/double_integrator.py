"""Double integrator: a mass on a line to be brought to rest at 0, by motors of several strengths, half of which push
the other way: the feedback that holds one agent drives another away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from raypfrl.policies import MLPGaussian, Policy
from raypfrl.populations.point_mass import Std
from raypfrl.populations.population import Estimator, Family, Kernel, Population
from raypfrl.settings import Agents, Discount, Hidden, Horizon

SECONDS, START, GOAL_RADIUS, HASTE = 0.2, 2.0, 0.1, 0.1  # of one decision; m; m; what speed costs beside distance

SUGGESTED: Mapping[str, Any] = {
    "rounds": 100, "tau": 1, "alpha": 1.0, "beta": 1.0, "m_in": 20, "m_h": 20, "m_out": 20, "m_adapt": (0, 20),
    "m_eval": 64, "server_step": "adam", "beta_server": 0.03,
}  # fmt: skip


def fits(task: DoubleIntegratorTask, policy: Policy) -> bool:
    """Whether the policy sees two numbers and acts with one."""
    return isinstance(policy, MLPGaussian) and (policy.inputs, policy.actions) == (2, 1)


def constants(task: DoubleIntegratorTask) -> tuple[float, ...]:
    """What the motor gives at most, in m/s^2."""
    return (task.motor,)


def initial(motor: Any, u: Any) -> Any:
    """s_0 = (x, x'), at rest."""
    return START * (2.0 * u[0] - 1.0), 0.0 * u[1]


def observe(motor: Any, state: Any) -> Any:
    """What the policy sees: all of it."""
    return state


def transition(motor: Any, state: Any, action: Any) -> Any:
    """s_{h+1}: an Euler step of 0.2 s under the action, clipped to [-1, 1], times the motor."""
    x, v = state
    return x + SECONDS * v, v + SECONDS * motor[0] * np.minimum(np.maximum(action[0], -1.0), 1.0)


def measure(motor: Any, state: Any) -> Any:
    """Of the state a decision is taken in: -(|x| + |x'| / 10), success (|x| <= 0.1), the distance |x|."""
    distance = np.abs(state[0])
    return -(distance + HASTE * np.abs(state[1])), distance <= GOAL_RADIUS, distance


@dataclass(frozen=True)
class DoubleIntegratorTask:
    """One agent's motor: the acceleration at full power, negative where it pushes the other way."""

    motor: float
    env_id: ClassVar[str] = "raypfrl/DoubleIntegrator-v0"
    estimator: ClassVar[Estimator] = Estimator("linear", normalise=True, average=True)
    kernel: ClassVar[Kernel | None] = Kernel(constants, initial, observe, transition, measure, fits)

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return {"motor": self.motor}


class DoubleIntegratorEnv(gymnasium.Env[NDArray[np.float64], NDArray[np.float32]]):
    """The line of one agent. Observation: position and speed. The reward, and ``info``, are those of the state that the
    decision was taken in; an episode goes on as long as its population says."""

    def __init__(self, motor: float) -> None:
        self.motor = motor
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.state = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """At rest, somewhere on the line."""
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(-START, START), 0.0])
        return self.state.copy(), self._info()

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """The reward of the current state, then the push."""
        info, (x, v) = self._info(), self.state
        push = self.motor * float(np.clip(action, -1.0, 1.0)[0])
        self.state = np.array([x + SECONDS * v, v + SECONDS * push])
        return self.state.copy(), -float(abs(x) + HASTE * abs(v)), False, False, info

    def _info(self) -> dict[str, Any]:
        distance = float(abs(self.state[0]))
        return {"success": distance <= GOAL_RADIUS, "distance": distance}


def double_integrator(
    *, n: Agents = 8, gamma: Discount = 1.0, horizon: Horizon = 29, hidden: Hidden = (16,), std: Std = 0.5
) -> Population:
    """n motors from 0.7 to 1.5 m/s^2, spread evenly, every second one pushing the other way, and two unseen ones of
    each kind between them."""
    motors = [float(motor) * (-1) ** k for k, motor in enumerate(np.linspace(0.7, 1.5, n))]
    train, held_out = (tuple(map(DoubleIntegratorTask, part)) for part in (motors, (0.95, -0.95, 1.25, -1.25)))
    return Population("double_integrator", train, held_out, MLPGaussian(2, 1, hidden, std or None), gamma, horizon)


POPULATIONS: Mapping[str, Family] = {"double_integrator": Family(double_integrator, SUGGESTED)}
