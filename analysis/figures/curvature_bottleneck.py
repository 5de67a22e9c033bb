"""The curvature-estimation bottleneck: return after adaptation against the Hessian batch m_h (Fig. 2 left)."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.frames import scores, select
from analysis.statistics import quantile_interval

TRAINED, COLLAPSED = 1.5, 0.95  # the paper's: a seed trains at or above, stays collapsed at or below


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """The median over seeds, every seed, and the curvature-free FedAvg-PG.

    frame: the sweep's evaluations on the training agents, after the adaptation step.
    """
    figure, panel = style.panels(1, 5.4, 3.7)
    exact = returns_by_m_h(frame)
    look = style.look("exact")
    for m_h, found in exact.items():
        x = m_h * 10 ** style.jitter(len(found), 0.045)
        panel.plot(
            x, found, "o", markerfacecolor="none", markeredgecolor=look.colour, markeredgewidth=0.8,
            markersize=4, alpha=0.75, zorder=3, label="exact: one seed" if m_h == min(exact) else None,
        )  # fmt: skip
    style.curve(panel, exact, look._replace(label="exact: median", marker="D"), points=True)
    free = scores(frame, method="fedavg_pg", phase="after", split="train")
    green = style.look("fedavg_pg")
    style.reference(panel, quantile_interval(free), green.colour, green.dash, "FedAvg-PG (no curvature): median")
    _threshold_lines(panel)
    panel.set_xscale("log")
    panel.set_xticks(list(exact), [f"{m:g}" for m in exact])
    panel.minorticks_off()
    panel.set(xlabel="Hessian batch $m_h$ (log scale)", ylabel="return after adaptation")
    panel.set_ylim(bottom=0)
    panel.grid(False, axis="x")
    entries = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    order = [entries[label] for label in sorted(entries, key=lambda label: ("FedAvg" in label, "median" in label))]
    style.legend(figure, order, [handle.get_label() for handle in order], 3)
    bars = style.seeds_and_band([exact, {0: free}]).replace("the band is", "bars and band are")
    style.caption(figure, f"Neural navigation, after {frame['round'].max()} rounds. {bars}")
    return figure


def returns_by_m_h(frame: pd.DataFrame) -> dict[int, pd.Series]:
    """m_h -> the exact method's final return after adaptation, one a seed."""
    batches = sorted(select(frame, method="exact")["m_h"].unique())
    return {m: scores(frame, method="exact", phase="after", split="train", m_h=m) for m in batches}


def _threshold_lines(panel: Any) -> None:
    for value, text in ((TRAINED, "trained $\\geq$ 1.5"), (COLLAPSED, "collapsed $\\leq$ 0.95")):
        panel.axhline(value, color=style.GREY, linewidth=0.7, linestyle=(0, (1, 2.5)), zorder=1)
        panel.annotate(
            text, (0.005, value), xycoords=("axes fraction", "data"), xytext=(2, 2), textcoords="offset points",
            fontsize=7, color=style.GREY, va="bottom", zorder=1,
        )  # fmt: skip
