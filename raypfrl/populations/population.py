"""A population: a named family of agents that share a policy class and differ in their MDP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from raypfrl.policies import Policy, Vector
from raypfrl.streams import SERVER, Purpose, Stream


class Successors(NamedTuple):
    """Transitions to few states: from s by a to states[s, a, k] with probabilities[s, a, k]; both (S, A, K)."""

    states: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    def dense(self) -> NDArray[np.float64]:
        """The same as (S, A, S) probabilities."""
        P = np.zeros((*self.states.shape[:2], len(self.states)))
        s, a, _ = np.indices(self.states.shape)
        np.add.at(P, (s, a, self.states), self.probabilities)
        return P


def successors(P: NDArray[np.float64] | Successors) -> Successors:
    """Transition probabilities by the states that follow; of an (S, A, S) array every state does."""
    return P if isinstance(P, Successors) else Successors(np.broadcast_to(np.arange(len(P)), P.shape), P)


class MDP(NamedTuple):
    """A finite MDP. P: (S, A, S) transition probabilities, or the few successors of each state and decision; r: (S, A)
    rewards, mu: (S,) start distribution.

    distance: (S,) to the goal, 0 on it; None where the task has no goal.
    """

    P: NDArray[np.float64] | Successors
    r: NDArray[np.float64]
    mu: NDArray[np.float64]
    distance: NDArray[np.float64] | None = None


class ClosedForm(NamedTuple):
    """J(theta), grad J(theta) (d,) and hess J(theta) v (d,) by formula."""

    objective: Callable[[Vector], Any]
    gradient: Callable[[Vector], Vector]
    hessian_vector_product: Callable[[Vector, Vector], Vector]


class Estimator(NamedTuple):
    """How an agent estimates its policy gradient (``oracles/advantages.py``); by default as the paper does.

    baseline: what is taken off R^h: nothing, a polynomial of time, one of time and the observation (linear features, as
    in the MAML literature), or one of time and the policy's state features. normalise: to mean 0 and standard deviation
    1 over the batch. average: over the batch's decisions in place of its trajectories. entropy: what a decision's
    entropy is worth beside its reward, in the gradient and the Hessian product, and not in the return that is told.
    """

    baseline: Literal["none", "time", "linear", "value"] = "none"
    normalise: bool = False
    average: bool = False
    entropy: float = 0.0


PAPER = Estimator()


@runtime_checkable
class Tabular(Protocol):
    """A task that is a finite MDP: what the exact oracle solves."""

    def mdp(self) -> MDP:
        """The task's own MDP."""


@runtime_checkable
class Solved(Protocol):
    """A task whose objective is a formula."""

    def closed_form(self) -> ClosedForm:
        """J and its derivatives."""


class Returns(NamedTuple):
    """Of m rollouts: their returns (m,), and whether each came to rest, (m,), where a task goes on for ever."""

    returns: NDArray[np.float64]
    settled: NDArray[np.bool_]


@runtime_checkable
class Measured(Protocol):
    """A task that tells the returns of rollouts under a deterministic policy: what the zeroth-order oracle works from.

    smoothing: r, how far from theta returns are compared. points: of how many a gradient's difference is. chances: how
    many standard normal numbers decide a rollout.
    """

    @property
    def smoothing(self) -> float:
        """r."""

    @property
    def points(self) -> Literal[1, 2]:
        """At theta + U, or at theta + U and theta - U."""

    @property
    def chances(self) -> int:
        """Numbers a rollout."""

    def rollouts(self, thetas: NDArray[np.float64], chances: NDArray[np.float64], horizon: int) -> Returns:
        """m rollouts of horizon + 1 decisions, each under its own theta (m, d) with its own chances (m, c)."""


class Examples(NamedTuple):
    """Inputs (N, f) and labels (N,) to learn from, and others to be tested on."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    x_test: NDArray[np.float64]
    y_test: NDArray[np.int64]


@runtime_checkable
class Supervised(Protocol):
    """A task that is to predict labels: what the examples oracle works from."""

    @property
    def decay(self) -> float:
        """The weight of half the squared norm of theta in the loss."""

    def examples(self) -> Examples:
        """The agent's own."""


@runtime_checkable
class Simulated(Protocol):
    """A task that is a gymnasium environment: what the autodiff oracle samples."""

    @property
    def env_id(self) -> str:
        """The gymnasium id."""

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments that make this task's environment."""


class Kernel(NamedTuple):
    """A family of tasks as plain functions of NumPy arrays of any shape, one number a trajectory, for the fused oracle,
    which compiles them. They may use numbers, tables (arrays) and other plain functions of their own file or closure.
    A state is a tuple of as many numbers after a transition as before.

    constants(task): the numbers that tell tasks apart, as float32 the first argument of the functions below
    initial(constants, u): s_0, a tuple of numbers, from four uniform numbers
    observe(constants, state): what the policy sees, a tuple: a table's state number, or a network's inputs
    transition(constants, state, action): s_{h+1}; the action is a whole number, or, of a Gaussian policy, its real
        numbers action[0], action[1], ..., as they were drawn: what the environment clips is clipped here
    measure(constants, state): of the state a decision is taken in, the reward, success, and the distance to the goal;
        the last two are None where the task has no goal
    fits(task, policy): whether the policy is one that can act on this task
    over(constants, state): whether the episode is over when it comes to this state, so that no decision is taken in it;
        None: never
    reward(constants, state, action): the reward, where it depends on the action too; None: it is the measured one
    """

    constants: Callable[[Any], tuple[float, ...]]
    initial: Callable[[Any, Any], Any]
    observe: Callable[[Any, Any], Any]
    transition: Callable[[Any, Any, Any], Any]
    measure: Callable[[Any, Any], Any]
    fits: Callable[[Any, Policy], bool]
    over: Callable[[Any, Any], Any] | None = None
    reward: Callable[[Any, Any, Any], Any] | None = None

    @property
    def compiled(self) -> tuple[Callable[..., Any] | None, ...]:
        """What machine code is made of."""
        return self.initial, self.observe, self.transition, self.measure, self.over, self.reward


@runtime_checkable
class Compiled(Protocol):
    """A task with a kernel: what the fused oracle samples. A subclass has its parent's; one whose environment does
    something else says ``kernel = None``, or brings its own."""

    @property
    def kernel(self) -> Kernel | None:
        """The task as functions."""


@runtime_checkable
class Estimated(Protocol):
    """A task whose family says how its policy gradient is estimated."""

    @property
    def estimator(self) -> Estimator:
        """As the paper does, where there is no such task."""


# One agent's own MDP, by what is known of it; most tasks are several of these.
Task = Tabular | Solved | Simulated | Compiled | Measured | Supervised


@dataclass(frozen=True)
class Population:
    """Agents 0..n-1 are the training tasks, agents n, n+1, ... the held-out ones.

    gamma is the absolute discount (gamma^0 at h = 0); an episode has horizon + 1 decisions. theta0: what a run begins
    with, (d,), where that is not the family's own initialisation.
    """

    name: str
    train: tuple[Task, ...]
    held_out: tuple[Task, ...]
    policy: Policy
    gamma: float
    horizon: int
    theta0: Vector | None = field(default=None, compare=False)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All agents' tasks by agent number."""
        return self.train + self.held_out

    def initial(self, seed: int = 0, agent: int = SERVER) -> Vector:
        """theta^0 (d,): the run's own where it has one; else the one initialisation that all runs of the population
        share, or the agent's at a seed (the from-scratch baseline)."""
        if self.theta0 is not None:
            return self.theta0.copy()
        return self.policy.init(Stream(seed, agent, 0, 0, Purpose.INIT).generator())


class Family(NamedTuple):
    """What builds a population, and the training settings that suit it: the defaults of a run. The builder's
    keyword-only arguments are the population's options.

    first: born in the first version, whose trials name every letter of that version (``config.FIRST``).
    """

    build: Callable[..., Population]
    suggested: Mapping[str, Any] = {}
    first: bool = False
