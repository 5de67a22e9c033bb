"""Episodes of a gymnasium environment under a policy: sampled in lanes that refill, kept without a gap.

An environment is foreign code. It is given copies, what it gives is copied, it is not stepped after an episode's end,
and whatever it raises is told with the episode and the decision.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from raypfrl.oracles.guard import AgentError, Diverged
from raypfrl.policies import Array, Policy, Vector
from raypfrl.populations.environments import closed, is_over
from raypfrl.populations.population import Simulated
from raypfrl.populations.spaces import Actions, Observations
from raypfrl.streams import Stream
from raypfrl.text import cause

LANES = 64  # environments stepped side by side, at most; an episode does not depend on it


class Episodes:
    """A batch of m episodes: the N decisions that happened, episode after episode.

    observations (N, ...), actions (N, ...) and rewards (N,), r_h; lengths (m,), the decisions of each episode; success
    (m,) and final_distance (m,), nan where the environment's info does not tell them.
    """

    def __init__(
        self,
        observations: Array,
        actions: Array,
        rewards: Vector,
        lengths: NDArray[np.int64],
        success: Vector,
        final_distance: Vector,
    ) -> None:
        self.observations, self.actions, self.rewards, self.lengths = observations, actions, rewards, lengths
        self.success, self.final_distance = success, final_distance

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The episode of each decision, (N,)."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """h of each decision, (N,)."""
        return np.arange(len(self.rows)) - np.repeat(self.lengths.cumsum() - self.lengths, self.lengths)

    def table(self, x: Array, columns: int) -> Array:
        """x (N, ...) as (m, columns, ...), 0 after an episode's end."""
        table = np.zeros((len(self.lengths), columns, *x.shape[1:]), x.dtype)
        table[self.rows, self.columns] = x
        return table

    def reward_to_go(self, discounts: Vector, rewards: Vector | None = None) -> Vector:
        """R^h = sum_{t>=h} gamma^t r_t, (N,), of the episodes' rewards or of other numbers (N,) in their place."""
        rewards = self.rewards if rewards is None else rewards
        discounted = self.table(rewards * discounts[self.columns], int(self.lengths.max()))
        R: Vector = discounted[:, ::-1].cumsum(1)[:, ::-1][self.rows, self.columns]
        return R


def named(stream: Stream, policy: Policy, horizon: int) -> Iterator[tuple[int, Vector]]:
    """What names the episodes of a stream, one after the other: the seed of its reset, and the noise of its H + 1
    decisions."""
    rng = stream.generator()
    while True:
        yield int(rng.integers(2**31)), policy.noise(rng, (horizon + 1,))


class Simulator:
    """Plays episodes of one task. The environments are made when they are first needed, and kept."""

    def __init__(self, task: Simulated, policy: Policy, horizon: int) -> None:
        self._task, self._policy, self._horizon = task, policy, horizon
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._spaces: tuple[Observations, Actions] | None = None

    def episodes(self, theta: Vector, m: int, stream: Stream) -> Episodes:
        """m episodes under pi(.|.; theta). Episode e is named by the e-th seed and noise drawn from the stream: it is
        the same whatever m, and whichever episodes run beside it.

        An episode ends when its environment terminates or truncates, or after horizon + 1 decisions; a limit that its
        registration names does not count. Raises AgentError where the environment raises or breaks gymnasium's
        contract, Diverged where it is left with numbers that are not finite; both name the place.
        """
        lanes = _Lanes(min(m, LANES))
        try:
            return self._played(theta, m, named(stream, self._policy, self._horizon), lanes)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: an environment ends no run
            env = None if lanes.at is None else self._envs[lanes.at]
            self.close()  # in the middle of an episode, and nobody knows where
            if env is None:  # the policy's, or in the making
                raise
            where = f"{stream}: episode {lanes.episode[lanes.at]}, decision {lanes.decision[lanes.at]}"
            if isinstance(error, _NotFinite) and not _is_known(env):
                raise Diverged(f"{where}: {error}; mend the environment, or bound its actions") from error
            if isinstance(error, ArithmeticError) and _is_known(env):
                why = str(error) if isinstance(error, _NotFinite) else cause(error)
                raise Diverged(f"{where}: {why}; lower beta or alpha") from error
            raise AgentError(f"{where}: {cause(error)}") from error

    def close(self) -> None:
        """Close the environments; safe to call twice."""
        envs, self._envs = self._envs, []
        for env in envs:
            closed(env)

    def _played(self, theta: Vector, m: int, names: Iterator[tuple[int, Vector]], lanes: _Lanes) -> Episodes:
        observations, actions = self._ready(lanes.live)
        seen = observations.rows(lanes.live)
        noise: Vector | None = None
        success, distance, rewards = np.full(m, np.nan), np.full(m, np.nan), list[float]()
        record: list[tuple[NDArray[np.int64], Array, Array]] = []
        started, envs = 0, self._envs

        def start(lane: int) -> None:
            nonlocal noise, started
            lanes.begin(lane, started)
            seed, drawn = next(names)
            if noise is None:
                noise = np.empty((lanes.live, *drawn.shape))
            noise[lane] = drawn
            observations.read(_reset(envs[lane], seed), seen, lane)
            started += 1

        for lane in range(lanes.live):
            start(lane)
        every = np.arange(lanes.live)
        while live := lanes.live:
            if seen.dtype.kind == "f" and not np.isfinite(seen[:live]).all():
                lanes.at = int(np.flatnonzero(~np.isfinite(seen[:live].reshape(live, -1)).all(1))[0])
                raise _NotFinite("the environment's observation is not finite")
            lanes.at = None
            now, of = seen[:live].copy(), lanes.episode[:live].copy()
            assert noise is not None
            decided = np.array(self._policy.act(theta, now.copy(), noise[every[:live], lanes.decision[:live]]))
            record.append((of, now, decided))
            ended, last = [], (lanes.decision[:live] == self._horizon).tolist()
            for lane, action in enumerate(actions.given(decided)):
                lanes.at = lane
                answer: Any = envs[lane].step(action)
                if not isinstance(answer, tuple) or len(answer) != 5:
                    raise TypeError("step did not give (observation, reward, terminated, truncated, info)")
                observation, reward, terminated, truncated, info = answer
                rewards.append(reward if isinstance(reward, float) else _number(reward))
                if not math.isfinite(rewards[-1]):
                    raise _NotFinite(
                        f"the environment's reward is {rewards[-1]} for the action {decided[lane].tolist()!s:.60}"
                    )
                if info:
                    episode = of[lane]
                    success[episode] = np.fmax(success[episode], _told(info, "success"))
                    told = _told(info, "distance")
                    distance[episode] = distance[episode] if np.isnan(told) else told
                if is_over(terminated, truncated) or last[lane]:
                    ended.append(lane)
                else:
                    observations.read(observation, seen, lane)
            lanes.decision[:live] += 1
            for lane in reversed(ended):
                if started < m:
                    start(lane)
                else:
                    lanes.retire(lane, envs, seen, noise)
        return _in_order(record, rewards, m, success, distance)

    def _ready(self, lanes: int) -> tuple[Observations, Actions]:
        while len(self._envs) < lanes:
            self._envs.append(made(self._task))
        if self._spaces is None:
            env = self._envs[0]
            self._spaces = Observations(env.observation_space), Actions(env.action_space)
        return self._spaces


class _Lanes:
    """Which episode and which decision each lane is at; the first ``live`` lanes play."""

    def __init__(self, lanes: int) -> None:
        self.live = lanes
        self.at: int | None = None  # the lane whose environment is at work
        self.episode, self.decision = np.zeros((2, lanes), np.int64)

    def begin(self, lane: int, episode: int) -> None:
        """The next episode takes the lane."""
        self.at = lane
        self.episode[lane], self.decision[lane] = episode, 0

    def retire(self, lane: int, envs: list[gymnasium.Env[Any, Any]], *rows: Array) -> None:
        """Nothing is left to play: the last live lane moves up."""
        self.live -= 1
        for column in (self.episode, self.decision, *rows):
            column[lane] = column[self.live]
        envs[lane], envs[self.live] = envs[self.live], envs[lane]


class _NotFinite(ArithmeticError):
    """What an environment shows is no number."""


def _is_known(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether an environment comes with this package or with gymnasium: its arithmetic fails where the numbers that it
    is given have left all bounds. What a user's own raises is its own failure, whatever it is."""
    return type(env.unwrapped).__module__.partition(".")[0] in ("raypfrl", "gymnasium")


def made(task: Simulated, **more: Any) -> gymnasium.Env[Any, Any]:
    """A task's environment; more: arguments beside the task's own. How long an episode may be is the population's word
    (its horizon), not the registration's; gymnasium's advice on how to write environments is for its author, and is not
    asked for here."""
    settings = copy.deepcopy(dict(task.env_kwargs)) | more
    return gymnasium.make(task.env_id, max_episode_steps=-1, disable_env_checker=True, **settings)


def _reset(env: gymnasium.Env[Any, Any], seed: int) -> Any:
    answer: Any = env.reset(seed=seed)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError("reset did not give (observation, info)")
    return answer[0]


def _number(reward: Any) -> float:
    """The reward as a number, from an array of one number too."""
    if isinstance(reward, np.ndarray):
        reward = reward.item()
    if isinstance(reward, str):
        raise TypeError(f"the reward is the text {reward!r}")
    return float(reward)


def _told(info: Any, key: str) -> float:
    """What ``info`` says under this key, where it is a number; nan otherwise."""
    told = info.get(key) if isinstance(info, Mapping) else None
    if isinstance(told, np.ndarray) and told.size == 1:
        told = told.item()
    return float(told) if isinstance(told, bool | int | float | np.bool_ | np.number) else float("nan")


def _in_order(
    record: list[tuple[NDArray[np.int64], Array, Array]],
    rewards: list[float],
    m: int,
    success: Vector,
    distance: Vector,
) -> Episodes:
    """The record, written as the lanes went along, episode after episode."""
    of, observations, actions = (np.concatenate(column) for column in zip(*record, strict=True))
    order = np.argsort(of, kind="stable")
    lengths = np.bincount(of, minlength=m)
    return Episodes(observations[order], actions[order], np.array(rewards)[order], lengths, success, distance)
