"""Mixing (inspired by APFL, Deng et al. 2020): every agent acts with its own blend of a model that it keeps and the
shared one. PfoPG and ZO-APFPG are built on this idea, with first-order and with two-point zeroth-order gradients; their
papers could not be read, so this reproduces neither."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from raypfrl.methods.method import Agent, Arrays, Direction, MAdapt, Method, Phase, Reply, after_steps, average
from raypfrl.methods.per_fedavg_pg import fedavg_pg
from raypfrl.methods.zeroth_order import zeroth_order
from raypfrl.policies import Vector
from raypfrl.settings import Alpha, Beta, Real, Tau

Own = Annotated[Real, Field(ge=0, le=1, description="a_0: the share of its own model that an agent starts with")]
OwnBeta = Annotated[Real, Field(ge=0, description="step size of the model that an agent keeps")]
ShareBeta = Annotated[Real, Field(ge=0, description="step size of the share a_i; 0: it stays a_0")]


def like_the_shared(agent: Agent, down: Arrays, *, own_share: Own = 0.5) -> Arrays:
    """v_i = w and a_i = a_0."""
    return {"v_i": down["theta"], "a_i": np.array([own_share])}


def mixed_steps(
    direction: Direction, agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta,
    beta_own: OwnBeta = 0.1, beta_share: ShareBeta = 0.0,
) -> Reply:  # fmt: skip
    """tau times, with g at the mixture a_i v_i + (1 - a_i) w_i: w_i + beta d_i(w_i), v_i + beta_own a_i g, and
    a_i + beta_share <v_i - w_i, g>, held in [0, 1]."""
    w_i, v_i, a_i = down["theta"], kept["v_i"], kept["a_i"]
    for _ in range(tau):
        step = agent.step()
        g = direction(agent.oracle, mixture(w_i, v_i, a_i), step.numbered(PART))
        slope = ((v_i - w_i) * g).sum()
        w_i, v_i = w_i + beta * direction(agent.oracle, w_i, step), v_i + beta_own * a_i * g
        a_i = np.clip(a_i + beta_share * slope, 0.0, 1.0)
    return Reply({"theta": w_i}, {"v_i": v_i, "a_i": a_i})


PART = 2**19  # the parts of a step's batches from here on are those at the mixture


def mixture(w: Vector, v_i: Vector, a_i: Vector) -> Vector:
    """a_i v_i + (1 - a_i) w."""
    return np.asarray(a_i * v_i + (1 - a_i) * w)


def mixed(agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, alpha: Alpha) -> Vector:
    """The mixture, and alpha g on top."""
    return after_steps(agent, mixture(down["theta"], kept["v_i"], kept["a_i"]), m, alpha)


def mixing(direction: Direction) -> Method:
    """Mixing with a direction: 2 d floats a round and agent, v_i and a_i kept."""
    return Method(
        (Phase(("theta",), partial(mixed_steps, direction), average),), join=like_the_shared, personalise=mixed,
        source="inspired by Deng et al. 2020, APFL; a reconstruction, neither PfoPG nor ZO-APFPG",
    )  # fmt: skip


METHODS: Mapping[str, Method] = {"mixing": mixing(fedavg_pg), "mixing_zeroth_order": mixing(zeroth_order)}
