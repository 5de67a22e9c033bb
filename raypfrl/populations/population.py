"""A population: a named family of agents that share a policy class and differ in their MDP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from raypfrl.policies import Policy, Vector
from raypfrl.streams import SERVER, Purpose, Stream


class MDP(NamedTuple):
    """A finite MDP. P: (S, A, S) transition probabilities, r: (S, A) rewards, mu: (S,) start distribution.

    distance: (S,) to the goal, 0 on it; None where the task has no goal.
    """

    P: NDArray[np.float64]
    r: NDArray[np.float64]
    mu: NDArray[np.float64]
    distance: NDArray[np.float64] | None = None


class ClosedForm(NamedTuple):
    """J(theta), grad J(theta) (d,) and hess J(theta) v (d,) by formula, valid for complex theta too."""

    objective: Callable[[Vector], Any]
    gradient: Callable[[Vector], Vector]
    hessian_vector_product: Callable[[Vector, Vector], Vector]


class Task(Protocol):
    """One agent's own MDP, as a gymnasium environment. A tabular task also has ``mdp() -> MDP``, one whose objective
    is a formula ``closed_form() -> ClosedForm``; a task that the fused oracle covers also has the jitted functions
    that stand at the end of its population's file."""

    @property
    def env_id(self) -> str:
        """The gymnasium id."""

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments that make this task's environment."""


@dataclass(frozen=True)
class Population:
    """Agents 0..n-1 are the training tasks, agents n, n+1, ... the held-out ones.

    gamma is the absolute discount (gamma^0 at h = 0); an episode has horizon + 1 decisions.
    """

    name: str
    train: tuple[Task, ...]
    held_out: tuple[Task, ...]
    policy: Policy
    gamma: float
    horizon: int

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All agents' tasks by agent number."""
        return self.train + self.held_out

    def initial(self, seed: int | None = None, agent: int = SERVER) -> Vector:
        """theta^0. Without a seed the one initialisation that all runs of the population share; with one, the
        agent's own (the from-scratch baseline)."""
        return self.policy.init(Stream(seed or 0, agent, 0, 0, Purpose.INIT).generator())
