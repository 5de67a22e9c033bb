"""Philox against its published test vectors; tanh and exp over all of float32, sin, cos and log where they are used."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from raypfrl.oracles.fused.approximations import cos, exp, log, sin, tanh
from raypfrl.oracles.fused.lanes import counting, records
from raypfrl.oracles.fused.philox import draw, philox


@numba.njit
def philox_of(words: NDArray[np.uint32], answer: NDArray[np.float32]) -> None:
    """Ten rounds for counter words[:4] and key words[4:], as upper and lower halves (exact in float32)."""
    one = counting(0, 16) ^ counting(0, 16)
    rows = records(answer, 0, 0, 16)
    c0, c1, c2, c3 = np.full_like(one, words[0]), one ^ words[1], one ^ words[2], one ^ words[3]
    w0, w1, w2, w3 = philox(c0, c1, c2, c3, words[4], words[5])
    rows[0], rows[1] = (w0 >> 16).astype(np.float32), (w0 & 0xFFFF).astype(np.float32)
    rows[2], rows[3] = (w1 >> 16).astype(np.float32), (w1 & 0xFFFF).astype(np.float32)
    rows[4], rows[5] = (w2 >> 16).astype(np.float32), (w2 & 0xFFFF).astype(np.float32)
    rows[6], rows[7] = (w3 >> 16).astype(np.float32), (w3 & 0xFFFF).astype(np.float32)


# Random123, kat_vectors: philox4x32 10
@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_has_the_published_answers(counter: str, key: str, answer: str) -> None:
    words = np.array([int(word, 16) for word in f"{counter} {key}".split()], np.uint32)
    halves = np.zeros((8, 16), np.float32)
    philox_of(words, halves.reshape(-1))
    upper, lower = halves.reshape(4, 2, 16).astype(np.uint64).transpose(1, 0, 2)
    for word, expected in zip(upper << 16 | lower, answer.split(), strict=True):
        assert (word == int(expected, 16)).all()


@numba.njit
def draws(m: int, answer: NDArray[np.float32]) -> None:
    """Draws 0 and 1 of m trajectories."""
    rows = records(answer, 0, 8, 16)
    for block in range(m // 16):
        trajectory = counting(block * 16, 16)
        for index in range(2):
            u = draw((1, 2, 3, 4, 0), index, trajectory)
            for word in range(4):
                rows[block, 4 * index + word] = u[word]


def test_uniform_numbers_are_24_bits_in_0_1_and_uncorrelated() -> None:
    m = 2**16
    answer = np.empty(8 * m, np.float32)
    draws(m, answer)
    u = answer.reshape(m // 16, 8, 16).transpose(1, 0, 2).reshape(8, m).astype(np.float64)
    assert u.min() >= 0
    assert u.max() < 1
    assert (u * 2**24 % 1 == 0).all()
    # uniform on 256 bins: sum of (n - m/256)^2 / (m/256) is chi-square with 255 degrees, mean 255, s.d. 22.6
    for row in u:
        counts = np.bincount((row * 256).astype(int), minlength=256)
        assert abs(((counts - m / 256) ** 2 / (m / 256)).sum() - 255) < 4.5 * 22.6
    correlation = np.corrcoef(np.concatenate([u, np.roll(u, 1, axis=1)]))  # s.d. 1/sqrt(m) each
    assert np.abs(correlation - np.eye(16)).max() < 4.5 / np.sqrt(m)


@numba.njit
def tanh_of(x: NDArray[np.float32], answer: NDArray[np.float32]) -> None:
    """tanh of an array whose length is a multiple of 16."""
    X, Y = records(x, 0, 0, 16), records(answer, 0, 0, 16)
    for i in range(x.size // 16):
        Y[i] = tanh(X[i])


@numba.njit
def exp_of(x: NDArray[np.float32], answer: NDArray[np.float32]) -> None:
    """exp of an array whose length is a multiple of 16."""
    X, Y = records(x, 0, 0, 16), records(answer, 0, 0, 16)
    for i in range(x.size // 16):
        Y[i] = exp(X[i])


def errors(bits: NDArray[np.uint32]) -> tuple[float, float]:
    """The largest relative errors of tanh and exp on the finite float32 numbers with these bits; what must hold
    everywhere is asserted."""
    x = bits.view(np.float32)
    x = x[np.isfinite(x)]
    x = x[: len(x) // 16 * 16]
    if not len(x):
        return 0.0, 0.0
    answer = np.empty_like(x)
    tanh_of(x, answer)
    truth = np.tanh(x.astype(np.float64))
    assert np.abs(answer).max() <= 1
    assert (np.signbit(answer) == np.signbit(x)).all()
    tiny = np.abs(truth) < 2**-126  # denormal: right to the last bit, but what that is relative to
    assert np.abs(answer[tiny] - truth[tiny]).max(initial=0.0) <= 2**-149
    tanh_error = np.abs(answer[~tiny] / truth[~tiny] - 1).max(initial=0.0)
    exp_of(x, answer)
    exp_error = np.abs(answer / np.exp(np.clip(x.astype(np.float64), -80, 88)) - 1).max()
    return float(tanh_error), float(exp_error)


TANH_ERROR, EXP_ERROR = 3.51e-7, 8.3e-8  # measured over all float32 numbers


def test_tanh_and_exp_are_accurate_over_all_of_float32() -> None:
    """Every 1021st float32 number: 8000 of each power of two, of either sign."""
    tanh_error, exp_error = errors(np.arange(0, 2**32, 1021, np.uint32))
    assert 1e-7 < tanh_error <= TANH_ERROR
    assert 1e-8 < exp_error <= EXP_ERROR


@pytest.mark.slow
@pytest.mark.timeout(1800)  # two minutes of computing
def test_tanh_and_exp_on_every_float32_number() -> None:
    worst = np.max([errors(np.arange(at, at + 2**24, dtype=np.uint32)) for at in range(0, 2**32, 2**24)], axis=0)
    assert worst[0] <= TANH_ERROR
    assert worst[1] <= EXP_ERROR


def test_tanh_and_exp_of_nan_and_infinities() -> None:
    x = np.tile(np.array([np.nan, np.inf, -np.inf, 0.0], np.float32), 4)
    answer = np.empty_like(x)
    tanh_of(x, answer)
    np.testing.assert_allclose(answer[:4], [np.nan, 1.0, -1.0, 0.0], rtol=TANH_ERROR)
    exp_of(x, answer)
    np.testing.assert_allclose(answer[:4], [np.nan, np.exp(88), np.exp(-80), 1.0], rtol=1e-6)


@numba.njit
def sin_cos_of(x: NDArray[np.float32], sines: NDArray[np.float32], cosines: NDArray[np.float32]) -> None:
    """sin and cos of an array whose length is a multiple of 16."""
    X, S, C = records(x, 0, 0, 16), records(sines, 0, 0, 16), records(cosines, 0, 0, 16)
    for i in range(x.size // 16):
        S[i], C[i] = sin(X[i]), cos(X[i])


@numba.njit
def log_of(x: NDArray[np.float32], answer: NDArray[np.float32]) -> None:
    """log of an array whose length is a multiple of 16."""
    X, Y = records(x, 0, 0, 16), records(answer, 0, 0, 16)
    for i in range(x.size // 16):
        Y[i] = log(X[i])


@pytest.mark.parametrize("largest", [1.0, 4.0, 100.0, 8192.0])
def test_sin_and_cos_are_accurate_to_a_float32_of_size_1(largest: float) -> None:
    x = np.random.default_rng(0).uniform(-largest, largest, 2**18).astype(np.float32)
    x[:4] = 0.0, largest, -largest, np.float32(np.pi)
    sines, cosines = np.empty((2, len(x)), np.float32)
    sin_cos_of(x, sines, cosines)
    exact = x.astype(np.float64)
    error = max(np.abs(sines - np.sin(exact)).max(), np.abs(cosines - np.cos(exact)).max())
    assert 1e-8 < error <= 8e-8  # half a unit in the last place of 1 is 6e-8
    assert np.abs(np.abs([sines, cosines]).max() - 1) <= 6e-8
    small = np.abs(exact) < 1
    assert np.abs(sines[small] / np.where(exact == 0, 1, np.sin(exact))[small] - 1)[exact[small] != 0].max() <= 1.2e-7


def test_sin_and_cos_beyond_their_range_are_no_numbers() -> None:
    x = np.tile(np.array([np.nan, np.inf, -np.inf, 8193.0, -1e30, 1e38, 8192.0, -8192.0], np.float32), 2)
    for answer in np.empty((2, 2, 16), np.float32):
        sin_cos_of(x, *answer)
        assert np.isnan(answer[:, :6]).all()
        assert np.isfinite(answer[:, 6:8]).all()


def test_log_of_every_number_that_is_drawn() -> None:
    """1 - u, for each of the 2^24 uniform numbers."""
    x = (np.arange(1, 2**24 + 1) / 2**24).astype(np.float32)
    answer = np.empty_like(x)
    log_of(x, answer)
    exact = np.log(x[:-1].astype(np.float64))
    assert answer[-1] == 0
    assert 1e-8 < np.abs(answer[:-1] / exact - 1).max() <= 8.1e-8
