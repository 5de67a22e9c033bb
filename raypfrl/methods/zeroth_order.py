"""Zeroth-order directions: from returns alone, where there is no gradient to ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from raypfrl.methods.method import Method, averaged
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.settings import InnerBatch, Real, Whole
from raypfrl.streams import Batches

Radius = Annotated[Real, Field(gt=0, description="r: how far from theta returns are compared")]
Pairs = Annotated[Whole, Field(ge=1, le=100_000, description="pairs of opposite directions that are averaged")]


def zeroth_order(
    oracle: Oracle, theta: Vector, step: Batches, *, m_in: InnerBatch, radius: Radius = 0.1, pairs: Pairs = 1
) -> Vector:
    """The mean over pairs of (d / 2r) [J_hat(theta + r U) - J_hat(theta - r U)] U, U uniform on the unit sphere; (d,);
    2 pairs m_in trajectories. Its mean is the gradient of J averaged over the ball of radius r."""
    total = np.zeros_like(theta)
    for j in range(pairs):
        batches = step.numbered(j)
        U = batches.perturbation.generator().standard_normal(theta.size)
        U /= np.sqrt((U * U).sum())
        up = oracle.returns(theta + radius * U, m_in, batches.inner).return_
        down = oracle.returns(theta - radius * U, m_in, batches.outer).return_
        total = total + theta.size / (2 * radius) * (up - down) * U
    return total / pairs


METHODS: Mapping[str, Method] = {
    "zeroth_order": averaged(zeroth_order, source="two-point estimator (Nesterov and Spokoiny 2017): reproduced")
}
