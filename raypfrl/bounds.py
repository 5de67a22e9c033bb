"""What the paper's lemmas bound in a run: the estimates of a direction, and the direction itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from raypfrl.methods import Direction
from raypfrl.methods.curvature import ENLARGED
from raypfrl.methods.per_fedavg_pg import exact, fedavg_pg, first_order
from raypfrl.populations import Population
from raypfrl.settings import settings_of
from raypfrl.theory import Problem
from raypfrl.theory_report import reading

COVERED = (exact, first_order, fedavg_pg)  # the directions that Lemma 3(i) bounds


class Bounds(NamedTuple):
    """Lemma 1: ||g|| <= G_J and ||u|| <= L_J, the estimator's own; Lemma 3(i): ||d|| <= G_F. inf: no bound is known."""

    G_J: float = np.inf
    L_J: float = np.inf
    G_F: float = np.inf


def bounds(population: Population, direction: Direction | None, settings: Mapping[str, Any]) -> Bounds:
    """The bounds of a run, by the tight constants where there are such, else by the paper's. None are known for a
    policy whose score has no bound, for gamma = 1, and for directions and estimators that the lemmas do not cover."""
    if population.gamma == 1:
        return Bounds()
    read = reading(population)
    problem: Problem | None = read.tight or read.paper
    if problem is None or read.caveat:
        return Bounds()
    L_J = problem.L_J * ENLARGED.get(settings.get("curvature", "paper"), np.inf)
    if direction not in COVERED:
        return Bounds(problem.G_J, L_J)
    adapts = "alpha" in settings_of(direction) and settings["alpha"] > 0  # else alpha is evaluation's alone
    factor = (1 + settings["alpha"] * L_J) ** settings.get("inner_steps", 1) if adapts else 1.0
    return Bounds(problem.G_J, L_J, factor * problem.G_J)
