"""Assumption 2: bounds on the score of a policy, grad log pi, that hold for every theta."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, runtime_checkable


class Scores(NamedTuple):
    """Assumption 2: ||grad log pi|| <= G, ||hess log pi||_F <= M, hess log pi is Lambda-Lipschitz."""

    G: float
    M: float
    Lambda: float


def log_linear_scores(B: float) -> Scores:
    """Example 1, the paper's: G <= 2B, M <= 4B^2, Lambda <= 8B^3 for features ||phi|| <= B."""
    return Scores(2 * B, 4 * B**2, 8 * B**3)


def tight_scores(diameter: float) -> Scores:
    """The smallest G, M, Lambda for features at most ``diameter`` apart: D, D^2/4, sqrt(3) D^3/18, reached by two arms.

    Exact for scalar features and for one-hot ones, where D = sqrt 2 gives sqrt 2, 1/2, sqrt(6)/9.
    """
    return Scores(diameter, diameter**2 / 4, math.sqrt(3) * diameter**3 / 18)


class ScoreBounds(NamedTuple):
    """The paper's constants of a policy and the smallest ones; None where none are known. caveat: what must be said
    first: where Assumption 2 fails, ``paper`` is None, or that of a smaller problem which the caveat names."""

    paper: Scores | None
    tight: Scores | None
    caveat: str = ""


UNBOUNDED = ScoreBounds(
    None, None, "Assumption 2: no bound on this policy's score is known, so none of the paper's constants exist here.\n"
)


@runtime_checkable
class Scored(Protocol):
    """A policy of whose score something is known."""

    def scores(self) -> ScoreBounds:
        """Its constants."""
