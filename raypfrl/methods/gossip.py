"""Policy gradients by gossip (decentralised SGD, Lian et al. 2017): no average but each agent's own mixture of its
neighbours' parameters, theta_i <- sum_l W_il theta_l. The server stands for the network that carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from raypfrl.methods.method import Agent, Arrays, Direction, MAdapt, Method, Phase, Reply, after_steps
from raypfrl.methods.per_fedavg_pg import fedavg_pg
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.settings import Alpha, Beta, Tau

Topology = Annotated[
    Literal["star", "ring", "none"],
    Field(description="who mixes with whom: all with all, each with its two neighbours, or nobody"),
]


def weights(topology: str, n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """W (n, n), symmetric, rows and columns summing to 1: star 1/n everywhere; ring 1/3 for oneself and each of two
    neighbours; none the identity."""
    if topology == "none":
        return np.eye(n)
    if topology == "star" or n <= 3:
        return np.full((n, n), 1 / n)
    one = np.eye(n)
    return (one + np.roll(one, 1, axis=0) + np.roll(one, -1, axis=0)) / 3


def a_row_each(population: Population) -> Arrays:
    """theta_i^0 = theta^0 for every agent."""
    return {"theta_i": population.initial()}


def own_steps(direction: Direction, agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta) -> Reply:
    """tau steps from the agent's own row."""
    return Reply({"theta_i": agent.ascend(down["theta_i"], direction, tau, beta)}, kept)


def mixed_rows(name: str, server: Arrays, ups: Sequence[Arrays], n: int, *, topology: Topology = "ring") -> Arrays:
    """x_i <- sum_l W_il x_l for the array of that name, summed in agent order."""
    W, rows = weights(topology, n), [up[name] for up in ups]
    mixed = [sum((w * row for w, row in zip(W_i, rows, strict=True)), 0.0 * rows[0]) for W_i in W]
    return {**server, name: np.stack(mixed)}


def own_row(agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, alpha: Alpha) -> Vector:
    """The agent's own row, and alpha g on top."""
    return after_steps(agent, down["theta_i"], m, alpha)


METHODS: Mapping[str, Method] = {
    "gossip": Method(
        (Phase(("theta_i",), partial(own_steps, fedavg_pg), partial(mixed_rows, "theta_i")),), a_row_each,
        personalise=own_row, unseen=False, everyone=True,
        source="Lian et al. 2017, decentralised SGD, with policy gradients: reproduced",
    )
}  # fmt: skip
