"""The paper's methods, side by side: one ascent direction of an agent at theta each, asked of an oracle in the paper's
terms (Beikmohammadi, Khirirat, Magnússon: Personalized Federated Reinforcement Learning via Model-Agnostic
Meta-Learning). With nu > 1 inner steps the factor (I + alpha H_hat) stands once for each of them."""

from __future__ import annotations

from collections.abc import Mapping

from raypfrl.methods.curvature import Curvature, CurvatureClip, clipped, curvature_term
from raypfrl.methods.method import Method, asks, averaged
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.settings import Alpha, HessianBatch, InnerBatch, InnerSteps, OuterBatch, SharedBatch
from raypfrl.streams import Batches


@asks("hessian_vector_product")
@asks("mean_rewards", curvature="causal_baseline")
@asks("value_baseline", curvature="causal_value")
def exact(
    oracle: Oracle, theta: Vector, step: Batches, *, alpha: Alpha, m_in: InnerBatch, m_h: HessianBatch,
    m_out: OuterBatch, curvature: Curvature = "paper", curvature_clip: CurvatureClip = None,
    inner_steps: InnerSteps = 1,
) -> Vector:  # fmt: skip
    """(7): (I + alpha H_hat) g_out, shape (d,); m_in + m_h + m_out trajectories."""
    *before, (adapted, last) = inner_path(oracle, theta, step, alpha, m_in, inner_steps)
    g_out = oracle.policy_gradient(adapted, m_out, last.outer)  # D_out ~ q(adapted)
    for theta_j, step_j in reversed(before):
        H_g = curvature_term(oracle, theta_j, g_out, m_in, m_h, step_j, curvature)  # D_h ~ q(theta)
        g_out = g_out + clipped(alpha * H_g, g_out, curvature_clip)
    return g_out  # first order: without the loop


def first_order(
    oracle: Oracle, theta: Vector, step: Batches, *, alpha: Alpha, m_in: InnerBatch, m_out: OuterBatch,
    inner_steps: InnerSteps = 1,
) -> Vector:  # fmt: skip
    """(7) without the curvature factor (Hessian-free): g_out, shape (d,); m_in + m_out trajectories."""
    *_, (adapted, last) = inner_path(oracle, theta, step, alpha, m_in, inner_steps)
    g_out = oracle.policy_gradient(adapted, m_out, last.outer)  # D_out ~ q(adapted)
    return g_out


def fedavg_pg(
    oracle: Oracle, theta: Vector, step: Batches, *, m_in: SharedBatch, m_h: SharedBatch, m_out: SharedBatch
) -> Vector:
    """FedAvg-PG: one policy gradient (2) at theta, with the exact method's whole budget; shape (d,)."""
    return oracle.policy_gradient(theta, m_in + m_h + m_out, step.inner)


def inner_path(
    oracle: Oracle, theta: Vector, step: Batches, alpha: float, m_in: int, inner_steps: int
) -> list[tuple[Vector, Batches]]:
    """theta^0 = theta and theta^{j+1} = theta^j + alpha g_in(theta^j) for j < nu, each with the names of its batches;
    the last, where D_out is drawn, shares them with the one before."""
    path = [(theta, step)]
    for j in range(inner_steps):
        theta_j, step_j = path[-1][0], step.numbered(j)
        path[-1] = theta_j, step_j
        g_in = oracle.policy_gradient(theta_j, m_in, step_j.inner)  # D_in ~ q(theta)
        path.append((theta_j + alpha * g_in, step_j))
    return path


METHODS: Mapping[str, Method] = {
    "exact": averaged(exact, source="the paper, with (7): reproduced", first=True),
    "first_order": averaged(first_order, source="the paper, first order: reproduced", first=True),
    "fedavg_pg": averaged(fedavg_pg, source="the paper's baseline: reproduced", first=True),
}
