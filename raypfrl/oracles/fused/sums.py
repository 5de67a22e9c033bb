"""Sums over a batch in the trajectories' own order, for any number of lanes.

``work`` begins with 16 running sums of every number of the answer, then holds the block's share of it, ``gradient``,
one trajectory a lane. At the block's end trajectory i is added to running sum i % 16; the running sums are added up
last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from raypfrl.oracles.fused.lanes import Lanes, jit, records

SUMS = 16  # running sums; changing it changes results in the last bits


class Sums(NamedTuple):
    """The compiled functions."""

    clear: Callable[..., None]
    fold: Callable[..., None]
    mean: Callable[..., None]


def make_sums(lanes: int) -> Sums:
    """The functions for a number of lanes that divides 16 or is divided by it."""
    piece = min(lanes, SUMS)
    pieces, columns = lanes // piece, SUMS // piece

    @jit
    def clear(work: Lanes, answers: int) -> None:
        """All running sums of ``answers`` numbers to 0."""
        for k in range(answers * SUMS):
            work[k] = 0.0

    @jit
    def fold(work: Lanes, answers: int, first: int) -> None:
        """sums[k, i % 16] += gradient[k] of trajectory i."""
        sums = records(work, 0, columns, piece)
        gradient = records(work, answers * SUMS, pieces, piece)
        for part in range(pieces):
            column = (first // piece + part) % columns
            for k in range(answers):
                sums[k, column] = sums[k, column] + gradient[k, part]

    @jit
    def mean(work: Lanes, m: int, answer: Lanes) -> None:
        """answer[k] = (1/m) (sums[k, 0] + sums[k, 1] + ...), in float64."""
        for k in range(answer.size):
            total = 0.0
            for i in range(SUMS):
                total += work[k * SUMS + i]
            answer[k] = total / m

    return Sums(clear, fold, mean)
