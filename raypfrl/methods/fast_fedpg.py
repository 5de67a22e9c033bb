"""Fast-FedPG (Zhu et al. 2024): a round in two phases. The agents first say their gradients at theta, and then step
along their own, corrected by how those differ from the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from raypfrl.methods.method import Agent, Arrays, Direction, Method, Phase, Reply, average, mean
from raypfrl.methods.per_fedavg_pg import exact, fedavg_pg
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.settings import Beta, Tau
from raypfrl.streams import Batches


def no_gradient(agent: Agent, down: Arrays) -> Arrays:
    """theta and g_i, until there is one."""
    return {"theta": down["theta"], "g_i": np.zeros_like(down["theta"])}


def gradient_here(direction: Direction, agent: Agent, down: Arrays, kept: Arrays) -> Reply:
    """Phase 0: g_i = d_i(theta)."""
    g_i = direction(agent.oracle, down["theta"], agent.step())
    return Reply({"g": g_i}, {"theta": down["theta"], "g_i": g_i})


def mean_gradient(server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    """g = mean g_i."""
    return {**server, "g": mean(ups, "g")}


def tracked_steps(direction: Direction, agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta) -> Reply:
    """Phase 1: theta_i <- theta_i + beta (d_i(theta_i) + g - g_i), tau times."""
    theta, g, g_i = kept["theta"], down["g"], kept["g_i"]

    def tracked(oracle: Oracle, theta_i: Vector, step: Batches) -> Vector:
        return direction(oracle, theta_i, step) + g - g_i

    return Reply({"theta": agent.ascend(theta, tracked, tau, beta)}, kept)


def fast(direction: Direction, source: str) -> Method:
    """Fast-FedPG with a direction: 4 d floats a round and agent, theta and g_i kept for the round."""
    return Method(
        (
            Phase(("theta",), partial(gradient_here, direction), mean_gradient),
            Phase(("g",), partial(tracked_steps, direction), average),
        ),
        join=no_gradient,
        source=source,
    )


METHODS: Mapping[str, Method] = {
    "fast_fedpg": fast(fedavg_pg, "Zhu et al. 2024, Fast-FedPG: reproduced"),
    "fast_fedpg_exact": fast(exact, "inspired by Zhu et al. 2024, Fast-FedPG, along the paper's direction"),
}
