"""pFedMe (Dinh et al. 2020): the gradient of the Moreau envelope as a direction; with a KL penalty in the place of the
squared distance the personalised policies of pMeta-RL (Wang et al. 2022; its penalty could not be verified)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from raypfrl.methods.method import Agent, Arrays, MAdapt, Method, asks, averaged
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.settings import InnerBatch, Real, Whole
from raypfrl.streams import Batches

Lam = Annotated[Real, Field(gt=0, description="lambda: how near the personal theta stays to the shared one")]
ProxSteps = Annotated[Whole, Field(ge=1, le=10_000, description="steps towards the proximal point")]
ProxBeta = Annotated[Real, Field(gt=0, description="step size towards the proximal point")]
Penalty = Annotated[
    Literal["l2", "kl"], Field(description="what holds it near: ||theta - w||^2 / 2, or KL(pi || pi_w)")
]


@asks("kl_gradient", penalty="kl")
def moreau(
    oracle: Oracle, w: Vector, step: Batches, *, lam: Lam = 10.0, prox_steps: ProxSteps = 10,
    prox_beta: ProxBeta = 0.05, m_in: InnerBatch, penalty: Penalty = "l2",
) -> Vector:  # fmt: skip
    """grad F_i(w) = lambda (theta_i(w) - w) of F_i(w) = max_theta J_i(theta) - (lambda/2) ||theta - w||^2, (d,)."""

    def gradient(theta: Vector, j: int) -> Vector:
        return oracle.policy_gradient(theta, m_in, step.numbered(j).inner)

    def pull(theta: Vector, j: int) -> Vector:
        return oracle.kl_gradient(theta, w, m_in, step.numbered(j).inner) if penalty == "kl" else theta - w

    return lam * (proximal_point(w, gradient, pull, lam, prox_steps, prox_beta) - w)


def proximal_point(
    w: Vector, gradient: Callable[[Vector, int], Vector], pull: Callable[[Vector, int], Vector], lam: float,
    prox_steps: int, prox_beta: float,
) -> Vector:  # fmt: skip
    """theta_i(w): ascent from w on J_i less lambda times the penalty whose gradient is ``pull``."""
    theta = w
    for j in range(prox_steps):
        theta = theta + prox_beta * (gradient(theta, j) - lam * pull(theta, j))
    return theta


def near(
    agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, lam: Lam = 10.0, prox_steps: ProxSteps = 10,
    prox_beta: ProxBeta = 0.05,
) -> Vector:  # fmt: skip
    """theta_i(w), each step from m trajectories, held near by the squared distance; w for m = 0."""
    w = down["theta"]

    def gradient(theta: Vector, j: int) -> Vector:
        return agent.gradient(theta, m)

    def pull(theta: Vector, j: int) -> Vector:
        return theta - w

    return proximal_point(w, gradient, pull, lam, prox_steps if m else 0, prox_beta)


METHODS: Mapping[str, Method] = {
    "moreau": averaged(
        moreau, personalise=near,
        source="Dinh et al. 2020, pFedMe: reproduced; penalty = kl, Wang et al. 2022, pMeta-RL: reconstructed",
    )
}  # fmt: skip
