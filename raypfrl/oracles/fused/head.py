"""What a distribution over actions brings to the compiled estimators: the way from a network's outputs y to an action,
and what (2) and (3) need of log pi as a function of y."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from raypfrl.oracles.fused.lanes import Lanes


class Slots(NamedTuple):
    """Where a decision's record xi[h, .] keeps what; the policy's own slots come last."""

    live: int  # 1 where the decision is taken, 0 after an episode's end and in lanes without a trajectory
    reward: int  # gamma^h r_h
    success: int  # 1 in the goal region; nan where there is none
    slope: int  # psi_h . v
    slopes: int  # z_{0:h} . v
    action: int  # first the noise that picks it
    observation: int
    outputs: int  # y; after sample() what the head makes of it
    doutputs: int  # along the tangent v; after slope() what the head makes of it
    score: int
    dscore: int
    own: int


def slots(inputs: int, numbers: int, outputs: int) -> Slots:
    """The layout for observations of ``inputs`` numbers, actions of ``numbers`` and as many outputs."""
    y = 5 + numbers + inputs
    return Slots(0, 1, 2, 3, 4, 5, 5 + numbers, y, *(y + part * outputs for part in (1, 2, 3, 4)))


class Head(NamedTuple):
    """The compiled functions of a distribution.

    noise(u): the four numbers that pick four actions' numbers, of four uniform ones
    sample(xi, h, into): the action a_h that the noise in its slots picks, for the task; ``into`` is room for it
    taken(xi, h, i): number i of a_h; after sample
    score(xi, h, weight): score = weight d log pi / dy
    slope(xi, h): psi_h . v, the derivative of log pi(a_h|s_h) along v, from doutputs
    score_tangent(xi, h, weight, dweight): score, and dscore, its derivative along v where that of weight is dweight;
        after slope
    """

    noise: Callable[..., tuple[Lanes, Lanes, Lanes, Lanes]]
    sample: Callable[..., Lanes]
    taken: Callable[..., Lanes]
    score: Callable[..., None]
    slope: Callable[..., Lanes]
    score_tangent: Callable[..., None]
