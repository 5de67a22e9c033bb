"""The head of a Gaussian policy: outputs y = (mean, log std) of each number of an action x = mean + std e.

With e = (x - mean) / std, for each number:
d log pi / d mean = e / std     d log pi / d log std = e^2 - 1     de = -d mean / std - e d log std
"""

from __future__ import annotations

import numpy as np

from raypfrl.oracles.fused.approximations import cos, exp, log, sin
from raypfrl.oracles.fused.head import Head, Slots
from raypfrl.oracles.fused.lanes import Lanes, jit

_TWO_PI = 6.28318531


def gaussian(at: Slots, numbers: int, lanes: int) -> Head:
    """The head for one number of action numbers and lanes."""

    @jit
    def pair(u: Lanes, w: Lanes) -> tuple[Lanes, Lanes]:
        """Two normal numbers of two uniform ones (Box and Muller 1958); 1 - u is in (0, 1]."""
        radius, angle = np.sqrt(-2.0 * log(1.0 - u)), w * _TWO_PI
        return radius * cos(angle), radius * sin(angle)

    @jit
    def noise(u: Lanes) -> tuple[Lanes, Lanes, Lanes, Lanes]:
        """Four normal numbers."""
        e0, e1 = pair(u[0], u[1])
        e2, e3 = pair(u[2], u[3])
        return e0, e1, e2, e3

    @jit
    def std(xi: Lanes, h: int, i: int) -> Lanes:
        return xi[h, at.outputs + numbers + i]

    @jit
    def taken(xi: Lanes, h: int, i: int) -> Lanes:
        """mean + std e."""
        return xi[h, at.outputs + i] + std(xi, h, i) * xi[h, at.action + i]

    @jit
    def sample(xi: Lanes, h: int, into: Lanes) -> Lanes:
        """The numbers of x; log std becomes std."""
        for i in range(numbers):
            xi[h, at.outputs + numbers + i] = exp(xi[h, at.outputs + numbers + i])
            into[i] = taken(xi, h, i)
        return into

    @jit
    def score(xi: Lanes, h: int, weight: Lanes) -> None:
        """score = weight d log pi / dy."""
        for i in range(numbers):
            e = xi[h, at.action + i]
            xi[h, at.score + i] = e / std(xi, h, i) * weight
            xi[h, at.score + numbers + i] = (e * e - 1.0) * weight

    @jit
    def slope(xi: Lanes, h: int) -> Lanes:
        """psi_h . v."""
        answer = np.zeros_like(xi[h, at.action])
        for i in range(numbers):
            e, dlog_std = xi[h, at.action + i], xi[h, at.doutputs + numbers + i]
            answer = answer + (e / std(xi, h, i) * xi[h, at.doutputs + i] + (e * e - 1.0) * dlog_std)
        return answer

    @jit
    def score_tangent(xi: Lanes, h: int, weight: Lanes, dweight: Lanes) -> None:
        """score = weight d log pi / dy and dscore = dweight d log pi / dy + weight times its derivative along v."""
        for i in range(numbers):
            e, inverse = xi[h, at.action + i], 1.0 / std(xi, h, i)
            dmean, dlog_std = xi[h, at.doutputs + i], xi[h, at.doutputs + numbers + i]
            de = -(dmean * inverse + e * dlog_std)
            in_mean, in_log_std = e * inverse, e * e - 1.0
            xi[h, at.score + i] = in_mean * weight
            xi[h, at.score + numbers + i] = in_log_std * weight
            xi[h, at.dscore + i] = in_mean * dweight + inverse * (de - e * dlog_std) * weight
            xi[h, at.dscore + numbers + i] = in_log_std * dweight + 2.0 * e * de * weight

    return Head(noise, sample, taken, score, slope, score_tangent)
