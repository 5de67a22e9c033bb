"""tanh, exp, sin, cos and log on Lanes, accurate to float32 (the measured errors: tests/fused/test_numbers.py).

A call of the C library would go lane by lane, and its last bits differ between machines. A task's functions call these
as ``np.tanh``, ``np.exp``, ``np.sin`` and ``np.cos``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from raypfrl.oracles.fused.lanes import Lanes, LanesType, jit, mantissa_and_exponent, power_of_two

# tanh(x) = x P(x^2) / Q(x^2) on |x| <= 8, a minimax fit of relative error 6e-9; beyond, tanh is 1 up to 2e-7
_P = (0.999999994, 0.134445143, 3.57161752e-3, 2.18949868e-5, 1.52308796e-8)
_Q = (1.0, 0.467778417, 2.61645169e-2, 3.41132405e-4, 8.52263292e-7)

_LOG2_E = 1.44269504
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4  # their sum is ln 2, and n x _LN2_HIGH is exact
_ROUND = 12582912.0  # 1.5 x 2^23: adding and subtracting it rounds to an integer
_LEAST, _GREATEST = -80.0, 88.0
# exp(r) = 1 + r + r^2 E(r) on |r| <= ln(2) / 2 (Cephes, expf)
_E = (0.50000001201, 0.16666665459, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)

# sin(r) = r + r^3 S(r^2), cos(r) = 1 - r^2 / 2 + r^4 C(r^2) on |r| <= pi / 4 (Cephes, sinf and cosf)
_S = (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)
_C = (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5)
_TWO_OVER_PI = 0.636619772
_HALF_PI = (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8)  # n x the first two is exact for n < 2^13
_FARTHEST = 8192.0

# log(1 + f) = f - f^2 / 2 + f^3 L(f) on sqrt(1/2) <= 1 + f <= sqrt(2) (Cephes, logf)
_L = (
    3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1, -1.6668057665e-1, 1.4249322787e-1, -1.2420140846e-1,
    1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2,
)  # fmt: skip


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


@jit
def _quarter_turns(x: Lanes) -> tuple[Lanes, Lanes]:
    """(n, r): x = n pi / 2 + r with |r| <= pi / 4 and a whole n; r = nan for |x| > 8192."""
    x = np.where(np.abs(x) <= _FARTHEST, x, np.nan)
    n = (x * _TWO_OVER_PI + _ROUND) - _ROUND
    return n, x - n * _HALF_PI[0] - n * _HALF_PI[1] - n * _HALF_PI[2]


@jit
def _sine(n: Lanes, r: Lanes) -> Lanes:
    """sin(n pi / 2 + r)."""
    t = r * r
    sin = ((t * _S[2] + _S[1]) * t + _S[0]) * (t * r) + r
    cos = ((t * _C[2] + _C[1]) * t + _C[0]) * (t * t) - 0.5 * t + 1.0
    n = n - 4.0 * ((n * 0.25 + _ROUND) - _ROUND)  # -2 or 2, -1, 0, 1
    value = np.where(np.abs(n) == 1.0, cos, sin)
    return np.where(n == 1.0, value, np.where(n == 0.0, value, -value))


@jit
def sin(x: Lanes) -> Lanes:
    """sin(x) for |x| <= 8192; nan beyond, where float32 angles lose their meaning, and for nan."""
    n, r = _quarter_turns(x)
    return _sine(n, r)


@jit
def cos(x: Lanes) -> Lanes:
    """cos(x), as sin."""
    n, r = _quarter_turns(x)
    return _sine(n + 1.0, r)


@jit
def log(x: Lanes) -> Lanes:
    """The natural logarithm of x > 0 that is neither denormal nor inf."""
    a, n = mantissa_and_exponent(x)
    large = a > 1.41421356
    f = np.where(large, 0.5 * a, a) - 1.0
    n = np.where(large, n + 1.0, n)
    t = f * f
    polynomial = ((((f * _L[8] + _L[7]) * f + _L[6]) * f + _L[5]) * f + _L[4]) * f + _L[3]
    polynomial = ((polynomial * f + _L[2]) * f + _L[1]) * f + _L[0]
    return (polynomial * (f * t) + n * _LN2_LOW - 0.5 * t + f) + n * _LN2_HIGH


def _numpys(function: Callable[..., Any], ours: Callable[[Lanes], Lanes]) -> None:
    """NumPy's function of Lanes is ours."""

    def of_lanes(x: Any) -> Any:
        return (lambda x: ours(x)) if isinstance(x, LanesType) else None

    overload(function, jit_options={"forceinline": True}, strict=False)(of_lanes)


for _function, _ours in ((np.tanh, tanh), (np.exp, exp), (np.sin, sin), (np.cos, cos)):
    _numpys(_function, _ours)
