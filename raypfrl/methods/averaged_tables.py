"""QAvg and PAvg (Jin et al. 2022): agents whose kernels differ average tables, of values or of the policy itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from raypfrl.methods.method import Agent, Arrays, MAdapt, Method, Phase, Reply, asks, average_of
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.settings import Beta, Real, Tau

Temperature = Annotated[Real, Field(gt=0, description="of the softmax of the values that an agent acts with")]
LEAST = 1e-300  # a probability of 0, where its logarithm is wanted


@asks("table")
def no_values(population: Population) -> Arrays:
    """Q = 0."""
    return {"Q": np.zeros(population.policy.dim)}


@asks("backup")
def value_steps(agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta) -> Reply:
    """Q_i <- (1 - beta) Q_i + beta T_i Q_i, tau times, T_i the optimality operator of the agent's own MDP."""
    Q = down["Q"]
    for _ in range(tau):
        Q = (1 - beta) * Q + beta * agent.oracle.backup(Q, 0, agent.step().inner)
    return Reply({"Q": Q}, kept)


def acting_on_values(agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, temperature: Temperature = 0.1) -> Vector:
    """The softmax of Q / temperature; nothing adapts it."""
    return down["Q"] / temperature


@asks("table")
def uniform(population: Population) -> Arrays:
    """The policy of theta^0, as probabilities."""
    logits = population.initial().reshape(-1, population.policy.actions)  # type: ignore[attr-defined]
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return {"pi": (weights / weights.sum(-1, keepdims=True)).reshape(-1)}


@asks("direct_gradient")
def projected_steps(agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta) -> Reply:
    """pi_i <- the nearest policy to pi_i + beta grad J_i(pi_i), tau times, in the policy's own table."""
    actions = agent.policy.actions  # type: ignore[attr-defined]
    pi = nearest_policy(down["pi"], actions)  # the changes of others, applied late, need not leave a policy
    for _ in range(tau):
        pi = nearest_policy(pi + beta * agent.oracle.direct_gradient(pi, 0, agent.step().inner), actions)
    return Reply({"pi": pi}, kept)


def acting(agent: Agent, down: Arrays, kept: Arrays, m: MAdapt) -> Vector:
    """log pi; nothing adapts it."""
    pi = nearest_policy(down["pi"], agent.policy.actions)  # type: ignore[attr-defined]
    return np.asarray(np.log(np.maximum(pi, LEAST)))


def nearest_policy(table: Vector, actions: int) -> Vector:
    """Every row projected onto the simplex: max(x - c, 0), c such that it sums to 1 (Held et al. 1974)."""
    x = table.reshape(-1, actions)
    falling = -np.sort(-x, -1)
    c = (falling.cumsum(-1) - 1) / np.arange(1, actions + 1)
    last = (falling > c).sum(-1, keepdims=True) - 1
    return np.asarray(np.maximum(x - np.take_along_axis(c, last, -1), 0.0)).reshape(-1)


METHODS: Mapping[str, Method] = {
    "qavg": Method(
        (Phase(("Q",), value_steps, partial(average_of, "Q")),), no_values, personalise=acting_on_values,
        source="Jin et al. 2022, QAvg: reproduced",
    ),
    "pavg": Method(
        (Phase(("pi",), projected_steps, partial(average_of, "pi")),), uniform, personalise=acting,
        source="Jin et al. 2022, PAvg: reproduced, with a constant step",
    ),
}  # fmt: skip
