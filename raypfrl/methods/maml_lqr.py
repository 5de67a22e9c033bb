"""MAML-LQR (Toso et al. 2024): the paper's direction where not every theta can be acted with. A step is proposed by the
first phase and tried by the second: it is taken only where all agents can act with it, and can adapt from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from raypfrl.methods.method import Agent, Arrays, Direction, Method, Phase, Reply, local_steps, mean, theta_0
from raypfrl.methods.per_fedavg_pg import exact, first_order
from raypfrl.oracles import Diverged
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.settings import Alpha, InnerBatch


def whole_steps(population: Population) -> Arrays:
    """theta^0, which every agent has to be able to act with; no step has been refused, none is scaled."""
    return {**theta_0(population), "scale": np.ones(1), "refused": np.zeros(1)}


def proposed(server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    """theta + scale mean(theta_i - theta); theta itself is remembered as what is safe."""
    theta, average, scale = server["theta"], mean(ups, "theta"), server["scale"]
    further = average if scale == 1 else theta + scale * (average - theta)
    return {**server, "theta": further, "safe": theta}


def tried(agent: Agent, down: Arrays, kept: Arrays, *, alpha: Alpha, m_in: InnerBatch) -> Reply:
    """1 where J_i is finite at theta and at theta + alpha g_i(theta), else 0: one float."""
    theta, (inner, adapted) = down["theta"], (agent.step(), agent.step())
    try:
        agent.oracle.returns(theta, m_in, inner.outer)
        plus: Vector = theta + alpha * agent.oracle.policy_gradient(theta, m_in, inner.inner)
        agent.oracle.returns(plus, m_in, adapted.outer)
    except Diverged:
        return Reply({"can": np.zeros(1)}, kept)
    return Reply({"can": np.ones(1)}, kept)


def taken_or_refused(server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    """Where all can, theta stays as proposed, and the scale doubles up to 1; else theta is the safe one again, the
    scale halves, and the step counts as refused."""
    if all(up["can"] == 1 for up in ups):
        return {**server, "scale": np.minimum(1.0, 2 * server["scale"])}
    return {**server, "theta": server["safe"], "scale": server["scale"] / 2, "refused": server["refused"] + 1}


def backtracking(direction: Direction) -> Method:
    """Steps along a direction that are tried before they are taken: 3 d + 1 floats a round and agent."""
    return Method(
        (
            Phase(("theta",), partial(local_steps, direction), proposed),
            Phase(("theta",), tried, taken_or_refused),
        ),
        begin=whole_steps, everyone=True,
        source="Toso et al. 2024, MAML-LQR: reproduced at tau = 1; the trial of a step is ours",
    )  # fmt: skip


METHODS: Mapping[str, Method] = {
    "maml_lqr": backtracking(exact),
    "maml_lqr_first_order": backtracking(first_order),
}
