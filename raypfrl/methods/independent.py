"""No federation: every agent learns alone, from an initialisation of its own (the from-scratch baseline)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from raypfrl.methods.method import Agent, Arrays, Direction, MAdapt, Method, Phase, Reply, after_steps
from raypfrl.methods.per_fedavg_pg import fedavg_pg
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.settings import Alpha, Beta, InnerSteps, Tau


def none(population: Population) -> Arrays:
    """The server has nothing."""
    return {}


def own_theta(agent: Agent, down: Arrays) -> Arrays:
    """theta_i^0 (d,), anew for each seed and agent."""
    return {"theta": agent.own_theta()}


def alone(direction: Direction, agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta) -> Reply:
    """tau steps from where the agent left off; nothing is sent."""
    return Reply({}, {"theta": agent.ascend(kept["theta"], direction, tau, beta)})


def unchanged(server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    """No federation: every agent keeps its own theta."""
    return server


def own_adapted(
    agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, alpha: Alpha, inner_steps: InnerSteps = 1
) -> Vector:
    """theta_i + alpha g."""
    return after_steps(agent, kept["theta"], m, alpha, inner_steps)


METHODS: Mapping[str, Method] = {
    "independent": Method(
        (Phase((), partial(alone, fedavg_pg), unchanged),), none, own_theta, own_adapted, unseen=False,
        source="the paper's from-scratch baseline: reproduced", first=True,
    )
}  # fmt: skip
