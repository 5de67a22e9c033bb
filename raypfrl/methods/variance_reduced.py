"""Variance-reduced policy gradients within the local steps: HAPG (Shen et al. 2019) and SVRPG (Papini et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from raypfrl.methods.method import Agent, Arrays, Method, Phase, Reply, asks, average
from raypfrl.settings import Beta, HessianBatch, InnerBatch, OuterBatch, Tau

SnapshotBatch = Annotated[InnerBatch, Field(description="trajectories of the gradient at the start of a round")]
StepBatch = Annotated[OuterBatch, Field(description="trajectories of a local step's correction")]
ProductBatch = Annotated[HessianBatch, Field(description="trajectories of a local step's Hessian product")]


@asks("hessian_vector_product")
def hessian_aided_steps(
    agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta, m_in: SnapshotBatch, m_h: ProductBatch
) -> Reply:
    """HAPG: d_0 = g(theta_0) from m_in trajectories; d_t = d_{t-1} + H_hat(theta_a) (theta_t - theta_{t-1}) from m_h,
    theta_a = a theta_t + (1 - a) theta_{t-1} with a uniform on [0, 1]."""
    theta = down["theta"]
    d = agent.oracle.policy_gradient(theta, m_in, agent.step().inner)
    for _ in range(tau - 1):
        before, theta, step = theta, theta + beta * d, agent.step()
        a = step.perturbation.generator().random()
        d = d + agent.oracle.hessian_vector_product(a * theta + (1 - a) * before, theta - before, m_h, step.hessian)
    return Reply({"theta": theta + beta * d}, kept)


@asks("weighted_gradient")
def snapshot_steps(
    agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta, m_in: SnapshotBatch, m_out: StepBatch
) -> Reply:
    """SVRPG: mu = g(theta_0) from m_in trajectories; then d = mu + mean(g(xi; theta) - omega(xi) g(xi; theta_0)) over
    m_out trajectories of theta, omega = q(xi; theta_0) / q(xi; theta)."""
    snapshot = theta = down["theta"]
    mu = agent.oracle.policy_gradient(snapshot, m_in, agent.step().inner)
    for _ in range(tau):
        batch = agent.step().outer
        g = agent.oracle.policy_gradient(theta, m_out, batch)
        theta = theta + beta * (mu + g - agent.oracle.weighted_gradient(theta, snapshot, m_out, batch))
    return Reply({"theta": theta}, kept)


METHODS: Mapping[str, Method] = {
    "hapg": Method((Phase(("theta",), hessian_aided_steps, average),), source="Shen et al. 2019, HAPG: reproduced"),
    "svrpg": Method((Phase(("theta",), snapshot_steps, average),), source="Papini et al. 2018, SVRPG: reproduced"),
}
