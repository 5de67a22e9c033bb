"""Any gymnasium environment as a family of agents, in a few lines of a user's file:

    def poles(*, n: int = 4, gamma: float = 0.99, horizon: int = 199, hidden: tuple[int, ...] = (16,)) -> Population:
        forces = np.linspace(5, 15, n)
        agents = [Variant(attributes={"force_mag": float(force)}) for force in forces]
        return environments("poles", "CartPole-v1", agents, gamma=gamma, horizon=horizon, hidden=hidden)

    POPULATIONS = {"poles": Family(poles)}

The policy follows from the spaces, and what is not covered is refused before anything runs.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from raypfrl.policies import Array, MLPGaussian, MLPMultiSoftmax, MLPSoftmax, Policy, TabularSoftmax
from raypfrl.populations.population import PAPER, Estimator, Population
from raypfrl.populations.spaces import Actions, Observations
from raypfrl.streams import SERVER, Purpose, Stream
from raypfrl.text import cause

REHEARSED = 20  # decisions of the episode that a family is tried with
CONSTANT = 1e-6  # of its largest value: what varies less is only moved, and not scaled


@dataclass(frozen=True)
class Variant:
    """What makes one agent's environment its own: arguments of its constructor, and attributes that are set on it
    after it was made (of the innermost environment)."""

    kwargs: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass(frozen=True)
class View:
    """How a policy sees an environment and acts on it, besides as it is.

    one_hot: a state of a Discrete space as a row. squash: a real number u acts as low + (high - low) (tanh u + 1) / 2;
    else it is clipped. centre, scale: an observation o is seen as (o - centre) / scale, with constants that are the
    same for all agents and all times; none: as it is.
    """

    one_hot: bool = False
    squash: bool = False
    centre: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()


@dataclass(frozen=True)
class EnvironmentTask:
    """One agent's environment: a gymnasium id, what is its own, and how it is seen. number: the agent's, which tells
    apart agents that nothing else does. standardise: centre and scale are the agent's own, from so many episodes of at
    most ``decisions``; 0: those of the view."""

    of: str
    variant: Variant = Variant()
    view: View = View()
    estimator: Estimator = PAPER
    number: int = 0
    standardise: int = 0
    decisions: int = 0
    env_id: ClassVar[str] = "raypfrl/Variant-v0"

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """What ``gymnasium.make`` needs."""
        return {"of": self.of, "variant": self.variant, "view": self.seen}

    @cached_property
    def seen(self) -> View:
        """The view with its constants. An agent's own are the mean and the standard deviation of what its environment
        shows under random actions, from a stream of its own: the same in every process, run and seed, so that they
        need not travel.

        Raises ValueError where an observation is not finite.
        """
        if not self.standardise:
            return self.view
        o = _shown(self)
        if not np.isfinite(o).all():
            raise ValueError(f"{self.of} shows an observation that is not finite")
        centre, scale = o.mean(axis=0), o.std(axis=0)
        scale[scale <= CONSTANT * np.abs(o).max(axis=0)] = 1.0
        return replace(self.view, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))


def variant_of(of: str, variant: Variant, view: View, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """The environment of an ``EnvironmentTask``; the entry point of ``raypfrl/Variant-v0``.

    Raises ValueError for an attribute that the environment does not have.
    """
    settings = copy.deepcopy(dict(variant.kwargs)) | ({"render_mode": render_mode} if render_mode else {})
    env: gymnasium.Env[Any, Any] = gymnasium.make(of, max_episode_steps=-1, disable_env_checker=True, **settings)
    for name, value in variant.attributes.items():
        if not hasattr(env.unwrapped, name):
            near = difflib.get_close_matches(name, vars(env.unwrapped), n=1)
            raise ValueError(f"{of} has no attribute {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        setattr(env.unwrapped, name, copy.deepcopy(value))
    if view.one_hot:
        env = gymnasium.wrappers.FlattenObservation(env)
    if view.centre or view.scale:
        shape = env.observation_space.shape or ()
        centre, scale = (np.array(x).reshape(shape) if x else None for x in (view.centre, view.scale))
        env = _Standardised(env, np.zeros(()) if centre is None else centre, np.ones(()) if scale is None else scale)
    return _Squashed(env) if view.squash else env


class _Standardised(gymnasium.ObservationWrapper[Any, Any, Any]):
    """(o - centre) / scale."""

    def __init__(self, env: gymnasium.Env[Any, Any], centre: Array, scale: Array) -> None:
        super().__init__(env)
        self._centre, self._scale = centre, scale
        self.observation_space = Box(-np.inf, np.inf, env.observation_space.shape, np.float64)

    def observation(self, observation: Any) -> Any:
        return (np.asarray(observation, np.float64) - self._centre) / self._scale


class _Squashed(gymnasium.ActionWrapper[Any, Any, Any]):
    """Any real number acts, within the bounds."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, Box) or not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise ValueError(f"actions cannot be squashed into {space}: it is no Box with bounds")
        self._low, self._high = space.low.astype(np.float64), space.high.astype(np.float64)
        self.action_space = Box(-np.inf, np.inf, space.shape, np.float64)

    def action(self, action: Any) -> Any:
        squashed = self._low + (self._high - self._low) * (np.tanh(action) + 1) / 2
        return squashed.astype(self.env.action_space.dtype)


def _shown(task: EnvironmentTask) -> Array:
    """What the agent's environment shows in episodes of actions drawn from its space, (N, f)."""
    env = variant_of(task.of, task.variant, View())
    rng = Stream(0, task.number, 0, 0, Purpose.STANDARDISE).generator()
    seen = Observations(env.observation_space)
    rows = seen.rows(task.standardise * task.decisions)
    at = 0
    env.action_space.seed(int(rng.integers(2**31)))
    for _ in range(task.standardise):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        for _ in range(task.decisions):
            seen.read(observation, rows, at)
            at += 1
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break
    env.close()
    return rows[:at].reshape(at, -1).astype(np.float64)


def environments(
    name: str,
    of: str,
    agents: Sequence[Variant],
    *,
    gamma: float,
    horizon: int,
    held_out: Sequence[Variant] = (),
    hidden: tuple[int, ...] = (32,),
    std: float | None = None,
    policy: Policy | None = None,
    squash: bool = False,
    centre: Sequence[float] = (),
    scale: Sequence[float] = (),
    standardise: int = 0,
    estimator: Estimator = PAPER,
) -> Population:
    """The population ``name`` of agents in variants of the gymnasium id ``of``.

    An episode has horizon + 1 decisions, if the environment does not end it before; the limit of its registration does
    not count. The policy, if none is given: for Discrete actions a table where the states are Discrete too and
    ``hidden`` is empty, else a tanh network; for MultiDiscrete ones a network of several softmaxes; for a Box a
    Gaussian with standard deviation ``std``, learned where that is left out. squash, centre, scale: as in ``View``, or
    standardise: the episodes from which each agent takes a centre and a scale of its own (``EnvironmentTask.seen``).

    Raises ValueError, in one line, for an id that is not known or cannot be made, spaces that are not covered, an
    environment that does not play the same episode from the same seed, and constants that do not fit.
    """
    probe = _made(EnvironmentTask(of, agents[0] if agents else Variant()))
    seen, acted = Observations(probe.observation_space), Actions(probe.action_space)
    one_hot = bool(seen.states) and (bool(hidden) or not isinstance(probe.action_space, Discrete)) and policy is None
    view = View(one_hot, squash, tuple(map(float, centre)), tuple(map(float, scale)))
    for constants, word in ((view.centre, "centre"), (view.scale, "scale")):
        if constants and (seen.states or seen.shape != (len(constants),)):
            raise ValueError(
                f"{word} has {len(constants)} numbers; the observations of {of} are {probe.observation_space}"
            )
    if standardise and (seen.states or view.centre or view.scale):
        why = f"{of} shows states of {probe.observation_space}" if seen.states else "centre and scale are given"
        raise ValueError(f"standardise = {standardise}: {why}; leave one out")
    if not all(view.scale) or not np.isfinite(view.centre + view.scale).all():
        raise ValueError("centre and scale must be finite, and scale not 0")
    inputs = seen.states or int(np.prod(seen.shape))
    policy = policy or _policy(
        probe.action_space, acted, inputs, hidden, std, tabular=bool(seen.states) and not one_hot
    )
    closed(probe)
    variants = (*agents, *held_out)
    tasks = tuple(
        EnvironmentTask(of, variant, view, estimator, number, standardise, horizon + 1 if standardise else 0)
        for number, variant in enumerate(variants)
    )
    if tasks:
        with contextlib.chdir(os.curdir):  # whatever the environment does to it
            _rehearse(tasks[0], policy, min(horizon + 1, REHEARSED))
    return Population(name, tasks[: len(agents)], tasks[len(agents) :], policy, gamma, horizon)


def _policy(
    space: Any, actions: Actions, inputs: int, hidden: tuple[int, ...], std: float | None, tabular: bool
) -> Policy:
    if isinstance(space, Discrete):
        n = int(space.n)
        return TabularSoftmax(inputs, n) if tabular else MLPSoftmax(inputs, n, hidden)
    if isinstance(space, MultiDiscrete):
        return MLPMultiSoftmax(inputs, tuple(int(k) for k in space.nvec.reshape(-1)), hidden)
    return MLPGaussian(inputs, int(np.prod(actions.shape)), hidden, std)


def _made(task: EnvironmentTask) -> gymnasium.Env[Any, Any]:
    try:
        return variant_of(task.of, task.variant, task.seen)
    except gymnasium.error.Error as error:
        raise ValueError(f"{task.of} cannot be made: {' '.join(str(error).split())}") from error
    except (TypeError, ImportError) as error:
        raise ValueError(f"{task.of} cannot be made: {' '.join(str(error).split())[:300]}") from error


def closed(env: gymnasium.Env[Any, Any]) -> None:
    """Close an environment. What goes wrong there changes nothing: all that was wanted of it is there."""
    with contextlib.suppress(Exception, SystemExit):
        env.close()


def is_over(terminated: Any, truncated: Any) -> bool:
    """Whether a step has ended its episode. Raises TypeError for what is no bool, Python's or NumPy's: a text or None
    would pass for an answer that nobody gave."""
    over = False
    for name, given in (("terminated", terminated), ("truncated", truncated)):
        if given is True or given is False:
            over |= given
        elif isinstance(given, np.bool_) or (isinstance(given, np.ndarray) and given.dtype == bool and given.size == 1):
            over |= bool(given)
        else:
            raise TypeError(f"{name} is {given!r:.60}, and should be True or False")
    return over


def _rehearse(task: EnvironmentTask, policy: Policy, decisions: int) -> None:
    """Play an episode, another one, the first again, and the first in a new environment: three must be the same.

    Raises ValueError where they are not, where one breaks, and for an attribute that does not stay.
    """
    theta = policy.init(Stream(0, SERVER, 0, 0, Purpose.INIT).generator())
    noise = policy.noise(Stream(0, SERVER, 0, 0, Purpose.INIT).generator(), (decisions,))
    try:
        task.seen  # noqa: B018 - computed here, and kept
    except Exception as error:
        raise ValueError(f"{task.of} breaks: {cause(error)}") from error
    env, fresh = _made(task), _made(task)
    seen, acts = Observations(env.observation_space), Actions(env.action_space)

    def episode(env: gymnasium.Env[Any, Any], seed: int) -> list[bytes]:
        told, row = list[bytes](), seen.rows(1)
        observation, _ = env.reset(seed=seed)
        for h in range(decisions):
            seen.read(observation, row, 0)
            action = policy.act(theta, row.copy(), noise[h : h + 1])
            observation, reward, terminated, truncated, _ = env.step(acts.given(action)[0])
            told.append(row.tobytes() + np.float64(reward).tobytes())
            if is_over(terminated, truncated):
                break
        return told

    try:
        first, _, again, anew = episode(env, 1), episode(env, 2), episode(env, 1), episode(fresh, 1)
        kept = {name: getattr(env.unwrapped, name) for name in task.variant.attributes}
    except Exception as error:
        raise ValueError(f"{task.of} breaks: {cause(error)}") from error
    finally:
        closed(env)
        closed(fresh)
    if first != anew:
        raise ValueError(
            f"{task.of} does not play the same episode from the same seed: it draws from another generator"
        )
    if first != again:
        raise ValueError(f"{task.of} keeps a state between its episodes: make reset set all of it")
    for name, value in task.variant.attributes.items():
        if not np.array_equal(kept[name], value):
            raise ValueError(f"{task.of} sets its attribute {name!r} anew in reset: {value!r} does not stay")


def spread(n: int, low: float, high: float, make: Callable[[float], Variant]) -> tuple[list[Variant], list[Variant]]:
    """n variants with a number spread evenly over [low, high], and unseen ones halfway between neighbours."""
    numbers = np.linspace(low, high, n)
    halfway = (numbers[:-1] + numbers[1:]) / 2
    return [make(float(x)) for x in numbers], [make(float(x)) for x in halfway]
