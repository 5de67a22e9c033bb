"""Figures, tables, comparisons and reports, drawn from the result files of sweeps. Nothing here trains anything.

    import analysis

    sweep = analysis.read("results/personalization")    # or the name of a sweep: .trials, .evaluations, .metrics
    table = analysis.compare("results/personalization")  # .frame, .text(), .csv(), .latex(), .markdown()
    scores = analysis.scores(sweep.evaluations, method="exact", phase="after", split="train")
    analysis.statistics.quantile_interval(scores)

The names below need the extra: ``pip install 'raypfrl[analysis]'``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis import statistics
    from analysis.comparison import Comparison, compare
    from analysis.frames import ResultsError, Sweep, by_seed, read, scores, select

PLACES = {  # public name -> its module; imported when it is asked for, since pandas and scipy are heavy
    "read": "frames", "scores": "frames", "select": "frames", "by_seed": "frames", "Sweep": "frames",
    "ResultsError": "frames", "compare": "comparison", "Comparison": "comparison",
}  # fmt: skip

__all__ = [
    "read", "scores", "select", "by_seed", "compare", "statistics", "Sweep", "Comparison", "ResultsError",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "statistics":
        return importlib.import_module("analysis.statistics")
    if name not in PLACES:
        raise AttributeError(f"module 'analysis' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"analysis.{PLACES[name]}"), name)
