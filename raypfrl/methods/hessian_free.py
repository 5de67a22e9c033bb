"""Per-FedAvg (HF) (Fallah et al. 2020) with policy gradients: the curvature term as a finite difference of gradients.

What the paper calls Hessian-free is ``first_order``. Here each side of the difference has a batch of its own, so the
variance of the curvature term is alpha^2 ||v||^2 / (2 delta^2 ||v||^2) times that of a gradient from m_h trajectories:
it grows like 1/delta^2, where ``exact``'s product stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from raypfrl.methods.method import Method, averaged
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.settings import Alpha, HessianBatch, InnerBatch, OuterBatch, Real
from raypfrl.streams import Batches

Delta = Annotated[Real, Field(gt=0, description="delta: how far along g_out gradients are compared")]


def hessian_free(
    oracle: Oracle, theta: Vector, step: Batches, *, alpha: Alpha, m_in: InnerBatch, m_h: HessianBatch,
    m_out: OuterBatch, delta: Delta = 0.1,
) -> Vector:  # fmt: skip
    """(7) with H_hat g_out = [g(theta + delta g_out) - g(theta - delta g_out)] / (2 delta); (d,); m_in + m_out + 2 m_h
    trajectories."""
    g_in = oracle.policy_gradient(theta, m_in, step.inner)  # D_in ~ q(theta)
    adapted = theta + alpha * g_in
    g_out = oracle.policy_gradient(adapted, m_out, step.outer)  # D_out ~ q(adapted)
    ahead = oracle.policy_gradient(theta + delta * g_out, m_h, step.hessian)
    behind = oracle.policy_gradient(theta - delta * g_out, m_h, step.numbered(1).hessian)
    return g_out + alpha * (ahead - behind) / (2 * delta)


METHODS: Mapping[str, Method] = {
    "hessian_free": averaged(hessian_free, source="inspired by Fallah et al. 2020, Per-FedAvg (HF)")
}  # fmt: skip
