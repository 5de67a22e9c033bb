"""Neural navigation: agents in the box [-1, 1]^2 whose goals lie on an arc (paper, appendix C.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from raypfrl.policies import MLPSoftmax, Policy
from raypfrl.populations.population import Family, Kernel, Population
from raypfrl.settings import Agents, Discount, Hidden, Horizon, Real

DIRECTIONS = 8  # compass directions at 2 pi k / 8
STEP = 0.15
GOAL_RADIUS = 0.2
ARC_RADIUS = 0.8
ARC = 0.5  # goals lie at angles in [-ARC, ARC] rad
Point = tuple[float, float]

Spread = Annotated[
    Real, Field(ge=0, le=6.28, description="heterogeneity: the goals' angles in terms of the paper's; 0: one goal")
]

SUGGESTED: Mapping[str, Any] = {
    "rounds": 150, "tau": 5, "alpha": 1.0, "beta": 0.2, "m_in": 10, "m_h": 10, "m_out": 10, "m_adapt": (0, 256),
}  # fmt: skip


def on_arc(angle: float) -> Point:
    """The goal at ``angle`` rad."""
    return ARC_RADIUS * math.cos(angle), ARC_RADIUS * math.sin(angle)


_ANGLES = [2 * math.pi * k / DIRECTIONS for k in range(DIRECTIONS)]
_MOVE_X = np.array([STEP * math.cos(angle) for angle in _ANGLES], np.float32)
_MOVE_Y = np.array([STEP * math.sin(angle) for angle in _ANGLES], np.float32)


def fits(task: NavigationTask, policy: Policy) -> bool:
    """Whether the policy sees two numbers and takes no more actions than there are directions."""
    return isinstance(policy, MLPSoftmax) and policy.inputs == 2 and policy.actions <= DIRECTIONS


def constants(task: NavigationTask) -> tuple[float, ...]:
    """What tells one task from another: the goal, the first argument of the functions below."""
    return task.goal


def initial(goal: Any, u: Any) -> Any:
    """s_0 = (x, y) from four uniform numbers."""
    return 2.0 * u[0] - 1.0, 2.0 * u[1] - 1.0


def observe(goal: Any, state: Any) -> Any:
    """What the policy sees: the position."""
    return state


def transition(goal: Any, state: Any, action: Any) -> Any:
    """s_{h+1}: 0.15 towards the action's direction, clipped to the box."""
    x, y = state[0] + np.take(_MOVE_X, action), state[1] + np.take(_MOVE_Y, action)
    return np.minimum(np.maximum(x, -1.0), 1.0), np.minimum(np.maximum(y, -1.0), 1.0)


def measure(goal: Any, state: Any) -> Any:
    """Of the state a decision is taken in: the reward r(s), success (in the goal region), the distance to the goal."""
    x, y = state[0] - goal[0], state[1] - goal[1]
    success = x * x + y * y <= GOAL_RADIUS * GOAL_RADIUS
    return np.where(success, 1.0, 0.0), success, np.sqrt(x * x + y * y)


@dataclass(frozen=True)
class NavigationTask:
    """Reward 1 within 0.2 of the goal, start uniform on the box."""

    goal: Point
    horizon: int = 20
    env_id: ClassVar[str] = "raypfrl/Navigation-v0"
    kernel: ClassVar[Kernel | None] = Kernel(constants, initial, observe, transition, measure, fits)

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return {"goal": self.goal, "horizon": self.horizon}


class NavigationEnv(gymnasium.Env[NDArray[np.float64], int]):
    """The box of one agent. Observation: the position (x, y); action k moves 0.15 towards 2 pi k / 8, clipped.

    The reward, and ``info``'s ``success`` and ``distance`` (to the goal), are those of the position that the decision
    was taken in; an episode is truncated after horizon + 1 decisions and never terminates.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, goal: Point, horizon: int = 20, render_mode: str | None = None) -> None:
        if not (len(goal) == 2 and all(-1 <= x <= 1 for x in goal)):
            raise ValueError(f"goal = {goal} is not in the box; give (x, y) in [-1, 1]")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode = {render_mode!r}; give one of {self.metadata['render_modes']}")
        self.goal = np.array(goal, np.float64)
        self.horizon = horizon
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(DIRECTIONS)  # type: ignore[assignment]
        angles = 2 * math.pi * np.arange(DIRECTIONS) / DIRECTIONS
        self._moves = STEP * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        self._position = np.zeros(2)
        self._decisions = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """A start position, uniform on the box."""
        super().reset(seed=seed)
        self._position = self.np_random.uniform(-1.0, 1.0, 2)
        self._decisions = 0
        return self._position.copy(), self._info()

    def step(self, action: int) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """The reward of the current position, then the move."""
        info = self._info()
        self._position = np.clip(self._position + self._moves[int(action)], -1.0, 1.0)
        self._decisions += 1
        return self._position.copy(), float(info["success"]), False, self._decisions > self.horizon, info

    def render(self) -> Any:
        """``rgb_array``: a (200, 200, 3) uint8 picture, y upwards; the goal region and the agent."""
        return self._picture() if self.render_mode == "rgb_array" else None

    def _info(self) -> dict[str, Any]:
        distance = float(np.hypot(*(self._position - self.goal)))
        return {"success": distance <= GOAL_RADIUS, "distance": distance}

    def _picture(self, pixels: int = 200) -> NDArray[np.uint8]:
        centre = (np.arange(pixels) + 0.5) * 2 / pixels - 1
        x, y = np.meshgrid(centre, -centre)
        picture = np.full((pixels, pixels, 3), 245, np.uint8)
        picture[np.hypot(x - self.goal[0], y - self.goal[1]) <= GOAL_RADIUS] = (150, 215, 190)
        picture[np.hypot(x - self._position[0], y - self._position[1]) <= 0.04] = (0, 70, 140)
        return picture


def navigation(
    *, n: Agents = 6, gamma: Discount = 0.9, horizon: Horizon = 20, hidden: Hidden = (32,), spread: Spread = 1.0
) -> Population:
    """The population of the paper's neural study: n goals spread evenly on the arc, and unseen ones at the midpoints
    of every other gap (0, 2, 4, ...) between them. From ``spread`` = pi on there are opposite goals.

    Raises ValueError for n < 1.
    """
    if n < 1:
        raise ValueError(f"n = {n}: give at least one training agent")
    angles = spread * np.linspace(-ARC, ARC, n)
    midpoints = (angles[:-1] + angles[1:])[::2] / 2
    return Population(
        name="navigation",
        train=tuple(NavigationTask(on_arc(float(angle)), horizon) for angle in angles),
        held_out=tuple(NavigationTask(on_arc(float(angle)), horizon) for angle in midpoints),
        policy=MLPSoftmax(inputs=2, actions=DIRECTIONS, hidden=hidden),
        gamma=gamma,
        horizon=horizon,
    )


POPULATIONS: Mapping[str, Family] = {"navigation": Family(navigation, SUGGESTED, first=True)}
