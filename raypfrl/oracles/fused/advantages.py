"""``oracles/advantages.py`` as compiled code, in float64: the regression and what is left of it, from second moments.

The order of every sum is the trajectories' own, and within one from its last decision to its first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raypfrl.oracles.advantages import RIDGE
from raypfrl.oracles.fused.lanes import jit
from raypfrl.oracles.fused.ridge import solve


@jit
def accumulate(columns: Any, end: int, discounts: Any, powers: int, moments: Any) -> float:
    """Add y y^T of a block's decisions to moments (f+2, f+2), where y = (phi(s_h, h), 1, R^h), phi = gamma^h (1, t,
    ..., the state's features) with ``powers`` powers of t = h / (H+1). columns (H+1, 2 + f - powers, lanes): whether
    the decision was taken, gamma^h r_h, the features. Returns the largest |R^h|."""
    known, largest, y = columns.shape[1] - 2, 0.0, np.zeros(len(moments))
    for i in range(columns.shape[2]):
        R = 0.0
        for h in range(end - 1, -1, -1):
            if columns[h, 0, i] > 0.0:
                R += columns[h, 1, i]
                largest = max(largest, abs(R))
                power = np.float64(discounts[h])
                for j in range(powers):
                    y[j] = power
                    power *= h / len(discounts)
                for j in range(known):
                    y[powers + j] = np.float64(discounts[h]) * columns[h, 2 + j, i]
                y[powers + known], y[powers + known + 1] = 1.0, R
                for j in range(len(y)):
                    for k in range(len(y)):
                        moments[j, k] += y[j] * y[k]
    return largest


@jit
def regress(moments: Any, discounts: Any, powers: int, answer: Any) -> None:
    """(B^h, w, mean, c) into answer (H+1 + f - powers + 2,): what a baseline takes off R^h is B^h + gamma^h w . (the
    state's features); ``mean`` and ``c`` are the mean and the standard deviation of what it leaves."""
    f = len(moments) - 2
    count, decisions = moments[f, f], len(discounts)
    system, trace = np.zeros((f, f + 1)), 0.0
    for j in range(f):
        trace += moments[j, j]
    for j in range(f):
        for k in range(f):
            system[j, k] = moments[j, k]
        system[j, j] += RIDGE * trace / f
        system[j, f] = moments[f + 1, j]
    w = solve(system)
    mean, square = moments[f + 1, f], moments[f + 1, f + 1]
    for j in range(f):
        mean -= w[j] * moments[f, j]
        square -= 2.0 * w[j] * moments[f + 1, j]
        for k in range(f):
            square += w[j] * moments[j, k] * w[k]
    mean /= count
    for h in range(decisions):
        answer[h], power = 0.0, np.float64(discounts[h])
        for j in range(powers):
            answer[h] += power * w[j]
            power *= h / decisions
    for j in range(powers, f):
        answer[decisions + j - powers] = w[j]
    answer[decisions + f - powers] = mean
    answer[decisions + f - powers + 1] = np.sqrt(max(square / count - mean * mean, 0.0))
