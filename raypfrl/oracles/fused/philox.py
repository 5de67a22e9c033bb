"""The random numbers of the compiled rollouts: Philox-4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011).

Key: the stream's seed and agent. Counter: (part and draw, trajectory, round, step and purpose). So a trajectory's
numbers depend on its stream and its place in the batch alone, whatever else is in the batch or the block.

Each of a part's ``streams.DRAWS`` draws gives four numbers in [0, 1): draw 0 is for the initial state, draw 1 + h // 4
has the action of decision h as its number h % 4.
"""

from __future__ import annotations

import numpy as np

from raypfrl.oracles.fused.lanes import Lanes, jit, multiply_high


@jit
def philox(c0: Lanes, c1: Lanes, c2: Lanes, c3: Lanes, k0: int, k1: int) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """Ten rounds on a counter of four uint32 Lanes with a key of two words."""
    for _ in range(10):
        high0, low0 = multiply_high(0xD2511F53, c0), c0 * 0xD2511F53
        high1, low1 = multiply_high(0xCD9E8D57, c2), c2 * 0xCD9E8D57
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85  # taken mod 2^32 where they are used
    return c0, c1, c2, c3


@jit
def uniform(word: Lanes) -> Lanes:
    """A multiple of 2^-24 in [0, 1): the upper 24 bits of a word, exact in float32."""
    return (word >> 8).astype(np.float32) * 2.0**-24


@jit
def draw(key: tuple[int, int, int, int, int], index: int, trajectory: Lanes) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """The four numbers of draw ``index`` for each trajectory; ``key`` is the stream's words."""
    seed, agent, round_, step, part = key
    c0 = np.full_like(trajectory, part + index)
    c2, c3 = np.full_like(trajectory, round_), np.full_like(trajectory, step)
    w0, w1, w2, w3 = philox(c0, trajectory, c2, c3, seed, agent)
    return uniform(w0), uniform(w1), uniform(w2), uniform(w3)
