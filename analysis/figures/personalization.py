"""Personalization within federation: F against trajectories (Fig. 1 left) and against rounds (Fig. 6)."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.frames import by_seed, scores, select

METHODS = ("exact", "first_order", "fedavg_pg")


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """F of every method, f of the exact one, and the uniform policy, over training.

    frame: the sweep's evaluations on the training agents, after (F) and before (f) the adaptation step.
    """
    figure, axes = style.panels(2, 7.4, 3.5, sharey=True)
    tables = []
    for axis, panel in zip(("trajectories", "round"), axes, strict=True):
        for method in METHODS:
            tables.append(by_seed(frame, axis, method=method, phase="after", split="train"))
            look = style.look(method)
            style.curve(panel, tables[-1], look._replace(label=f"{look.label}: $F$"))
        before = style.Look("exact, before its step: $f$", style.SKY, (0, (3, 1.2)), "o")
        style.curve(panel, by_seed(frame, axis, method="exact", phase="before", split="train"), before)
        panel.margins(x=0.01)
        _uniform(panel, frame)
    axes[0].set(xlabel="trajectories per agent", ylabel="expected return (exact)", title="(a) against trajectories")
    axes[1].set(xlabel="communication round $k$", title="(b) against rounds")
    axes[0].xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")
    handles, labels = axes[0].get_legend_handles_labels()
    style.legend(figure, handles, labels, 5)
    alpha = select(frame, method="exact")["alpha"].iloc[0]
    style.caption(
        figure,
        f"Gridworld, $\\alpha$ = {alpha:g}. {style.seeds_and_band(tables)} Evaluation is exact (dynamic programming).",
    )
    return figure


def _uniform(panel: Any, frame: pd.DataFrame) -> None:
    start = scores(frame, round=0, method="exact", phase="before", split="train").median()
    panel.axhline(start, color=style.GREY, linewidth=1, linestyle=(0, (1, 2)), label="uniform policy", zorder=1)
