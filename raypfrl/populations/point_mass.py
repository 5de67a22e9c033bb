"""Point mass: agents in the plane whose goals lie on a circle around their start, with real actions.

Before adaptation no policy is right for all: a step is towards one goal and away from another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from raypfrl.policies import MLPGaussian, Policy
from raypfrl.populations.population import Estimator, Family, Kernel, Population
from raypfrl.settings import Agents, Discount, Hidden, Horizon, Real

STEP = 0.1  # along each axis, at most
START = 0.1  # half the width of the square that episodes start in
GOAL_RADIUS = 0.1
Point = tuple[float, float]
Std = Annotated[Real, Field(ge=0, description="standard deviation of the actions; 0: learned")]

SUGGESTED: Mapping[str, Any] = {
    "rounds": 100, "tau": 1, "alpha": 0.5, "beta": 1.0, "m_in": 20, "m_h": 20, "m_out": 20, "m_adapt": (0, 20),
    "m_eval": 64, "server_step": "adam", "beta_server": 0.03,
}  # fmt: skip


def fits(task: PointMassTask, policy: Policy) -> bool:
    """Whether the policy sees two numbers and acts with two."""
    return isinstance(policy, MLPGaussian) and (policy.inputs, policy.actions) == (2, 2)


def constants(task: PointMassTask) -> tuple[float, ...]:
    """The goal."""
    return task.goal


def initial(goal: Any, u: Any) -> Any:
    """s_0 = (x, y), near the centre."""
    return START * (2.0 * u[0] - 1.0), START * (2.0 * u[1] - 1.0)


def observe(goal: Any, state: Any) -> Any:
    """What the policy sees: the position."""
    return state


def transition(goal: Any, state: Any, action: Any) -> Any:
    """s_{h+1}: moved by 0.1 times the action, each of its numbers clipped to [-1, 1]."""
    x = state[0] + STEP * np.minimum(np.maximum(action[0], -1.0), 1.0)
    y = state[1] + STEP * np.minimum(np.maximum(action[1], -1.0), 1.0)
    return x, y


def measure(goal: Any, state: Any) -> Any:
    """Of the state a decision is taken in: minus the distance to the goal, success (within 0.1), the distance."""
    x, y = state[0] - goal[0], state[1] - goal[1]
    distance = np.sqrt(x * x + y * y)
    return -distance, distance <= GOAL_RADIUS, distance


@dataclass(frozen=True)
class PointMassTask:
    """One agent's goal."""

    goal: Point
    env_id: ClassVar[str] = "raypfrl/PointMass-v0"
    estimator: ClassVar[Estimator] = Estimator("linear", normalise=True, average=True)
    kernel: ClassVar[Kernel | None] = Kernel(constants, initial, observe, transition, measure, fits)

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return {"goal": self.goal}


class PointMassEnv(gymnasium.Env[NDArray[np.float64], NDArray[np.float32]]):
    """The plane of one agent. Observation: the position; an action moves by 0.1 times itself. The reward, and ``info``,
    are those of the position that the decision was taken in; an episode goes on as long as its population says."""

    def __init__(self, goal: Point) -> None:
        self.goal = np.array(goal, np.float64)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.position = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """A position near the centre."""
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-START, START, 2)
        return self.position.copy(), self._info()

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """The reward of the current position, then the move."""
        info = self._info()
        self.position = self.position + STEP * np.clip(action, -1.0, 1.0)
        return self.position.copy(), -info["distance"], False, False, info

    def _info(self) -> dict[str, Any]:
        distance = float(np.hypot(*(self.position - self.goal)))
        return {"success": distance <= GOAL_RADIUS, "distance": distance}


def point_mass(
    *, n: Agents = 8, gamma: Discount = 1.0, horizon: Horizon = 19, hidden: Hidden = (16,), std: Std = 0.5
) -> Population:
    """n goals spread evenly on the circle of radius 1 around the centre, and unseen ones halfway between every other
    pair of neighbours."""
    angles = 2 * math.pi * np.arange(n) / n

    def tasks(angles: NDArray[np.float64]) -> tuple[PointMassTask, ...]:
        return tuple(PointMassTask((math.cos(angle), math.sin(angle))) for angle in angles.tolist())

    policy = MLPGaussian(2, 2, hidden, std or None)
    return Population("point_mass", tasks(angles), tasks((angles + math.pi / n)[::2]), policy, gamma, horizon)


POPULATIONS: Mapping[str, Family] = {"point_mass": Family(point_mass, SUGGESTED)}
