"""Per-FedAvg: the norm of grad F falls to 0, and to floors without the Hessian or with a difference in its place."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures.table1.this_paper import gradient_norms
from analysis.frames import Sweep


def panel(axis: Axes, sweep: Sweep) -> str:
    """||grad F|| against rounds."""
    axis.set_title("Per-FedAvg, on digits")
    sentence = gradient_norms(axis, sweep)
    axis.legend(fontsize=7, loc="lower left")
    return sentence
