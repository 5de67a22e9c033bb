"""Problems small enough to enumerate or to list by hand, for the tests; importable in Ray's workers too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from raypfrl import RunConfig, SettingsError, Training
from raypfrl.config import known
from raypfrl.federation import Agent, Agents, Server, Update
from raypfrl.oracles.episodes import Episodes
from raypfrl.policies import TabularSoftmax, Vector
from raypfrl.populations import MDP, POPULATIONS, Family, Population
from raypfrl.populations.gridworld import GridworldEnv, GridworldTask

SMALL: Mapping[str, Any] = {
    "n": 2, "rounds": 2, "tau": 2, "m_in": 63, "m_h": 64, "m_out": 62, "m_eval": 8, "evaluate": 1,
}  # fmt: skip


def small(population: str = "gridworld", method: str = "exact", **settings: Any) -> RunConfig:
    """A run of a second or less. Every batch has another size, so that no two can be confused unseen, and is large
    enough that the goal is met."""
    smallest: Mapping[str, Any] = {
        "gridworld": {"horizon": 5},
        "navigation": {"hidden": (4,), "horizon": 6, "m_adapt": (0, 5)},
        "cartpole": {"horizon": 20},
        "pendulum": {"horizon": 9},
        "gymnasium": {
            "hidden": (4,),
            "horizon": 20,
            "m_adapt": (0, 5),
            "m_in": 7,
            "m_h": 8,
            "m_out": 6,
            "alpha": 0.1,
            "beta": 0.1,
        },
    }.get(population, {})
    sizes = {name: value for name, value in {**SMALL, **smallest}.items() if name in known(population, method)}
    return RunConfig(**{"population": population, "method": method, **sizes, **settings})


def runs(population: str, method: str, **settings: Any) -> bool:
    """Whether somebody there answers what the method asks."""
    try:
        small(population, method, **settings)
    except SettingsError as refused:
        if f"{method} asks for " not in str(refused):
            raise
        return False
    return True


def one_update(agent: Agent, theta: Vector, round: int) -> Update:
    """What an agent answers to theta in a method of one phase."""
    return agent.answer(0, round, {"theta": theta}, None)


def bytes_of(server: Server) -> Any:
    """The server's arrays, and what every agent keeps."""
    kept = [(i, name, array.tobytes()) for i, arrays in sorted(server.kept.items()) for name, array in arrays.items()]
    return [(name, array.tobytes()) for name, array in server.arrays.items()], kept


TIMES = ("seconds", "kernel_seconds", "evaluation_seconds")


def run(config: RunConfig, agents: Agents | None = None) -> tuple[Any, list[dict[str, Any]]]:
    """The bytes of the server's arrays and of what the agents keep, and the metrics, without what a clock says."""
    training = Training(config, agents)
    rows = [without_times(metrics) for metrics in training]
    return bytes_of(training.server), rows


def without_times(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that are equal in equal runs; nan, which is not equal to itself, as text."""
    same = {name: value for name, value in metrics.items() if name not in TIMES}
    return {name: repr(value) if "nan" in repr(value) else value for name, value in same.items()}


# --- a random MDP, and all its trajectories ---------------------------------------------------------------------------


def random_mdp(seed: int, states: int = 3, actions: int = 2) -> MDP:
    """Dense P, rewards of both signs that depend on the action, a start without zeros; state 0 is the goal."""
    rng = np.random.default_rng(seed)
    return MDP(
        P=rng.dirichlet(np.ones(states), (states, actions)),
        r=rng.normal(size=(states, actions)),
        mu=rng.dirichlet(np.ones(states)),
        distance=np.arange(states, dtype=float),
    )


class Trajectory(NamedTuple):
    """One xi = (s_0, a_0, ..., s_H, a_H) and its probability q(xi; theta)."""

    states: tuple[int, ...]
    actions: tuple[int, ...]
    q: float


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Along the last axis."""
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def enumerated(mdp: MDP, theta: Vector, horizon: int) -> Iterator[Trajectory]:
    """Every trajectory of a tabular softmax policy."""
    P, r, mu, _ = mdp
    pi = softmax(theta.reshape(r.shape))
    decisions = range(horizon + 1)
    for states in itertools.product(range(r.shape[0]), repeat=horizon + 1):
        for actions in itertools.product(range(r.shape[1]), repeat=horizon + 1):
            q = mu[states[0]] * np.prod([pi[states[h], actions[h]] for h in decisions])
            q *= np.prod([P[states[h], actions[h], states[h + 1]] for h in range(horizon)])
            yield Trajectory(states, actions, float(q))


class Estimates(NamedTuple):
    """On one trajectory: its return, g (d,), z (d,), and the two terms of u (d, d)."""

    return_: float
    g: Vector
    z: Vector
    score_term: NDArray[np.float64]
    second_term: NDArray[np.float64]


def by_hand(mdp: MDP, theta: Vector, gamma: float, xi: Trajectory) -> Estimates:
    """(2) and (3) of a tabular softmax policy, written with full matrices and no automatic differentiation:
    psi_h = e_{s,a} - pi(.|s) and Psi_h = -(diag pi - pi pi^T) in the block of s."""
    states, actions = mdp.r.shape
    pi = softmax(theta.reshape(states, actions))
    rewards = [gamma**h * mdp.r[s, a] for h, (s, a) in enumerate(zip(xi.states, xi.actions, strict=True))]
    g, z = np.zeros(theta.size), np.zeros(theta.size)
    second_term = np.zeros((theta.size, theta.size))
    for h, (s, a) in enumerate(zip(xi.states, xi.actions, strict=True)):
        R = sum(rewards[h:])
        block = slice(s * actions, (s + 1) * actions)
        psi = np.zeros(theta.size)
        psi[block] = -pi[s]
        psi[s * actions + a] += 1
        g, z = g + psi * R, z + psi
        second_term[block, block] -= R * (np.diag(pi[s]) - np.outer(pi[s], pi[s]))
    return Estimates(sum(rewards), g, z, np.outer(g, z), second_term)


def as_batch(mdp: MDP, *trajectories: Trajectory, end: int | None = None) -> Episodes:
    """Enumerated trajectories in the autodiff oracle's form. In the state ``end`` no decision is taken any more."""
    happened = [[(s, a) for s, a in zip(xi.states, xi.actions, strict=True) if s != end] for xi in trajectories]
    states, actions = np.array([pair for xi in happened for pair in xi], int).reshape(-1, 2).T
    unknown = np.full(len(trajectories), np.nan)
    return Episodes(states, actions, mdp.r[states, actions], np.array([len(xi) for xi in happened]), unknown, unknown)


def central_difference(function: Callable[[Vector], Any], theta: Vector, step: float = 1e-5) -> NDArray[np.float64]:
    """d function / d theta_j for every coordinate j, leading axis (d,)."""
    moves = step * np.eye(theta.size)
    return np.array([(function(theta + move) - function(theta - move)) / (2 * step) for move in moves])


# --- environments whose episodes can be listed by hand ----------------------------------------------------------------


class CountdownEnv(gymnasium.Env[NDArray[np.float64], int]):
    """Observation (remaining, elapsed): an episode starts at (3, 0), or at (1..6, 0) where ``longest`` is 6, and ends
    when nothing remains, by ``end`` of terminated or truncated. Reward: 10 elapsed + action + 1, of the state that the
    decision was taken in. ``info`` calls the state with remaining = 4 a success, and remaining the distance."""

    def __init__(self, end: str = "terminated", longest: int = 3) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 100.0, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._end, self._longest = end, longest
        self._remaining, self._elapsed = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(seed=seed)
        self._remaining = 3 if self._longest == 3 else int(self.np_random.integers(1, self._longest + 1))
        self._elapsed = 0
        return self._observation(), self._info()

    def step(self, action: int) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        info, reward = self._info(), 10.0 * self._elapsed + int(action) + 1
        self._remaining, self._elapsed = self._remaining - 1, self._elapsed + 1
        over = self._remaining == 0
        return self._observation(), reward, over and self._end == "terminated", over and self._end == "truncated", info

    def _observation(self) -> NDArray[np.float64]:
        return np.array([self._remaining, self._elapsed], np.float64)

    def _info(self) -> dict[str, Any]:
        return {"success": self._remaining == 4, "distance": float(self._remaining)}


class ReachEnv(gymnasium.Env[NDArray[np.float64], NDArray[np.float64]]):
    """Continuous actions: a point in the plane that moves by the action; reward -|position|^2."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-100.0, 100.0, (2,), np.float64)
        self.action_space = gymnasium.spaces.Box(-100.0, 100.0, (2,), np.float64)
        self._position = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(seed=seed)
        self._position = self.np_random.uniform(-1, 1, 2)
        return self._position.copy(), {}

    def step(self, action: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        reward = -float(self._position @ self._position)
        self._position = np.clip(self._position + 0.1 * action, -100, 100)
        return self._position.copy(), reward, False, False, {}


class FaultyGridworldEnv(GridworldEnv):
    """A gridworld whose sensor breaks: at decision 7 it raises, in two ways, or its reward is not a number."""

    def __init__(self, fault: str, **settings: Any) -> None:
        super().__init__(**settings)
        self._fault = fault

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self._decisions == 7 and self._fault == "raises":
            raise OSError("the sensor does not answer at step 7")
        if self._decisions == 7 and self._fault == "mumbles":
            raise ValueError("caf\udce9 at\nstep 7")
        if self._decisions == 7 and self._fault == "nan":
            reward = float("nan")
        return observation, reward, terminated, truncated, info


@dataclass(frozen=True)
class GymTask:
    """Any registered environment as a task."""

    env_id: str
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        return dict(self.settings)


@dataclass(frozen=True)
class FaultyTask(GridworldTask):
    """Exact evaluation as in the gridworld; the environment breaks as soon as trajectories are sampled."""

    fault: str = "raises"
    env_id: ClassVar[str] = "tiny/FaultyGridworld-v0"
    kernel: ClassVar[None] = None

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        return {**super().env_kwargs, "fault": self.fault}


def _faulty(fault: str) -> Callable[..., Population]:
    def build(*, n: int = 4, gamma: float = 0.9, horizon: int = 15) -> Population:
        goals = [(0, 0), (0, 4), (4, 0), (4, 4)][:n]
        sound = tuple(GridworldTask(goal, horizon) for goal in goals)
        train = (*sound[:2], FaultyTask(goals[2], horizon, fault), *sound[3:])
        return Population(f"faulty_{fault}", train, (), TabularSoftmax(25, 4), gamma, horizon)

    return build


FAULTY: Mapping[str, Family] = {
    f"faulty_{fault}": Family(_faulty(fault), {**POPULATIONS["gridworld"].suggested, "oracle": "autodiff"})
    for fault in ("raises", "mumbles", "nan")
}  # agent 2 breaks; to be put into POPULATIONS for the time of a test

for _name, _env in (("Countdown", CountdownEnv), ("Reach", ReachEnv), ("FaultyGridworld", FaultyGridworldEnv)):
    gymnasium.register(id=f"tiny/{_name}-v0", entry_point=_env)
