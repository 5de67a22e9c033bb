"""SG-MRL (Fallah et al. 2021, debiased MAML for reinforcement learning): the gradient of what nu sampled adaptation
steps are worth, without bias, though each of them is noisy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from raypfrl.methods.method import Method, asks, averaged
from raypfrl.methods.per_fedavg_pg import inner_path
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.settings import Alpha, Batch, InnerBatch, InnerSteps, OuterBatch, Trajectories
from raypfrl.streams import Batches

BaselineBatch = Annotated[Batch, Trajectories(needed=False), Field(description="trajectories of the baseline; 0: none")]


@asks("score_sum", "hessian_vector_product", "mean_rewards")
def sg_mrl(
    oracle: Oracle, theta: Vector, step: Batches, *, alpha: Alpha, m_in: InnerBatch, m_out: OuterBatch,
    m_baseline: BaselineBatch = 0, inner_steps: InnerSteps = 1,
) -> Vector:  # fmt: skip
    """Jac_nu^T g_out + (J_hat - b) sum_j Jac_j^T sum_xi z(xi), the sums over D_j; (d,); Jac_0 = I and Jac_{j+1} =
    (I + alpha hess nu_hat(theta^j; D_j)) Jac_j. nu m_in + m_out + m_baseline trajectories."""
    *before, (adapted, last) = inner_path(oracle, theta, step, alpha, m_in, inner_steps)
    g_out = oracle.policy_gradient(adapted, m_out, last.outer)
    J = oracle.mean_rewards(adapted, m_out, last.outer).sum()
    b = oracle.returns(adapted, m_baseline, last.hessian).return_ if m_baseline else 0.0  # independent of D_in, D_out
    d = g_out
    for theta_j, step_j in reversed(before):  # Horner: Jac_j^T stands before everything that came later
        product = oracle.hessian_vector_product(theta_j, d, m_in, step_j.inner, credit="none")
        d = d + alpha * product + (J - b) * oracle.score_sum(theta_j, m_in, step_j.inner)
    return d


METHODS: Mapping[str, Method] = {
    "sg_mrl": averaged(sg_mrl, source="Fallah et al. 2021, SG-MRL: reproduced; centralised there, which is tau = 1")
}
