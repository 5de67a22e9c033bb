"""AFedPG (Lan et al. 2025): normalised steps along a remembered direction, its newest part estimated ahead of theta.
Made for agents that work at their own speed (``clock = events``); in rounds it is normalised policy gradient with the
implicit gradient transport of Cutkosky and Mehta 2020. Where d lives, and how its weight falls, is a reconstruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from raypfrl.methods.method import Agent, Arrays, Method, Phase, Reply, mean, theta_0
from raypfrl.populations import Population
from raypfrl.settings import Beta, InnerBatch, Real, Tau

Weight = Annotated[
    Real, Field(gt=0, le=1, description="a: what the newest estimate weighs in the direction, in the end")
]


def nothing_remembered(population: Population) -> Arrays:
    """theta~ = theta^0, d = 0, k = 0."""
    theta = population.initial()
    return {**theta_0(population), "ahead": theta, "d": np.zeros_like(theta), "k": np.zeros(1)}


def estimates(agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, m_in: InnerBatch) -> Reply:
    """The mean of tau policy gradients at the look-ahead theta~."""
    g = [agent.oracle.policy_gradient(down["ahead"], m_in, agent.step().inner) for _ in range(tau)]
    return Reply({"g": np.stack(g).sum(axis=0) / tau}, kept)


def normalised(server: Arrays, ups: Sequence[Arrays], n: int, *, beta: Beta, weight: Weight = 0.2) -> Arrays:
    """d+ = (1 - a) d + a g, with a = a_{k - delay} of when g's theta~ was sent; theta+ = theta + beta d+ / ||d+||; and
    theta~ = theta+ + (1/a_{k+1} - 1) (theta+ - theta)."""
    theta, k = server["theta"], server["k"][0]
    a = weight_at(k - np.mean([up["delay"][0] if "delay" in up else 0.0 for up in ups]), weight)
    d = (1 - a) * server["d"] + a * mean(ups, "g")
    size = np.sqrt((d * d).sum())
    further = theta + beta / size * d if size else theta
    ahead = further + (1 / weight_at(k + 1, weight) - 1) * (further - theta)
    return {"theta": further, "ahead": ahead, "d": d, "k": server["k"] + 1}


def weight_at(k: float, weight: float) -> float:
    """a_k = max(a, (k + 1)^{-4/5}): the first estimate is all there is."""
    return max(weight, float((k + 1) ** -0.8))


METHODS: Mapping[str, Method] = {
    "afedpg": Method(
        (Phase(("ahead",), estimates, normalised),), begin=nothing_remembered,
        source="Lan et al. 2025, AFedPG: reconstructed; where d lives and how its weight falls could not be verified",
    )
}  # fmt: skip
