"""Tabular gridworld: n agents on one 5 x 5 grid that differ in their goal cell (paper, appendix C.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from raypfrl.policies import Policy, TabularSoftmax
from raypfrl.populations.population import MDP, Population

SIZE = 5
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right as (row, column)
Cell = tuple[int, int]

# Training goals: the four corners, then the four edge midpoints. Held out: the border cells between them.
TRAIN_GOALS: tuple[Cell, ...] = ((0, 0), (0, 4), (4, 0), (4, 4), (0, 2), (2, 0), (2, 4), (4, 2))
HELD_OUT_GOALS: tuple[Cell, ...] = ((0, 1), (0, 3), (1, 0), (1, 4), (3, 0), (3, 4), (4, 1), (4, 3))

PAPER: Mapping[str, Any] = {
    "n": 8, "gamma": 0.9, "horizon": 15, "rounds": 80, "tau": 5, "alpha": 2.0, "beta": 0.3, "m_in": 10, "m_h": 10,
    "m_out": 10, "m_adapt": (0, "exact"),
}  # fmt: skip


def move(cell: Cell, action: int) -> Cell:
    """The cell that ``action`` leads to; a move off the grid stays."""
    row, column = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
    return (row, column) if 0 <= row < SIZE and 0 <= column < SIZE else cell


def cell_of(state: int) -> Cell:
    """The cell (row, column) of state number row x 5 + column."""
    return divmod(state, SIZE)


@dataclass(frozen=True)
class GridworldTask:
    """Reward 1 in the goal cell (which is not absorbing), start uniform over the other 24 cells."""

    goal: Cell
    horizon: int = 15
    env_id: ClassVar[str] = "raypfrl/Gridworld-v0"

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return {"goal": self.goal, "horizon": self.horizon}

    def mdp(self) -> MDP:
        """P (25, 4, 25), r (25, 4), mu (25,), distance (25,) in steps."""
        states = SIZE * SIZE
        P = np.zeros((states, len(MOVES), states))
        for state in range(states):
            for action in range(len(MOVES)):
                row, column = move(cell_of(state), action)
                P[state, action, row * SIZE + column] = 1.0
        rows, columns = np.divmod(np.arange(states), SIZE)
        distance = np.abs(rows - self.goal[0]) + np.abs(columns - self.goal[1])
        at_goal = distance == 0
        return MDP(P, np.repeat(at_goal[:, None] * 1.0, len(MOVES), axis=1), ~at_goal / (states - 1), distance * 1.0)


class GridworldEnv(gymnasium.Env[int, int]):
    """The gridworld of one agent. Observation: the state 0..24; actions: up, down, left, right.

    The reward, and ``info``'s ``success`` and ``distance`` (steps to the goal), are those of the state that the
    decision was taken in; an episode is truncated after horizon + 1 decisions and never terminates.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(self, goal: Cell, horizon: int = 15, render_mode: str | None = None) -> None:
        if not (len(goal) == 2 and all(0 <= x < SIZE for x in goal)):
            raise ValueError(f"goal = {goal} is no cell of the grid; give (row, column) in 0..{SIZE - 1}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode = {render_mode!r}; give one of {self.metadata['render_modes']}")
        self.goal: Cell = (int(goal[0]), int(goal[1]))
        self.horizon = horizon
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Discrete(SIZE * SIZE)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))  # type: ignore[assignment]
        self._cell: Cell = (0, 0)
        self._decisions = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """A start cell, uniform over the 24 cells that are not the goal."""
        super().reset(seed=seed)
        start = int(self.np_random.integers(SIZE * SIZE - 1))
        goal = self.goal[0] * SIZE + self.goal[1]
        self._cell = cell_of(start + (start >= goal))
        self._decisions = 0
        return self._state(), self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """The reward of the current cell, then the move."""
        info = self._info()
        self._cell = move(self._cell, int(action))
        self._decisions += 1
        return self._state(), float(info["success"]), False, self._decisions > self.horizon, info

    def render(self) -> Any:
        """``ansi``: five lines of text; ``rgb_array``: a (160, 160, 3) uint8 picture. A agent, G goal."""
        if self.render_mode == "ansi":
            marks = {self.goal: "G", self._cell: "A"}
            return "\n".join(" ".join(marks.get((r, c), ".") for c in range(SIZE)) for r in range(SIZE)) + "\n"
        if self.render_mode == "rgb_array":
            return self._picture()
        return None

    def _state(self) -> int:
        return self._cell[0] * SIZE + self._cell[1]

    def _info(self) -> dict[str, Any]:
        distance = abs(self._cell[0] - self.goal[0]) + abs(self._cell[1] - self.goal[1])
        return {"success": distance == 0, "distance": float(distance)}

    def _picture(self, pixels: int = 32) -> NDArray[np.uint8]:
        picture = np.full((SIZE * pixels, SIZE * pixels, 3), 245, np.uint8)
        picture[::pixels] = picture[:, ::pixels] = 200

        def fill(cell: Cell, margin: int, colour: tuple[int, int, int]) -> None:
            rows, columns = (slice(x * pixels + margin, (x + 1) * pixels - margin + 1) for x in cell)
            picture[rows, columns] = colour

        fill(self.goal, 2, (0, 158, 115))
        fill(self._cell, 9, (0, 70, 140))
        return picture


def gridworld(*, n: int = 8, gamma: float = 0.9, horizon: int = 15) -> Population:
    """The population of the paper's tabular study; n < 8 takes the first n goals.

    Raises ValueError for n outside 1..8.
    """
    if not 1 <= n <= len(TRAIN_GOALS):
        raise ValueError(f"n = {n}: the gridworld has 1 to {len(TRAIN_GOALS)} training agents")
    return Population(
        name="gridworld",
        train=tuple(GridworldTask(goal, horizon) for goal in TRAIN_GOALS[:n]),
        held_out=tuple(GridworldTask(goal, horizon) for goal in HELD_OUT_GOALS),
        policy=TabularSoftmax(states=SIZE * SIZE, actions=len(MOVES)),
        gamma=gamma,
        horizon=horizon,
    )


# ---- For the fused oracle: the task as plain functions of arrays, one number a trajectory ---------------------------

_MOVE_ROW = np.array([row for row, _ in MOVES], np.float32)
_MOVE_COLUMN = np.array([column for _, column in MOVES], np.float32)


def fits(policy: Policy) -> bool:
    """Whether the policy has a row for every cell and takes no more actions than there are moves."""
    return isinstance(policy, TabularSoftmax) and policy.states == SIZE * SIZE and policy.actions <= len(MOVES)


def constants(task: GridworldTask) -> tuple[float, ...]:
    """What tells one task from another: the goal, the first argument of the functions below."""
    return task.goal


def initial(goal: Any, u: Any) -> Any:
    """s_0 = (row, column) from four uniform numbers: uniform over the 24 cells that are not the goal."""
    number = np.minimum(np.floor(u[0] * (SIZE * SIZE - 1)), SIZE * SIZE - 2)
    cell = number + np.where(number >= goal[0] * SIZE + goal[1], 1.0, 0.0)
    row = np.floor((cell + 0.5) / SIZE)
    return row, cell - row * SIZE


def observe(goal: Any, state: Any) -> Any:
    """What the policy sees: the state's number."""
    return (state[0] * SIZE + state[1],)


def transition(goal: Any, state: Any, action: Any) -> Any:
    """s_{h+1}; a move off the grid stays."""
    row, column = state[0] + np.take(_MOVE_ROW, action), state[1] + np.take(_MOVE_COLUMN, action)
    return np.minimum(np.maximum(row, 0.0), SIZE - 1), np.minimum(np.maximum(column, 0.0), SIZE - 1)


def measure(goal: Any, state: Any) -> Any:
    """Of the state a decision is taken in: the reward r(s), success (in the goal cell), the steps to the goal."""
    distance = np.abs(state[0] - goal[0]) + np.abs(state[1] - goal[1])
    success = distance == 0.0
    return np.where(success, 1.0, 0.0), success, distance
