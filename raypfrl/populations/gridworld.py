"""Tabular gridworld: n agents on one grid, 5 x 5 in the paper, that differ in their goal cell (appendix C.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from raypfrl.policies import Policy, TabularSoftmax
from raypfrl.populations.population import MDP, Family, Kernel, Population, Successors
from raypfrl.settings import Agents, Discount, Horizon, Real, Whole

SIZE = 5
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right as (row, column)
Cell = tuple[int, int]

Size = Annotated[Whole, Field(ge=5, le=100, description="cells along a side of the grid")]
Spread = Annotated[
    Real, Field(ge=0, le=1, description="heterogeneity: share of the border along which goals lie; 0: one corner")
]


SUGGESTED: Mapping[str, Any] = {
    "rounds": 80, "tau": 5, "alpha": 2.0, "beta": 0.3, "m_in": 10, "m_h": 10, "m_out": 10, "m_adapt": (0, "exact"),
}  # fmt: skip


def train_goals(size: int = SIZE) -> tuple[Cell, ...]:
    """The four corners, then the four edge midpoints."""
    end, middle = size - 1, (size - 1) // 2
    corners = ((0, 0), (0, end), (end, 0), (end, end))
    return (*corners, (0, middle), (middle, 0), (middle, end), (end, middle))


def held_out_goals(size: int = SIZE) -> tuple[Cell, ...]:
    """The border cells halfway between a corner and a midpoint."""
    end, middle = size - 1, (size - 1) // 2
    near, far = middle // 2, (middle + end) // 2
    return ((0, near), (0, far), (near, 0), (near, end), (far, 0), (far, end), (end, near), (end, far))


def gathered(goal: Cell, spread: float, size: int = SIZE) -> Cell:
    """The goal on the border moved towards the corner (0, 0), the long way round for those near its end: from the
    place p on the border, counted clockwise from that corner, to the cell at spread x p."""
    end = size - 1
    row, column = goal
    p = row + column if row == 0 or column == end else 4 * end - row - column
    side, along = divmod(round(spread * p), end)
    return ((0, along), (along, end), (end, end - along), (end - along, 0))[side]


def move(cell: Cell, action: int, size: int = SIZE) -> Cell:
    """The cell that ``action`` leads to; a move off the grid stays."""
    row, column = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
    return (row, column) if 0 <= row < size and 0 <= column < size else cell


def cell_of(state: int, size: int = SIZE) -> Cell:
    """The cell (row, column) of state number row x size + column."""
    return divmod(state, size)


_MOVE_ROW = np.array([row for row, _ in MOVES], np.float32)
_MOVE_COLUMN = np.array([column for _, column in MOVES], np.float32)


def fits(task: GridworldTask, policy: Policy) -> bool:
    """Whether the policy has a row for every cell and takes no more actions than there are moves."""
    return isinstance(policy, TabularSoftmax) and policy.states == task.size**2 and policy.actions <= len(MOVES)


def constants(task: GridworldTask) -> tuple[float, ...]:
    """What tells one task from another: the goal's row and column and the grid's size, ``grid`` in what follows."""
    return (*task.goal, task.size)


def initial(grid: Any, u: Any) -> Any:
    """s_0 = (row, column) from four uniform numbers: uniform over the cells that are not the goal."""
    goal_row, goal_column, size = grid[0], grid[1], grid[2]
    number = np.minimum(np.floor(u[0] * (size * size - 1)), size * size - 2)
    cell = number + np.where(number >= goal_row * size + goal_column, 1.0, 0.0)
    row = np.floor((cell + 0.5) / size)
    return row, cell - row * size


def observe(grid: Any, state: Any) -> Any:
    """What the policy sees: the state's number."""
    return (state[0] * grid[2] + state[1],)


def transition(grid: Any, state: Any, action: Any) -> Any:
    """s_{h+1}; a move off the grid stays."""
    row, column = state[0] + np.take(_MOVE_ROW, action), state[1] + np.take(_MOVE_COLUMN, action)
    end = grid[2] - 1
    return np.minimum(np.maximum(row, 0.0), end), np.minimum(np.maximum(column, 0.0), end)


def measure(grid: Any, state: Any) -> Any:
    """Of the state a decision is taken in: the reward r(s), success (in the goal cell), the steps to the goal."""
    distance = np.abs(state[0] - grid[0]) + np.abs(state[1] - grid[1])
    success = distance == 0.0
    return np.where(success, 1.0, 0.0), success, distance


@dataclass(frozen=True)
class GridworldTask:
    """Reward 1 in the goal cell (which is not absorbing), start uniform over the other cells."""

    goal: Cell
    horizon: int = 15
    size: int = field(default=SIZE, kw_only=True)
    env_id: ClassVar[str] = "raypfrl/Gridworld-v0"
    kernel: ClassVar[Kernel | None] = Kernel(constants, initial, observe, transition, measure, fits)

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return {"goal": self.goal, "horizon": self.horizon, "size": self.size}

    def mdp(self) -> MDP:
        """P, each decision with its one successor; r (S, 4), mu (S,), distance (S,) in steps; S = size^2."""
        states = self.size**2
        rows, columns = np.divmod(np.arange(states), self.size)
        cells = zip(rows.tolist(), columns.tolist(), strict=True)
        after = np.array([[move(cell, action, self.size) for action in range(len(MOVES))] for cell in cells])
        P = Successors((after @ np.array([self.size, 1]))[:, :, None], np.ones((states, len(MOVES), 1)))
        distance = np.abs(rows - self.goal[0]) + np.abs(columns - self.goal[1])
        at_goal = distance == 0
        return MDP(P, np.repeat(at_goal[:, None] * 1.0, len(MOVES), axis=1), ~at_goal / (states - 1), distance * 1.0)


class GridworldEnv(gymnasium.Env[int, int]):
    """The gridworld of one agent. Observation: the state's number row x size + column; actions: up, down, left, right.

    The reward, and ``info``'s ``success`` and ``distance`` (steps to the goal), are those of the state that the
    decision was taken in; an episode is truncated after horizon + 1 decisions and never terminates.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(self, goal: Cell, horizon: int = 15, size: int = SIZE, render_mode: str | None = None) -> None:
        if not (len(goal) == 2 and all(0 <= x < size for x in goal)):
            raise ValueError(f"goal = {goal} is no cell of the grid; give (row, column) in 0..{size - 1}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode = {render_mode!r}; give one of {self.metadata['render_modes']}")
        self.goal: Cell = (int(goal[0]), int(goal[1]))
        self.horizon, self.size = horizon, size
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Discrete(size * size)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))  # type: ignore[assignment]
        self._cell: Cell = (0, 0)
        self._decisions = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """A start cell, uniform over the cells that are not the goal."""
        super().reset(seed=seed)
        start = int(self.np_random.integers(self.size * self.size - 1))
        goal = self.goal[0] * self.size + self.goal[1]
        self._cell = cell_of(start + (start >= goal), self.size)
        self._decisions = 0
        return self._state(), self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """The reward of the current cell, then the move."""
        info = self._info()
        self._cell = move(self._cell, int(action), self.size)
        self._decisions += 1
        return self._state(), float(info["success"]), False, self._decisions > self.horizon, info

    def render(self) -> Any:
        """``ansi``: a line of text a row; ``rgb_array``: a (32 size, 32 size, 3) uint8 picture. A agent, G goal."""
        if self.render_mode == "ansi":
            marks = {self.goal: "G", self._cell: "A"}
            rows = (" ".join(marks.get((r, c), ".") for c in range(self.size)) for r in range(self.size))
            return "\n".join(rows) + "\n"
        if self.render_mode == "rgb_array":
            return self._picture()
        return None

    def _state(self) -> int:
        return self._cell[0] * self.size + self._cell[1]

    def _info(self) -> dict[str, Any]:
        distance = abs(self._cell[0] - self.goal[0]) + abs(self._cell[1] - self.goal[1])
        return {"success": distance == 0, "distance": float(distance)}

    def _picture(self, pixels: int = 32) -> NDArray[np.uint8]:
        picture = np.full((self.size * pixels, self.size * pixels, 3), 245, np.uint8)
        picture[::pixels] = picture[:, ::pixels] = 200

        def fill(cell: Cell, margin: int, colour: tuple[int, int, int]) -> None:
            rows, columns = (slice(x * pixels + margin, (x + 1) * pixels - margin + 1) for x in cell)
            picture[rows, columns] = colour

        fill(self.goal, 2, (0, 158, 115))
        fill(self._cell, 9, (0, 70, 140))
        return picture


def gridworld(
    *, n: Agents = 8, gamma: Discount = 0.9, horizon: Horizon = 15, size: Size = SIZE, spread: Spread = 1.0
) -> Population:
    """The population of the paper's tabular study; n < 8 takes the first n goals. A larger grid wants a longer
    horizon. With a smaller ``spread`` the goals, unseen ones too, lie along a part of the border.

    Raises ValueError for n outside 1..8.
    """
    goals, unseen = (
        tuple(gathered(goal, spread, size) for goal in goals) for goals in (train_goals(size), held_out_goals(size))
    )
    if not 1 <= n <= len(goals):
        raise ValueError(f"n = {n}: the gridworld has 1 to {len(goals)} training agents")
    return Population(
        name="gridworld",
        train=tuple(GridworldTask(goal, horizon, size=size) for goal in goals[:n]),
        held_out=tuple(GridworldTask(goal, horizon, size=size) for goal in unseen),
        policy=TabularSoftmax(states=size * size, actions=len(MOVES)),
        gamma=gamma,
        horizon=horizon,
    )


POPULATIONS: Mapping[str, Family] = {"gridworld": Family(gridworld, SUGGESTED, first=True)}
