"""A shared representation (PFedRL-Rep, Xiong et al. 2025, with policy gradients in the place of TD): the agents learn
the body of the policy's network together, and each keeps a head of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from raypfrl.methods.method import Agent, Arrays, Direction, MAdapt, Method, Phase, Reply, asks, average_of
from raypfrl.methods.per_fedavg_pg import fedavg_pg
from raypfrl.oracles import Oracle
from raypfrl.policies import Layered, Policy, Vector
from raypfrl.populations import Population
from raypfrl.settings import Beta, Real, Tau, Whole
from raypfrl.streams import Batches

TauHead = Annotated[Whole, Field(ge=0, lt=2**20, description="steps of the agent's own head, before those of the body")]
BetaHead = Annotated[Real, Field(gt=0, description="step size of the agent's own head")]


@asks("blocks")
def shared_part(population: Population) -> Arrays:
    """The body of theta^0."""
    return {"body": population.initial()[blocks_of(population.policy)["body"]]}


def own_head(agent: Agent, down: Arrays) -> Arrays:
    """The head of theta^0."""
    return {"head": agent.population.initial()[blocks_of(agent.policy)["head"]]}


def head_then_body(
    direction: Direction, agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta,
    tau_head: TauHead = 5, beta_head: BetaHead = 0.1,
) -> Reply:  # fmt: skip
    """tau_head steps of the own head with the body as it is, then tau steps of the body with the head as it is."""
    blocks = blocks_of(agent.policy)
    theta = agent.ascend(whole(agent, down, kept), partial(only, blocks["head"], direction), tau_head, beta_head)
    theta = agent.ascend(theta, partial(only, blocks["body"], direction), tau, beta)
    return Reply({"body": theta[blocks["body"]]}, {"head": theta[blocks["head"]]})


def fitted_head(
    agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, tau_head: TauHead = 5, beta_head: BetaHead = 0.1
) -> Vector:
    """The shared body, and the own head after tau_head steps of m trajectories each: a head is fitted for agents that
    were never seen, too. For m = 0 the head as it is."""
    theta, head = whole(agent, down, kept), blocks_of(agent.policy)["head"]
    for _ in range(tau_head if m else 0):
        theta = theta + beta_head * masked(agent.gradient(theta, m), head)
    return theta


def whole(agent: Agent, down: Arrays, kept: Arrays) -> Vector:
    """theta from the shared body and the own head."""
    theta, blocks = np.empty(agent.policy.dim), blocks_of(agent.policy)
    theta[blocks["body"]], theta[blocks["head"]] = down["body"], kept["head"]
    return theta


def blocks_of(policy: Policy) -> Mapping[str, slice]:
    """Where body and head stand in theta. Raises ValueError for a policy that has no layers."""
    if not isinstance(policy, Layered):
        raise ValueError(f"{policy} has no body and head; take a population whose policy is a network")
    return policy.blocks


def only(block: slice, direction: Direction, oracle: Oracle, theta: Vector, step: Batches) -> Vector:
    """The direction within a block, 0 elsewhere."""
    return masked(direction(oracle, theta, step), block)


def masked(d: Vector, block: slice) -> Vector:
    """d within the block, 0 elsewhere."""
    inside = np.zeros_like(d)
    inside[block] = d[block]
    return inside


METHODS: Mapping[str, Method] = {
    "shared_representation": Method(
        (Phase(("body",), partial(head_then_body, fedavg_pg), partial(average_of, "body")),),
        shared_part, own_head, fitted_head,
        source="inspired by Xiong et al. 2025, PFedRL-Rep; the order of its updates could not be verified",
    )
}  # fmt: skip
