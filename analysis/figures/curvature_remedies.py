"""The curvature bottleneck with its remedies: return against m_h by estimator, without and with clipping, and against
the clip at the smallest m_h."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.frames import scores, select
from analysis.statistics import quantile_interval

ESTIMATORS = {
    "paper": "the paper's $u$", "causal": "causal $u_c$", "causal_baseline": "$u_c$ with $b_t$",
    "causal_value": "$u_c$ with $V_h(s)$",
}  # fmt: skip
LOOKS = {
    name: style.Look(label, *series)
    for (name, label), series in zip(ESTIMATORS.items(), (style.SERIES[i] for i in (1, 5, 3, 0)), strict=True)
}
CLIPPED = 1.0  # the clip of the second panel


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """The median over seeds for every estimator, and the curvature-free FedAvg-PG.

    frame: the sweep's evaluations on the training agents, after the adaptation step.
    """
    after = select(frame, phase="after", split="train")
    exact = select(after, method="exact").assign(clip=lambda rows: rows["curvature_clip"].fillna(np.inf))
    figure, axes = style.panels(3, 9.6, 3.7, sharey=True, width_ratios=(1, 1, 0.72))
    curves = []
    for panel, clip, title in zip(axes, (np.inf, CLIPPED), ("(a) no clip", "(b) clip $c$ = 1"), strict=False):
        batches = sorted(select(exact, clip=clip)["m_h"].unique())
        curves += _estimators(panel, select(exact, clip=clip), "m_h", batches)
        panel.set_xscale("log")
        panel.set_xticks(batches, [f"{m:g}" for m in batches])
        panel.minorticks_off()
        panel.set(xlabel="Hessian batch $m_h$ (log scale)", title=title)
    smallest = exact["m_h"].min()
    clips = sorted(select(exact, m_h=smallest)["clip"].unique())
    places = exact.assign(place=exact["clip"].map({clip: place for place, clip in enumerate(clips, 1)}))
    curves += _estimators(axes[2], select(places, m_h=smallest), "place", range(1, len(clips) + 1), spread=1.02)
    axes[2].set_xticks(range(1, len(clips) + 1), ["none" if c == np.inf else f"{c:g}" for c in clips])
    axes[2].set(xlabel="clip $c$", title=f"(c) $m_h$ = {smallest:g}")
    free = scores(after, method="fedavg_pg")
    green = style.look("fedavg_pg")
    for panel in axes:
        style.reference(panel, quantile_interval(free), green.colour, green.dash, "FedAvg-PG")
        panel.grid(False, axis="x")
    axes[0].set_ylabel("return after adaptation")
    axes[0].set_ylim(bottom=0)
    handles, labels = axes[0].get_legend_handles_labels()
    style.legend(figure, handles, labels, len(labels))
    bars = style.seeds_and_band([*curves, {0: free}]).replace("the band is", "bars and band are")
    style.caption(figure, f"Neural navigation, after {frame['round'].max()} rounds. {bars}")
    return figure


def _estimators(panel: Any, rows: pd.DataFrame, x: str, values: Any, spread: float = 1.05) -> list[dict[float, Any]]:
    """One curve an estimator, drawn a little apart."""
    curves = []
    for place, (name, look) in enumerate(LOOKS.items()):
        found = rows[rows["curvature"] == name]
        along = {v * spread ** (place - 1.5): scores(found, **{x: v}) for v in values if (found[x] == v).any()}
        if along:
            style.curve(panel, along, look, points=True)
            curves.append(along)
    return curves
