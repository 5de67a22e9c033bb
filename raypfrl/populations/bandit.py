"""Bandit: one state, three arms and a scalar theta, small enough to enumerate (the example for Proposition 2).

The first agent likes the first two arms, the last agent the last two, those between them are mixtures. No theta suits
all, and first order comes to rest where grad F is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np

from raypfrl.policies import LinearSoftmax
from raypfrl.populations.population import MDP, Family, Population
from raypfrl.settings import Agents, Discount, Horizon

FEATURES = (0.0, 1.0, 3.0)  # phi of each arm

SUGGESTED: Mapping[str, Any] = {
    "rounds": 100, "tau": 1, "alpha": 0.1, "beta": 1.0, "m_in": 10, "m_h": 10, "m_out": 10, "m_adapt": (0, "exact"),
}  # fmt: skip


@dataclass(frozen=True)
class BanditTask:
    """One agent's reward of each arm."""

    rewards: tuple[float, ...]
    horizon: int = 0
    env_id: ClassVar[str] = "raypfrl/Bandit-v0"

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return {"rewards": self.rewards, "horizon": self.horizon}

    def mdp(self) -> MDP:
        """P (1, arms, 1), r (1, arms), mu (1,); no goal."""
        return MDP(np.ones((1, len(self.rewards), 1)), np.array([self.rewards]), np.ones(1))


class BanditEnv(gymnasium.Env[int, int]):
    """Arms with fixed rewards. Observation: always 0; an episode terminates after horizon + 1 pulls.

    It is not truncated: gymnasium's checker takes a truncation after one step for a mistake.
    """

    def __init__(self, rewards: tuple[float, ...], horizon: int = 0) -> None:
        if len(rewards) < 2:
            raise ValueError(f"rewards = {rewards}: give the reward of at least two arms")
        self.rewards = tuple(float(reward) for reward in rewards)
        self.horizon = horizon
        self.observation_space = gymnasium.spaces.Discrete(1)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(len(rewards))  # type: ignore[assignment]
        self._decisions = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """The only state."""
        super().reset(seed=seed)
        self._decisions = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """The arm's reward."""
        self._decisions += 1
        return 0, self.rewards[int(action)], self._decisions > self.horizon, False, {}


def bandit(*, n: Agents = 2, gamma: Discount = 0.0, horizon: Horizon = 0) -> Population:
    """n agents with rewards (1 - x, 1, x), x spread evenly on [0, 1], and unseen ones halfway between neighbours.

    Raises ValueError for n < 1.
    """
    if n < 1:
        raise ValueError(f"n = {n}: give at least one training agent")
    likings = np.linspace(0, 1, n)
    halfway = (likings[:-1] + likings[1:]) / 2

    def tasks(x: np.ndarray[Any, Any]) -> tuple[BanditTask, ...]:
        return tuple(BanditTask((1 - float(liking), 1.0, float(liking)), horizon) for liking in x)

    return Population(
        name="bandit",
        train=tasks(likings),
        held_out=tasks(halfway),
        policy=LinearSoftmax(features=(tuple((phi,) for phi in FEATURES),)),
        gamma=gamma,
        horizon=horizon,
    )


POPULATIONS: Mapping[str, Family] = {"bandit": Family(bandit, SUGGESTED, first=True)}
