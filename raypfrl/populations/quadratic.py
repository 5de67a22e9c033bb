"""Quadratic: the supervised twin, in closed form. J_i(w) = -a_i (w - c_i)^2 / 2 with a scalar theta = w.

As reinforcement learning it is one decision x ~ N(w, 1) with reward -a_i ((x - c_i)^2 - 1) / 2, whose mean is J_i(w).
The fixed point of every method is a weighted mean of the c_i, with weights that tell the methods apart: FedAvg-PG at
tau = 1: a; with tau local steps: 1 - (1 - beta a)^tau; exact: a (1 - alpha a)^2; first order: a (1 - alpha a).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from raypfrl.policies import UnitGaussian
from raypfrl.populations.population import ClosedForm, Family, Population
from raypfrl.settings import Agents, Discount, Horizon

TRAIN = ((0.5, 1.0), (1.0, -1.0), (2.0, 0.3))  # (a_i, c_i)
HELD_OUT = ((1.0, 0.0),)
LARGEST = 1e6  # the decision's declared range: a space without bounds is what the environment checker warns of

SUGGESTED: Mapping[str, Any] = {
    "oracle": "exact", "rounds": 100, "tau": 10, "alpha": 0.2, "beta": 0.05,
    "m_in": 10, "m_h": 10, "m_out": 10, "m_adapt": (0, "exact"),
}  # fmt: skip


@dataclass(frozen=True)
class QuadraticTask:
    """One agent's curvature a > 0 and optimum c."""

    a: float
    c: float
    env_id: ClassVar[str] = "raypfrl/Quadratic-v0"

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return {"a": self.a, "c": self.c}

    def closed_form(self) -> ClosedForm:
        """J = -a (w - c)^2 / 2, grad J = -a (w - c), hess J v = -a v."""
        return ClosedForm(
            objective=lambda theta: (-self.a * (theta - self.c) ** 2 / 2).sum(),
            gradient=lambda theta: -self.a * (theta - self.c),
            hessian_vector_product=lambda theta, v: -self.a * v,
        )


class QuadraticEnv(gymnasium.Env[int, NDArray[np.float64]]):
    """One decision x with reward -a ((x - c)^2 - 1) / 2. Observation: always 0."""

    def __init__(self, a: float, c: float) -> None:
        self.a, self.c = a, c
        self.observation_space = gymnasium.spaces.Discrete(1)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Box(-LARGEST, LARGEST, (), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """The only state."""
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: NDArray[np.float64]) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """The reward; the episode is over."""
        return 0, -self.a * ((float(action) - self.c) ** 2 - 1) / 2, True, False, {}


def quadratic(*, n: Agents = 3, gamma: Discount = 0.0, horizon: Horizon = 0) -> Population:
    """The first n of three agents, and one held out.

    Raises ValueError for n outside 1..3 and for a horizon above 0.
    """
    if not 1 <= n <= len(TRAIN):
        raise ValueError(f"n = {n}: the quadratic population has 1 to {len(TRAIN)} training agents")
    if horizon != 0:
        raise ValueError(f"horizon = {horizon}: the quadratic population has one decision an episode, horizon = 0")
    return Population(
        name="quadratic",
        train=tuple(QuadraticTask(a, c) for a, c in TRAIN[:n]),
        held_out=tuple(QuadraticTask(a, c) for a, c in HELD_OUT),
        policy=UnitGaussian(),
        gamma=gamma,
        horizon=horizon,
    )


POPULATIONS: Mapping[str, Family] = {"quadratic": Family(quadratic, SUGGESTED, first=True)}
