"""SCAFFOLD (Karimireddy et al. 2020), option II, as ascent: control variates take the drift out of the local steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from raypfrl.methods.method import Agent, Arrays, Direction, Method, Phase, Reply, mean
from raypfrl.methods.per_fedavg_pg import exact, fedavg_pg, first_order
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.settings import Beta, Tau
from raypfrl.streams import Batches


def zero_variate(population: Population) -> Arrays:
    """theta^0, and c = 0."""
    return {"theta": population.initial(), "c": np.zeros(population.policy.dim)}


def zero_own(agent: Agent, down: Arrays) -> Arrays:
    """c_i = 0."""
    return {"c_i": np.zeros_like(down["theta"])}


def corrected_steps(direction: Direction, agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta) -> Reply:
    """theta_i <- theta_i + beta (d_i - c_i + c), tau times; then c_i+ = c_i - c + (theta_i - theta) / (tau beta)."""
    theta, c, c_i = down["theta"], down["c"], kept["c_i"]

    def corrected(oracle: Oracle, theta_i: Vector, step: Batches) -> Vector:
        return direction(oracle, theta_i, step) - c_i + c

    theta_i = agent.ascend(theta, corrected, tau, beta)
    c_new = c_i - c + (theta_i - theta) / (tau * beta)
    return Reply({"theta": theta_i, "dc": c_new - c_i}, {"c_i": c_new})


def average_and_variate(server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    """The average of the theta_i; c + (r/n) mean(c_i+ - c_i)."""
    return {"theta": mean(ups, "theta"), "c": server["c"] + len(ups) / n * mean(ups, "dc")}


REPRODUCED = "Karimireddy et al. 2020, SCAFFOLD, option II: reproduced"
INSPIRED = "inspired by Karimireddy et al. 2020, SCAFFOLD, along the paper's direction"


def scaffold(direction: Direction, source: str) -> Method:
    """SCAFFOLD with a direction: 4 d floats a round and agent, c_i kept."""
    return Method(
        (Phase(("theta", "c"), partial(corrected_steps, direction), average_and_variate),), zero_variate, zero_own,
        source=source,
    )  # fmt: skip


METHODS: Mapping[str, Method] = {
    "scaffold": scaffold(fedavg_pg, REPRODUCED),
    "scaffold_exact": scaffold(exact, INSPIRED),
    "scaffold_first_order": scaffold(first_order, INSPIRED),
}
