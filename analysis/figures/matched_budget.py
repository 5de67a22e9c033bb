"""Does exactness pay? The final return of every method at equal trajectories per agent, on both families."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import escape
from analysis.figures import style
from analysis.frames import scores, select
from analysis.statistics import quantile_interval

SPLITS = {"train": "training agents", "held_out": "unseen agents"}
ESTIMATORS = {"paper": "", "causal": ", causal", "causal_baseline": ", $b_t$", "causal_value": ", $V_h(s)$"}
VARIANT = ["method", "curvature", "clip", "m_in", "m_h", "m_out"]
ORDER = ("exact", "first_order", "fedavg_pg")


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """One panel a family and split, one row a method and way to spend the budget: every seed, the median, its interval.

    frame: the sweep's evaluations after the adaptation step.
    """
    after = select(frame, phase="after").assign(clip=frame["curvature_clip"].fillna(np.inf))
    variants = sorted(
        after[VARIANT].drop_duplicates().itertuples(index=False),
        key=lambda v: (ORDER.index(v.method), v.curvature != "paper", -v.clip, -v.m_in),
    )
    pairs = [(family, split) for family in sorted(after["population"].unique()) for split in SPLITS]
    figure, axes = style.panels(len(pairs), 2.4 * len(pairs) + 1.2, 3.5, sharey=True)
    drawn = []
    for panel, (family, split) in zip(axes, pairs, strict=True):
        for place, variant in enumerate(variants):
            found = scores(after, population=family, split=split, **variant._asdict())
            drawn.append({place: found})
            _row(panel, place, found, style.look(str(variant.method)))
        panel.set(title=f"{escape.mathtext(family)},\n{SPLITS[split]}", xlabel="return after adaptation")
        panel.grid(False, axis="y")
    axes[0].set_yticks(range(len(variants)), [_label(v) for v in variants])
    axes[0].invert_yaxis()
    budgets = after[after["round"] == after.groupby("trial")["round"].transform("max")].groupby("population")
    spent = ", ".join(f"{escape.mathtext(family)} {rows['trajectories'].max():g}" for family, rows in budgets)
    bars = style.seeds_and_band(drawn).replace("the band is", "the bars are")
    style.caption(figure, f"Trajectories per agent: {spent}. Numbers in the labels: a local step's batches. {bars}")
    return figure


def _label(variant: Any) -> str:
    if variant.method == "exact":
        clip = "" if variant.clip == np.inf else f", $c$ = {variant.clip:g}"
        return f"exact{ESTIMATORS[variant.curvature]}{clip} ({variant.m_in:g} + {variant.m_h:g} + {variant.m_out:g})"
    batches = (
        f"{variant.m_in:g} + {variant.m_out:g}" if variant.method == "first_order" else variant.m_in + variant.m_out
    )
    return f"{style.look(variant.method).label} ({batches})"


def _row(panel: Any, place: int, found: pd.Series, look: style.Look) -> None:
    jitter = place + style.jitter(len(found), 0.22)
    panel.plot(found, jitter, "o", color=look.colour, alpha=0.35, markersize=2.6, markeredgewidth=0, zorder=2)
    middle = quantile_interval(found)
    panel.errorbar(
        middle.estimate, place, xerr=[[middle.estimate - middle.low], [middle.high - middle.estimate]],
        color=look.colour, marker=look.marker, markeredgecolor="white", markeredgewidth=0.6, markersize=6.5,
        capsize=2.5, elinewidth=1.2, zorder=4,
    )  # fmt: skip
