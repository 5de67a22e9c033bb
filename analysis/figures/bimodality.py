"""Is the outcome of curvature estimation bimodal? Every seed, the dip test, the mixture choice, and the shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.curvature_bottleneck import COLLAPSED, TRAINED, returns_by_m_h
from analysis.statistics import dip_test, mixture, share

SWEEP = "curvature_bottleneck_100"
SHARES = (
    (style.Look(f"trained: $\\geq$ {TRAINED:g}", style.BLUE, "-", "o"), {"at_least": TRAINED}),
    (style.Look(f"collapsed: $\\leq$ {COLLAPSED:g}", style.VERMILLION, (0, (6, 2)), "s"), {"at_most": COLLAPSED}),
)


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """Above, the distribution over seeds for each m_h, with its tests; below, the shares of trained and collapsed.

    frame: the many-seed curvature sweep's evaluations on the training agents, after the adaptation step.
    """
    table = returns_by_m_h(frame)
    figure = style.sheet(7.4, 6.2)
    top, bottom = figure.subplots(2, 1, height_ratios=(1.7, 1), sharex=True)
    for place, found in enumerate(table.values()):
        _strip(top, place, found)
    for value in (TRAINED, COLLAPSED):
        top.axhline(value, color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2.5)), zorder=1)
    top.set(ylabel="return after adaptation", ylim=(0, None))
    top.set_title("(a) every seed, and whether one mode will do", pad=32)
    _shares(bottom, table)
    for panel in (top, bottom):
        panel.grid(False, axis="x")
    counts = sorted({len(found) for found in table.values()})
    seeds = " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    style.caption(
        figure,
        f"Neural navigation, exact method, {seeds} seeds at every $m_h$ (one dot each; shape: histogram; bar: median). "
        f"Dip: p-value of Hartigan's test, small means not unimodal. BIC: components of the best of 1, 2, 3 normal "
        f"mixtures, and how much lower its BIC is than one component's "
        f"(a skewed mode counts as two here). Whiskers: 95 % Wilson intervals.",
    )
    return figure


def statistics(frame: pd.DataFrame) -> pd.DataFrame:
    """The numbers behind the figure, one row for each m_h."""
    rows = []
    for m_h, column in returns_by_m_h(frame).items():
        trained, collapsed = share(column, at_least=TRAINED), share(column, at_most=COLLAPSED)
        modes = mixture(column)
        rows.append(
            {
                "m_h": m_h, "seeds": len(column), "median": column.median(), "dip_p": dip_test(column).p,
                "components": modes.components, "bic_gain": modes.bic[0] - min(modes.bic),
                "trained": trained.k / trained.n, "trained_low": trained.low, "trained_high": trained.high,
                "collapsed": collapsed.k / collapsed.n, "collapsed_low": collapsed.low,
                "collapsed_high": collapsed.high,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _strip(panel: Any, place: int, column: pd.Series) -> None:
    edges = np.linspace(0, max(2.4, column.max()), 37)
    counts, _ = np.histogram(column, edges)
    width = 0.42 * counts / counts.max()
    panel.stairs(
        place + 0.04 + width, edges, baseline=place + 0.04, orientation="horizontal", fill=True, color=style.SKY,
        alpha=0.45, zorder=2,
    )  # fmt: skip
    x = place - 0.19 + style.jitter(len(column), 0.14)
    panel.plot(x, column, "o", color=style.BLUE, markersize=2.2, alpha=0.65, markeredgewidth=0, zorder=3)
    panel.plot([place - 0.36, place + 0.46], [column.median()] * 2, color=style.BLACK, linewidth=1.6, zorder=4)
    dip, modes = dip_test(column), mixture(column)
    p = "dip p < 0.001" if dip.p < 0.001 else f"dip p = {dip.p:.3f}" if dip.p < 0.1 else f"dip p = {dip.p:.2f}"
    gain = f" (+{modes.bic[0] - min(modes.bic):.0f})" if modes.components > 1 else ""
    panel.text(
        place, 1.015, f"{p}\nBIC: {modes.components}{gain}", transform=panel.get_xaxis_transform(),
        ha="center", va="bottom", fontsize=7.5, linespacing=1.4,
    )  # fmt: skip


def _shares(panel: Any, table: dict[int, pd.Series]) -> None:
    for shift, (look, side) in zip((-0.06, 0.06), SHARES, strict=True):
        found = [share(table[m_h], **side) for m_h in table]
        middle = np.array([100 * s.k / s.n for s in found])
        whiskers = [middle - [100 * s.low for s in found], [100 * s.high for s in found] - middle]
        panel.errorbar(
            np.arange(len(found)) + shift, middle, yerr=np.maximum(whiskers, 0), color=look.colour, linestyle=look.dash,
            marker=look.marker, markeredgecolor="white", markeredgewidth=0.6, markersize=6, capsize=2.5, elinewidth=1,
            label=look.label, clip_on=False, zorder=4,
        )  # fmt: skip
    panel.set(ylabel="share of seeds (%)", ylim=(0, 100), xlabel="Hessian batch $m_h$", xlim=(-0.55, len(table) - 0.4))
    panel.set_xticks(range(len(table)), [f"{m:g}" for m in table])
    panel.set_title("(b) trained and collapsed seeds")
    panel.legend(loc="center left")
