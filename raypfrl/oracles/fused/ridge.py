"""``oracles/baseline.py`` as compiled code, in float64: sums in the trajectories' own order, no library behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

from raypfrl.oracles.baseline import RIDGE
from raypfrl.oracles.fused.lanes import jit


@jit
def fit(columns: Any, m: int, discounts: Any, answer: Any) -> None:
    """(b_t, w) into answer (H+1+f,); columns (H+1, 1 + f, width): gamma^h r_h and phi(s_h) of m trajectories."""
    decisions, features = columns.shape[0], columns.shape[1] - 1
    R, R_mean, phi_mean = np.zeros(m), np.zeros(decisions), np.zeros((decisions, features))
    system, x = np.zeros((features, features + 1)), np.zeros(features)  # (X^T X + RIDGE, X^T y)
    for h in range(decisions - 1, -1, -1):
        for i in range(m):
            R[i] += columns[h, 0, i]
            R_mean[h] += R[i] / m
            for j in range(features):
                phi_mean[h, j] += columns[h, 1 + j, i] / m
        for i in range(m):
            for j in range(features):
                x[j] = discounts[h] * (columns[h, 1 + j, i] - phi_mean[h, j])
            for j in range(features):
                for k in range(features):
                    system[j, k] += x[j] * x[k]
                system[j, features] += x[j] * (R[i] - R_mean[h])
    for j in range(features):
        system[j, j] += RIDGE
    w = solve(system)
    for h in range(decisions):
        b = R_mean[h]
        for j in range(features):
            b -= discounts[h] * phi_mean[h, j] * w[j]
        answer[h] = b
        if h > 0:
            answer[h - 1] -= b
    answer[decisions:] = w


@jit
def solve(system: Any) -> Any:
    """w of A w = c. ``system`` is (A, c), and is overwritten; A is positive definite, so it needs no pivots."""
    size = system.shape[0]
    for j in range(size):
        for row in range(j + 1, size):
            factor = system[row, j] / system[j, j]
            for k in range(j, size + 1):
                system[row, k] -= factor * system[j, k]
    w = np.zeros(size)
    for j in range(size - 1, -1, -1):
        w[j] = system[j, size]
        for k in range(j + 1, size):
            w[j] -= system[j, k] * w[k]
        w[j] /= system[j, j]
    return w
