"""tanh and exp on Lanes, accurate to float32 (the measured errors are asserted in tests/fused/test_approximations.py).

A call of the C library would go lane by lane, and its last bits differ between machines.
"""

from __future__ import annotations

import numpy as np

from raypfrl.oracles.fused.lanes import Lanes, jit, power_of_two

# tanh(x) = x P(x^2) / Q(x^2) on |x| <= 8, a minimax fit of relative error 6e-9; beyond, tanh is 1 up to 2e-7
_P = (0.999999994, 0.134445143, 3.57161752e-3, 2.18949868e-5, 1.52308796e-8)
_Q = (1.0, 0.467778417, 2.61645169e-2, 3.41132405e-4, 8.52263292e-7)

_LOG2_E = 1.44269504
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4  # their sum is ln 2, and n x _LN2_HIGH is exact
_ROUND = 12582912.0  # 1.5 x 2^23: adding and subtracting it rounds to an integer
_LEAST, _GREATEST = -80.0, 88.0
# exp(r) = 1 + r + r^2 E(r) on |r| <= ln(2) / 2 (Cephes, expf)
_E = (0.50000001201, 0.16666665459, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)


@jit
def tanh(x: Lanes) -> Lanes:
    """tanh(x), at most 1 in size; nan stays nan."""
    x = np.minimum(np.maximum(x, -8.0), 8.0)
    t = x * x
    numerator = (((t * _P[4] + _P[3]) * t + _P[2]) * t + _P[1]) * t + _P[0]
    denominator = (((t * _Q[4] + _Q[3]) * t + _Q[2]) * t + _Q[1]) * t + _Q[0]
    return x * numerator / denominator


@jit
def exp(x: Lanes) -> Lanes:
    """e^x for x in [-80, 88], and the value at the nearer end outside: neither 0 nor inf, nor a number so small that
    products with it become denormal and slow. nan stays nan."""
    x = np.minimum(np.maximum(x, _LEAST), _GREATEST)
    n = (x * _LOG2_E + _ROUND) - _ROUND
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    polynomial = ((((r * _E[5] + _E[4]) * r + _E[3]) * r + _E[2]) * r + _E[1]) * r + _E[0]
    return (polynomial * (r * r) + r + 1.0) * power_of_two(n.astype(np.int32))
