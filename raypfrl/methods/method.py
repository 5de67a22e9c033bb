"""What a method is: its phases. A round of a method with one phase is one arrow down, one up:

    server --down--> agent: local(down, kept) -> Reply(up, kept) --up--> server: combine(arrays, ups) -> arrays

Everything that travels or is kept is a mapping from names to flat arrays. State goes in and comes out: an agent
remembers nothing, so a call can be repeated anywhere with the same bytes. A whole method, and one round of it by hand:

    >>> def steps(direction, agent, down, kept, *, tau, beta):
    ...     return Reply({"theta": agent.ascend(down["theta"], direction, tau, beta)})
    >>> method = Method((Phase(("theta",), partial(steps, fedavg_pg)),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from raypfrl.oracles import Oracle
from raypfrl.policies import Policy, Vector
from raypfrl.populations import Population
from raypfrl.settings import Alpha, Beta, InnerSteps, Letter, Tau, bound, settings_of
from raypfrl.streams import LocalStep

Arrays = Mapping[str, Vector]  # what travels and what is kept: flat float64 arrays by name
Direction = Callable[..., Vector]  # (oracle, theta, step, *, its settings) -> an ascent direction, shape (d,)
MAdapt = int | Literal["exact"]  # trajectories of an adaptation step; exact: the gradient itself


class Agent(Protocol):
    """Agent i as a method sees it: an oracle for its own J_i, and fresh names for its batches."""

    number: int
    oracle: Oracle
    population: Population

    @property
    def policy(self) -> Policy:
        """pi(a|s; theta), the same for all agents."""

    def own_theta(self) -> Vector:
        """An initialisation of its own, anew for each seed, shape (d,)."""

    def step(self) -> LocalStep:
        """The names of the next local step's batches."""

    def ascend(self, theta: Vector, direction: Direction, tau: int, beta: float) -> Vector:
        """theta + beta d(theta), tau times, each on fresh batches."""

    def gradient(self, theta: Vector, m: MAdapt) -> Vector:
        """In ``personalise``: g from m fresh trajectories, or grad J(theta) for ``exact``."""


class Reply(NamedTuple):
    """What an agent answers. up: to the server, counted and combined. kept: its own, handed back to it in its next
    call; never counted, combined, or seen by the server's step. Its names and shapes are those of ``join``."""

    up: Arrays
    kept: Arrays = {}


class Phase(NamedTuple):
    """down: the names of what the server sends; local(agent, down, kept) -> Reply; combine(arrays, ups, n) -> the
    server's new arrays, of n agents of which some have answered, in agent order.

    An array of the server whose name ends in _i has a row an agent, (n, d): ``begin`` says what each begins with, and
    an agent is sent its own."""

    down: tuple[str, ...]
    local: Callable[..., Reply]
    combine: Callable[..., Arrays]


def theta_0(population: Population) -> Arrays:
    """theta^0 (d,): one initialisation, the same for all seeds."""
    return {"theta": population.initial()}


def nothing(agent: Agent, down: Arrays) -> Arrays:
    """The agent keeps nothing."""
    return {}


def adapted(
    agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, alpha: Alpha, inner_steps: InnerSteps = 1
) -> Vector:
    """theta + alpha g, nu times, each g from m trajectories of the agent's own: the summand of F in (5); theta for
    m = 0."""
    return after_steps(agent, down["theta"], m, alpha, inner_steps)


def after_steps(agent: Agent, theta: Vector, m: MAdapt, alpha: float, inner_steps: int = 1) -> Vector:
    """theta + alpha g, ``inner_steps`` times; theta for m = 0."""
    for _ in range(inner_steps if m else 0):
        theta = theta + alpha * agent.gradient(theta, m)
    return theta


class Method(NamedTuple):
    """A round is its phases. begin(population): the server's arrays. join(agent, down): what an agent keeps when it
    meets the server for the first time, to learn or to be evaluated. personalise(agent, down, kept, m): the theta that
    it acts with after m trajectories.

    unseen: whether it has something for an agent that never took part. everyone: whether it needs every agent in every
    round. source: where it is from, and how near this is. first: born in the first version, whose trials name every
    letter of that version (``config.FIRST``).

    Nothing here remembers anything. The keyword-only arguments of the functions are the method's settings.
    """

    phases: tuple[Phase, ...]
    begin: Callable[..., Arrays] = theta_0
    join: Callable[..., Arrays] = nothing
    personalise: Callable[..., Vector] = adapted
    unseen: bool = True
    everyone: bool = False
    source: str = ""
    first: bool = False

    @property
    def settings(self) -> dict[str, Letter]:
        """Its settings by name."""
        return {name: letter for function in self._functions() for name, letter in settings_of(function).items()}

    def asks(self, settings: Mapping[str, Any]) -> frozenset[str]:
        """The questions that it asks an oracle with these settings, as declared by ``asks``."""
        return frozenset().union(*(declared(function, settings) for function in self._functions()))

    @property
    def direction(self) -> Direction | None:
        """The direction that its last local steps follow, if it is one by itself."""
        local = self.phases[-1].local
        first = local.args[0] if isinstance(local, partial) and local.args else None
        return first if callable(first) else None

    @property
    def summary(self) -> str:
        """The first sentences of the docstrings of what its agents do; and which direction d they follow."""
        said = [_summary(_described(phase.local)) for phase in self.phases]
        plain = isinstance(self.phases[-1].local, partial) and self.phases[-1].local.func is local_steps
        d = self.direction
        return "; ".join(said) + (f"; d: {d.__name__}" if callable(d) and not plain else "")

    def with_settings(self, settings: Mapping[str, Any]) -> Self:
        """The method with its settings given."""
        phases = (Phase(p.down, bound(p.local, settings), bound(p.combine, settings)) for p in self.phases)
        begin, join, personalise = (bound(f, settings) for f in (self.begin, self.join, self.personalise))
        return self._replace(phases=tuple(phases), begin=begin, join=join, personalise=personalise)

    def _functions(self) -> Iterable[Callable[..., Any]]:
        for phase in self.phases:
            yield from (phase.local, phase.combine)
        yield from (self.begin, self.join, self.personalise)


Asked = TypeVar("Asked", bound=Callable[..., Any])


def asks(*questions: str, **when: Any) -> Callable[[Asked], Asked]:
    """Declare what a function asks an oracle, where its settings are as in ``when``. A policy gradient and returns need
    no word: every oracle answers them. ``blocks`` is asked of the policy."""

    def declare(function: Asked) -> Asked:
        function.asks = (*getattr(function, "asks", ()), (questions, when))  # type: ignore[attr-defined]
        return function

    return declare


def declared(function: Callable[..., Any], settings: Mapping[str, Any]) -> frozenset[str]:
    """What a function and those bound to it have declared that they ask with these settings."""
    if isinstance(function, partial):
        bound_to = (declared(each, settings) for each in function.args if callable(each))
        return declared(function.func, settings).union(*bound_to)
    return frozenset(
        question
        for questions, when in getattr(function, "asks", ())
        if all(settings[name] == value for name, value in when.items())
        for question in questions
    )


# --- what most methods are made of ------------------------------------------------------------------------------------


def local_steps(direction: Direction, agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta) -> Reply:
    """Algorithm 1, one agent's part: theta_i^{t+1} = theta_i^t + beta d_i(theta_i^t), tau times from theta^k."""
    return Reply({"theta": agent.ascend(down["theta"], direction, tau, beta)}, kept)


def average(server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    """Algorithm 1, the server's part: theta^{k+1} = (1/r) sum_i theta_i^{k,tau}, in agent order."""
    return average_of("theta", server, ups, n)


def average_of(name: str, server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    """The mean of an array by its name; the others stay."""
    return {**server, name: mean(ups, name)}


def mean(ups: Sequence[Arrays], name: str) -> Vector:
    """The mean of what the agents sent under a name, summed in agent order."""
    return np.asarray(np.stack([up[name] for up in ups]).sum(axis=0) / len(ups))


def averaged(direction: Direction, **more: Any) -> Method:
    """FedAvg with a direction: tau local steps along it, and the average."""
    return Method((Phase(("theta",), partial(local_steps, direction), average),), **more)


def _described(function: Callable[..., Any]) -> Callable[..., Any]:
    """The direction of plain local steps, else the function of the steps themselves."""
    if not isinstance(function, partial):
        return function
    described: Callable[..., Any] = function.args[0] if function.func is local_steps else function.func
    return described


def _summary(function: Callable[..., Any]) -> str:
    return " ".join((function.__doc__ or "").split()).split(". ")[0].removesuffix(".")
