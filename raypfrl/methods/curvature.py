"""Estimators of the curvature term H_hat v of (7), and its clipping (docs/theory.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from raypfrl.oracles.oracle import Oracle
from raypfrl.policies import Vector
from raypfrl.settings import did_you_mean, real
from raypfrl.streams import Batches


def paper(oracle: Oracle, theta: Vector, v: Vector, m_in: int, m_h: int, step: Batches) -> Vector:
    """(3): the mean of u(xi) v = g (z . v) + sum_h R^h Psi_h v over D_h."""
    return oracle.hessian_vector_product(theta, v, m_h, step.hessian)


def causal(oracle: Oracle, theta: Vector, v: Vector, m_in: int, m_h: int, step: Batches) -> Vector:
    """The mean of u_c(xi) v over D_h: a reward is credited only to decisions up to its own."""
    return oracle.hessian_vector_product(theta, v, m_h, step.hessian, credit="causal")


def causal_baseline(oracle: Oracle, theta: Vector, v: Vector, m_in: int, m_h: int, step: Batches) -> Vector:
    """u_c with b_t = the mean of gamma^t r_t over D_in, which is independent of D_h and costs no new sample."""
    b = oracle.mean_rewards(theta, m_in, step.inner)
    return oracle.hessian_vector_product(theta, v, m_h, step.hessian, credit="causal", baseline=b)


def causal_value(oracle: Oracle, theta: Vector, v: Vector, m_in: int, m_h: int, step: Batches) -> Vector:
    """u_c with a baseline that knows the state, fitted to D_in: what the decisions so far led one to expect."""
    b_w = oracle.value_baseline(theta, m_in, step.inner)
    return oracle.hessian_vector_product(theta, v, m_h, step.hessian, credit="causal", baseline=b_w)


ESTIMATORS: Mapping[str, Callable[[Oracle, Vector, Vector, int, int, Batches], Vector]] = {
    "paper": paper,
    "causal": causal,
    "causal_baseline": causal_baseline,
    "causal_value": causal_value,
}


def _known(name: str) -> str:
    if name not in ESTIMATORS:
        raise ValueError(did_you_mean("estimator", name, ESTIMATORS))
    return name


def _off(value: Any) -> Any:
    """Whatever is written for infinity is no clipping."""
    return None if str(value).strip().lstrip("+.") == "inf" else value


Curvature = Annotated[str, AfterValidator(_known), Field(description="the estimator of the curvature term H_hat v")]
CurvatureClip = Annotated[
    Annotated[float, BeforeValidator(real), Field(ge=0, allow_inf_nan=False)] | None,
    BeforeValidator(_off),
    Field(description="c: scale the curvature term back to c times the outer gradient's norm; left out: off"),
]


# By how much an estimator's baseline can enlarge R_max in the bound L_J of Lemma 1(iii): |gamma^t r_t - b_t| is at most
# 2 gamma^t R_max where b_t is a mean of gamma^t r_t. What is not here has no bound.
ENLARGED: Mapping[str, float] = {"paper": 1.0, "causal": 1.0, "causal_baseline": 2.0}


def curvature_term(
    oracle: Oracle, theta: Vector, v: Vector, m_in: int, m_h: int, step: Batches, curvature: str
) -> Vector:
    """H_hat v by the named estimator, shape (d,)."""
    return ESTIMATORS[curvature](oracle, theta, v, m_in, m_h, step)


def clipped(term: Vector, g_out: Vector, c: float | None) -> Vector:
    """min(1, c ||g_out|| / ||term||) term: the curvature term scaled back to c times the outer gradient's norm. None
    and inf leave it as it is, to the byte."""
    if c is None or c == math.inf:
        return term
    bound, norm = c * _norm(g_out), _norm(term)
    return term if norm <= bound else term * (bound / norm)


def _norm(x: Vector) -> float:
    """||x||; by the exact sum, since BLAS adds in an order of the CPU's own."""
    return math.sqrt(math.fsum(x * x))
