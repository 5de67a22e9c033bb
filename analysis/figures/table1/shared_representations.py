"""Shared representations: the distance of the learned plane from that of the true values, against n."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.table1.fed_sarsa import against_n
from analysis.frames import Sweep


def panel(axis: Axes, sweep: Sweep) -> str:
    """A line for each step size of the heads."""
    axis.set_title("shared representation")
    means = against_n(axis, pd.read_csv(sweep.directory / "distances.csv"), "beta_head", "heads' step {:g}")
    axis.set_ylabel("squared sine of the largest angle")
    said = "; ".join(
        f"{', '.join(f'{n * x:.2g}' for n, x in mean.items())} with heads' step {value:g}"
        for value, mean in means.items()
    )
    return f"A shared representation: the squared distance of its plane from that of the values, times n: {said}."
