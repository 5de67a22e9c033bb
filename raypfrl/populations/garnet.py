"""Garnet: random finite MDPs (Archibald, McKinnon and Thomas 1995). The agents share a kernel and a reward but for a
share that is each one's own: eps_p of the kernel, eps_r of the reward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import gymnasium
import numpy as np
from pydantic import Field

from raypfrl.policies import LinearSoftmax, TabularSoftmax
from raypfrl.populations.population import MDP, Family, Population, Successors
from raypfrl.settings import Agents, Discount, Horizon, Real, Whole
from raypfrl.streams import SERVER, Purpose, Stream

UNSEEN = 2  # agents held out

States = Annotated[Whole, Field(ge=2, le=1000, description="states of a Garnet MDP")]
Actions = Annotated[Whole, Field(ge=2, le=100, description="decisions of a Garnet MDP")]
Branches = Annotated[Whole, Field(ge=1, le=1000, description="states that may follow a state and decision")]
OwnKernel = Annotated[Real, Field(ge=0, le=1, description="heterogeneity: share of the kernel that is an agent's own")]
OwnReward = Annotated[Real, Field(ge=0, le=1, description="heterogeneity: share of the reward that is an agent's own")]
Features = Annotated[
    Whole, Field(ge=0, le=1000, description="length of the random features of a state and decision; 0: a table")
]
Span = Annotated[
    Whole, Field(ge=0, le=1000, description="rewards that the agents' own are, in turn; 0: each has one of its own")
]
Draw = Annotated[Whole, Field(ge=0, lt=2**32, description="the number of the draw that the MDPs are")]

SUGGESTED: Mapping[str, Any] = {
    "rounds": 50, "tau": 5, "alpha": 0.5, "beta": 0.5, "m_in": 10, "m_h": 10, "m_out": 10, "m_adapt": (0, "exact"),
}  # fmt: skip


@dataclass(frozen=True)
class GarnetTask:
    """One agent's share of a draw."""

    number: int
    draw: int
    states: int
    actions: int
    branches: int
    eps_p: float
    eps_r: float
    horizon: int
    span: int = 0
    env_id: ClassVar[str] = "raypfrl/Garnet-v0"

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return asdict(self)

    def mdp(self) -> MDP:
        """P_i = (1 - eps_p) P + eps_p P_i', r_i = (1 - eps_r) r + eps_r r_i' in [0, 1], a uniform start; no goal. With
        a span r_i' is less 1/2, and that of the agent i modulo it."""
        P, r = self._part(SERVER)
        own_P, own_r = self._part(self.number)
        if self.span:
            own_r = self._part(self.number % self.span)[1] - 0.5  # one mean for all would outweigh the others
        shares = (1 - self.eps_p) * P.probabilities, self.eps_p * own_P.probabilities
        both = Successors(np.concatenate([P.states, own_P.states], -1), np.concatenate(shares, -1))
        return MDP(both, (1 - self.eps_r) * r + self.eps_r * own_r, np.full(self.states, 1 / self.states))

    def _part(self, number: int) -> tuple[Successors, Any]:
        return _drawn(self.draw, number, self.states, self.actions, self.branches)


@lru_cache(maxsize=256)
def _drawn(draw: int, agent: int, states: int, actions: int, branches: int) -> tuple[Successors, Any]:
    """Of each state and decision ``branches`` successors, drawn without replacement, their probabilities the gaps of a
    uniform cut of [0, 1], and a uniform reward."""
    rng = Stream(draw, agent, 0, 0, Purpose.TASK).generator()
    after = rng.random((states, actions, states)).argsort(-1, kind="stable")[..., :branches]
    cuts = np.sort(rng.random((states, actions, branches - 1)), -1)
    ends = np.zeros((states, actions, 1)), np.ones((states, actions, 1))
    return Successors(after, np.diff(np.concatenate([ends[0], cuts, ends[1]], -1))), rng.random((states, actions))


class GarnetEnv(gymnasium.Env[int, int]):
    """The Garnet MDP of one agent. Observation: the state's number; an episode is truncated after horizon + 1
    decisions and never terminates."""

    def __init__(self, **task: Any) -> None:
        self._task = GarnetTask(**task)
        self._mdp = self._task.mdp()
        self.observation_space = gymnasium.spaces.Discrete(self._task.states)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(self._task.actions)  # type: ignore[assignment]
        self._state = self._decisions = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """A uniform state."""
        super().reset(seed=seed)
        self._state, self._decisions = int(self.np_random.integers(self._task.states)), 0
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """The reward of the state and decision, then the move."""
        at, P = (self._state, int(action)), self._mdp.P
        assert isinstance(P, Successors)
        self._state = int(self.np_random.choice(P.states[at], p=P.probabilities[at]))
        self._decisions += 1
        return self._state, float(self._mdp.r[at]), False, self._decisions > self._task.horizon, {}


def garnet(
    *, n: Agents = 5, gamma: Discount = 0.9, horizon: Horizon = 15, states: States = 10, actions: Actions = 3,
    branches: Branches = 3, eps_p: OwnKernel = 0.2, eps_r: OwnReward = 0.2, features: Features = 0, span: Span = 0,
    draw: Draw = 0,
) -> Population:  # fmt: skip
    """n agents and two held out on random MDPs of one draw; the policy is a table, or linear in random features of unit
    length.

    Raises ValueError for more branches than states.
    """
    if branches > states:
        raise ValueError(f"branches = {branches} are above states = {states}; lower it")
    tasks = tuple(
        GarnetTask(number, draw, states, actions, branches, eps_p, eps_r, horizon, span) for number in range(n + UNSEEN)
    )
    policy: TabularSoftmax | LinearSoftmax = TabularSoftmax(states, actions)
    if features:
        phi = Stream(draw, SERVER, 0, 0, Purpose.TASK, 1).generator().standard_normal((states, actions, features))
        phi /= np.sqrt((phi * phi).sum(-1, keepdims=True))
        policy = LinearSoftmax(tuple(tuple(tuple(x) for x in row) for row in phi.tolist()))
    return Population("garnet", tasks[:n], tasks[n:], policy, gamma, horizon)


POPULATIONS: Mapping[str, Family] = {"garnet": Family(garnet, SUGGESTED)}
