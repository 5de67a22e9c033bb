"""FedNPG (Yang et al. 2024): natural policy gradients with an entropy weight on the averaged reward, between nodes of a
network. Each node mixes its neighbours' policies and a tracker of the mean of everybody's values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from raypfrl.methods.gossip import a_row_each, mixed_rows
from raypfrl.methods.method import Agent, Arrays, MAdapt, Method, Phase, Reply, asks
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.settings import Real

Eta = Annotated[Real, Field(gt=0, description="eta: step size of natural gradients, at most (1 - gamma) / omega")]
Omega = Annotated[Real, Field(ge=0, description="omega: weight of the policy's entropy in what is maximised")]
Tracking = Annotated[bool, Field(description="whether the mean of everybody's values is tracked, or mixed as it is")]


@asks("table")
def policies(population: Population, *, eta: Eta = 0.5, omega: Omega = 0.1) -> Arrays:
    """log pi_i^0 = theta^0. Raises ValueError for eta above (1 - gamma) / omega."""
    if eta * omega > 1 - population.gamma:
        most = (1 - population.gamma) / omega
        raise ValueError(f"eta = {eta:g} is above (1 - gamma) / omega = {most:g}; lower eta or omega")
    return a_row_each(population)


def no_values(agent: Agent, down: Arrays) -> Arrays:
    """T = Q = 0, until there are values."""
    zero = np.zeros_like(down["theta_i"])
    return {"theta": down["theta_i"], "T": zero, "Q": zero}


@asks("action_values")
def tracked_values(agent: Agent, down: Arrays, kept: Arrays, *, omega: Omega = 0.1, tracking: Tracking = True) -> Reply:
    """Phase 0: Q_i of the node's policy, with entropy; T_i + Q_i - Q_i of before goes out to be mixed."""
    theta = log_softmax(down["theta_i"], agent.policy.actions)  # type: ignore[attr-defined]
    Q = agent.oracle.action_values(theta, 0, agent.step().inner, omega=omega)
    T = kept["T"] + Q - kept["Q"] if tracking else Q
    return Reply({"T_i": T}, {"theta": theta, "T": T, "Q": Q})


def natural_step(agent: Agent, down: Arrays, kept: Arrays, *, eta: Eta = 0.5, omega: Omega = 0.1) -> Reply:
    """Phase 1: (1 - eta omega / (1 - gamma)) log pi_i + eta / (1 - gamma) T_i goes out to be mixed."""
    rate = eta / (1 - agent.population.gamma)
    theta = (1 - rate * omega) * kept["theta"] + rate * down["T_i"]
    return Reply({"theta_i": theta}, {**kept, "T": down["T_i"]})


def own_policy(agent: Agent, down: Arrays, kept: Arrays, m: MAdapt) -> Vector:
    """log pi_i; nothing adapts it."""
    return down["theta_i"]


def log_softmax(logits: Vector, actions: int) -> Vector:
    """log pi of a table of logits, flat."""
    table = logits.reshape(-1, actions)
    shifted = table - table.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))).reshape(-1)


METHODS: Mapping[str, Method] = {
    "fed_npg": Method(
        (
            Phase(("theta_i",), tracked_values, partial(mixed_rows, "T_i")),
            Phase(("T_i",), natural_step, partial(mixed_rows, "theta_i")),
        ),
        policies, no_values, own_policy, unseen=False, everyone=True,
        source="Yang et al. 2024, FedNPG: reconstructed; where its tracker is mixed could not be verified",
    )
}  # fmt: skip
