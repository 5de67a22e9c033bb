"""A baseline of the reward-to-go that knows the state, fitted to a batch by ridge regression (docs/theory.md).

The baseline of R^h in state s is b^h + gamma^h w . phi(s): the batch mean at decision h, and what the state's features
tell beyond it,

    w = argmin sum_{xi, h} ( R^h - mean R^h - gamma^h w . (phi(s_h) - mean phi(s_h)) )^2 + RIDGE |w|^2
    b^h = mean R^h - gamma^h w . mean phi(s_h)

with means over the batch. It is scaled with the rewards, so that their unit does not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raypfrl.policies import Vector

RIDGE = 0.1  # from a tenth to ten times of this changes little


def fit(rewards: NDArray[np.float64], features: NDArray[np.float64], discounts: Vector) -> Vector:
    """(b_t, w), shape (H+1+f,), of m trajectories, where b^h = sum_{t>=h} b_t.

    rewards: gamma^h r_h, shape (m, H+1). features: phi(s_h), shape (m, H+1, f). discounts: gamma^h, shape (H+1,).
    """
    R = rewards[:, ::-1].cumsum(axis=1)[:, ::-1]
    R_mean, phi_mean = R.mean(axis=0), features.mean(axis=0)
    X = ((features - phi_mean) * discounts[:, None]).reshape(R.size, -1)
    # einsum and not @: a product by BLAS may depend on the number of its threads
    gram, correlation = np.einsum("ni,nj->ij", X, X), np.einsum("ni,n->i", X, (R - R_mean).reshape(-1))
    w = np.linalg.solve(gram + RIDGE * np.eye(len(gram)), correlation)
    b = R_mean - discounts * (phi_mean @ w)
    return np.concatenate([b - np.append(b[1:], 0.0), w])
