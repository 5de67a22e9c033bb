"""What weighs the score of a decision in the policy gradient, by an ``Estimator`` (docs/environments.md).

    g = 1/(c D) sum_{xi, h} psi_h A^h,    A^h = R^h - gamma^h w . phi(s_h, h)

D is the number of trajectories, or, averaged, of decisions; c is 1, or, normalised, the standard deviation of the
batch's A^h, from which their mean is then taken off. The paper's choice is A = R, c = 1, D = m. With an entropy bonus e
the objective is that of maximum-entropy learning (Ziebart 2010),

    J_e(theta) = E sum_h gamma^h (r_h + e H(pi(.|s_h; theta)))
    R^h = sum_{t>=h} gamma^t (r_t - e log pi(a_t|s_t; theta))

What a baseline takes off has mean 0, but for what it owes to being fitted to the batch itself, of the order 1/m. So g
estimates grad J in another unit, m / (c D) times, and the Hessian product that goes with it is the unbiased one in that
unit. How the unit and the baseline's features move with theta is not differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from raypfrl.oracles.episodes import Episodes
from raypfrl.policies import Vector
from raypfrl.populations.population import Estimator

RIDGE = 1e-8  # of the mean square of a feature: keeps the regression solvable where features depend on each other

SAME = 1e-6  # of the largest return


class Advantages(NamedTuple):
    """A^h (N,), normalised where asked for, and the unit, m / (c D). left: what the baseline and the mean leave of any
    numbers (N,) in the place of R^h, which is linear in them."""

    A: Vector
    unit: float
    left: Callable[[Vector], Vector]


def advantages(
    batch: Episodes, R: Vector, discounts: Vector, estimator: Estimator, state_features: Callable[[], Vector]
) -> Advantages:
    """The batch's A^h and their unit. R: R^h (N,). state_features: what gives phi(s_h), (N, f), where the baseline
    needs it."""
    left = _left(batch, discounts, estimator, state_features)
    A = left(R)
    unit = len(batch.lengths) / len(A) if estimator.average else 1.0
    if estimator.normalise:
        c = float(A.std())
        alike = c <= SAME * np.abs(R).max()  # nothing is left but rounding: it tells no action from another
        unit = 0.0 if alike else unit / c
    return Advantages(A, unit, left)


def _left(
    batch: Episodes, discounts: Vector, estimator: Estimator, state_features: Callable[[], Vector]
) -> Callable[[Vector], Vector]:
    def centred(x: Vector) -> Vector:
        return x - x.mean() if estimator.normalise else x

    if estimator.baseline == "none":
        return centred
    import torch  # heavy, and the fused oracle needs the constants alone

    # in torch, which has one thread here: on more, a product may round otherwise
    phi = torch.from_numpy(_features(batch, len(discounts), estimator, state_features) * discounts[batch.columns, None])
    gram = phi.T @ phi
    gram += RIDGE * gram.trace() / len(gram) * torch.eye(len(gram), dtype=gram.dtype)

    def left(x: Vector) -> Vector:
        w = torch.linalg.solve(gram, phi.T @ torch.from_numpy(x))
        return centred(x - (phi @ w).numpy())

    return left


def _features(batch: Episodes, decisions: int, estimator: Estimator, state_features: Callable[[], Vector]) -> Vector:
    """1, t, t^2, t^3 with t = h / (H + 1), and what the baseline knows beside, (N, f)."""
    t = batch.columns / decisions
    columns = [t**power for power in range(4)]
    if estimator.baseline == "linear":
        o = batch.observations.reshape(len(t), -1).astype(np.float64)
        columns += [*o.T, *(o**2).T]
    if estimator.baseline == "value":
        columns += [*state_features().T]
    return np.stack(columns, axis=1)
