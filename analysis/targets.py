"""Every number that the paper states about its experiments, and where ours is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.figures.curvature_bottleneck import COLLAPSED, TRAINED, returns_by_m_h
from analysis.figures.few_shot import from_scratch, one_step
from analysis.frames import by_seed, scores

PAPER_SEEDS = 10
REFERENCE = 1.73  # the paper's FedAvg-PG level on navigation
Find = Callable[[pd.DataFrame], pd.Series]  # a sweep's evaluations -> our scores, one a seed


@dataclass(frozen=True)
class Number:
    """A mean or median over seeds, or a quantity without noise. ``half``: half a unit of the paper's last digit."""

    quantity: str
    paper: str
    value: float
    half: float
    find: Find
    kind: Literal["mean", "median", "noiseless"] = "mean"


@dataclass(frozen=True)
class Count:
    """``count`` of the paper's ten seeds lie on one side of a threshold (``at_least`` or ``at_most``)."""

    quantity: str
    count: int
    find: Find
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class Order:
    """The paper says that the scores' median, a difference within each seed, is negative."""

    quantity: str
    paper: str
    find: Find


Target = Number | Count | Order


def _last(method: str, phase: str = "after", column: str = "return", **where: Any) -> Find:
    return lambda frame: scores(frame, column, method=method, phase=phase, split="train", **where)


def _exact_minus_first_order(frame: pd.DataFrame) -> pd.Series:
    return _last("exact")(frame) - _last("first_order")(frame)


def _at_m_h(m_h: int) -> Find:
    return _last("exact", m_h=m_h)


def _best_small_batch(frame: pd.DataFrame) -> pd.Series:
    table = pd.DataFrame({m: found for m, found in returns_by_m_h(frame).items() if m <= 200})
    return table.dropna().max(axis=1)


def _at_trajectories(method: str, trajectories: int) -> Find:
    """Interpolated, seed by seed, between the evaluations around that many trajectories an agent."""

    def find(frame: pd.DataFrame) -> pd.Series:
        table = by_seed(frame, "trajectories", method=method, phase="after", split="train")
        return table.apply(lambda row: float(np.interp(trajectories, table.columns, row)), axis=1)

    return find


def _step(m_adapt: int, column: str = "return") -> Find:
    return lambda frame: one_step(frame, column)[m_adapt] * (100 if column == "success" else 1)


def _scratch(budget: int, column: str = "return") -> Find:
    return lambda frame: from_scratch(frame, column)[budget] * (100 if column == "success" else 1)


def _budget_to_match(frame: pd.DataFrame) -> pd.Series:
    """The first budget at which a seed's own from-scratch return reaches the mean zero-shot return (inf: never)."""
    scratch, goal = from_scratch(frame, "return"), one_step(frame, "return")[0].mean()
    reached = scratch >= goal
    return reached.idxmax(axis=1).astype(float).where(reached.any(axis=1), 2.0 * scratch.columns.max())


def _of(frame: pd.DataFrame, method: str, column: str, **where: Any) -> pd.Series:
    return scores(frame, column, method=method, **where)


NAMES = {"exact": "exact", "first_order": "first order", "fedavg_pg": "FedAvg-PG"}


def _three(what: str, values: tuple[str, str, str], **where: Any) -> tuple[Number, ...]:
    return tuple(
        Number(f"{what}, {name}", value, float(value), 0.005, _last(method, **where))
        for (method, name), value in zip(NAMES.items(), values, strict=True)
    )


def _curvature(batches: tuple[int, ...]) -> tuple[Target, ...]:
    medians = {10: "about 0.2", 50: "about 0.2", 100: "about 0.2", 200: "about 0.2", 500: "0.39", 1000: "1.51"}
    return tuple(
        Number(
            f"median return, m_h = {m}", medians[m], float(medians[m].split()[-1]), 0.05 if m <= 200 else 0.005,
            _at_m_h(m), "median",
        )
        for m in batches
    )  # fmt: skip


_SPLIT = (
    Count("seeds that train (≥ 1.5), m_h = 1000", 6, _at_m_h(1000), at_least=TRAINED),
    Count("seeds that match FedAvg-PG (≥ 1.73), m_h = 1000", 3, _at_m_h(1000), at_least=REFERENCE),
    Count("seeds that stay collapsed (≤ 0.95), m_h = 1000", 4, _at_m_h(1000), at_most=COLLAPSED),
)

_FEW_SHOT = (
    Number("zero-shot return", "1.53", 1.53, 0.005, _step(0)),
    Number("zero-shot success, %", "75", 75, 0.5, _step(0, "success")),
    Number(
        "untrained policy's return",
        "0.27",
        0.27,
        0.005,
        lambda f: _of(f, "independent", "return", split="held_out", m_adapt="0", round=0),
    ),
    Order(
        "20-trajectory step minus zero-shot",
        "worse",
        lambda f: one_step(f, "return")[20] - one_step(f, "return")[0],
    ),
    Number("return after a 100-trajectory step", "1.52", 1.52, 0.005, _step(100)),
    Number("success after a 100-trajectory step, %", "80", 80, 0.5, _step(100, "success")),
    Number("return after a 200-trajectory step", "1.94", 1.94, 0.005, _step(200)),
    Number("success after a 200-trajectory step, %", "86", 86, 0.5, _step(200, "success")),
    Number("from scratch: return at 100 trajectories", "0.25", 0.25, 0.005, _scratch(100)),
    Number("from scratch: success at 100 trajectories, %", "18", 18, 0.5, _scratch(100, "success")),
    Number("from scratch: success at 20 (the paper's lowest), %", "15", 15, 0.5, _scratch(20, "success")),
    Number("from scratch: success at 500 (the paper's highest), %", "37", 37, 0.5, _scratch(500, "success")),
    Number("from scratch: trajectories to match zero-shot", "about 2000", 2000, 500, _budget_to_match, "median"),
    Number("specialist: success, %", "about 90", 90, 5, _scratch(4000, "success")),
    Number(
        "meta-training trajectories per agent",
        "15000",
        15000,
        0.5,
        lambda f: _of(f, "first_order", "trajectories", split="held_out", m_adapt="0"),
        "noiseless",
    ),
)

# The paper's code judges every seed with the same random numbers, whose error no mean over seeds takes away: the sweep
# that says how large it is, with several evaluation seeds for the same runs.
JUDGES = {"few_shot": "few_shot_judges", "few_shot_100": "few_shot_judges"}

# (heading, sweep) -> the paper's numbers that the sweep's results can be held against
TARGETS: dict[tuple[str, str], tuple[Target, ...]] = {
    ("Personalization (Fig. 1 left)", "personalization"): (
        *_three("F", ("0.79", "0.73", "0.68")),
        Number("F, exact minus first order", "0.06", 0.06, 0.005, _exact_minus_first_order),
        Number("f of the exact initialisation", "0.51", 0.51, 0.005, _last("exact", "before")),
        Number("f of the uniform policy", "0.24", 0.24, 0.005, _last("exact", "before", round=0), "noiseless"),
        Number("F at 8000 trajectories, exact", "0.71", 0.71, 0.005, _at_trajectories("exact", 8000)),
        Number("F at 8000 trajectories, first order", "0.73", 0.73, 0.005, _at_trajectories("first_order", 8000)),
    ),
    ("Adaptation step size (Fig. 1 right)", "adaptation_step_size"): (
        *_three("F at alpha = 0", ("0.49", "0.49", "0.48"), alpha=0.0),
        *_three("F at alpha = 3", ("0.92", "0.87", "0.78"), alpha=3.0),
    ),
    ("Curvature bottleneck (Fig. 2 left)", "curvature_bottleneck"): (
        *_curvature((10, 50, 100, 200)),
        Count("seeds that match FedAvg-PG at any m_h ≤ 200", 0, _best_small_batch, at_least=REFERENCE),
        *_curvature((500, 1000)),
        *_SPLIT,
        Number("median return, FedAvg-PG", "1.73", 1.73, 0.005, _last("fedavg_pg"), "median"),
    ),
    ("The same, many seeds", "curvature_bottleneck_100"): (*_curvature((500, 1000)), *_SPLIT),
    ("Few-shot personalization (Fig. 2 right, Fig. 7)", "few_shot"): _FEW_SHOT,
    ("Few-shot, many seeds", "few_shot_100"): _FEW_SHOT,
}  # fmt: skip
