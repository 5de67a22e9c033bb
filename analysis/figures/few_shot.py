"""Few-shot personalization of unseen agents: return (Fig. 2 right) and success (Fig. 7) against the budget."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.frames import by_seed, scores, select
from analysis.statistics import quantile_interval


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """One adaptation step from the meta-initialisation against training from scratch, the specialist and no training.

    frame: the sweep's evaluations on the held-out agents: first order at every m_adapt, ``independent`` as it trains.
    """
    figure, axes = style.panels(2, 7.4, 3.6)
    for panel, column in zip(axes, ("return", "success"), strict=True):
        scale = 100 if column == "success" else 1
        meta, scratch = one_step(frame, column) * scale, from_scratch(frame, column) * scale
        _references(panel, frame, column, scratch, scale)
        style.curve(
            panel, meta, style.look("first_order")._replace(label="one step from the meta-initialisation"), points=True
        )
        style.curve(panel, scratch, style.look("independent"), points=True)
        _budget_axis(panel, meta, scratch)
    axes[0].set(ylabel="return on unseen agents", title="(a) return")
    axes[1].set(ylabel="episodes that reach the goal (%)", title="(b) success", ylim=(0, 100))
    axes[0].set_ylim(bottom=0)
    handles, labels = axes[0].get_legend_handles_labels()
    style.legend(figure, handles, labels, 4)
    goals = "held-out goals of neural navigation"
    bars = style.seeds_and_band([meta, scratch]).replace("the band is", "bars and bands are")
    style.caption(
        figure, f"Mean of the {goals}. {bars} Zero: the meta-initialisation itself, without a step (zero-shot)."
    )
    return figure


def one_step(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """The meta-initialisation after one step of m_adapt trajectories: one row a seed, one column for each m_adapt."""
    chosen = select(frame, method="first_order", split="held_out")
    last = chosen[chosen["round"] == chosen["round"].max()]
    return by_seed(last.assign(m_adapt=last["m_adapt"].astype(int)), "m_adapt", column)


def from_scratch(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Independent training of the held-out agents: one row a seed, one column for each budget of trajectories."""
    chosen = select(frame, method="independent", split="held_out", m_adapt="0")
    return by_seed(chosen[chosen["trajectories"] > 0], "trajectories", column)


def _references(panel: Any, frame: pd.DataFrame, column: str, scratch: pd.DataFrame, scale: int) -> None:
    last = scratch.columns.max()
    specialist = quantile_interval(scratch[last])
    style.reference(panel, specialist, style.BLACK, (0, (8, 3)), f"specialist ({last:,.0f} trajectories)")
    untrained = scores(frame, column, round=0, method="independent", split="held_out", m_adapt="0") * scale
    style.reference(panel, quantile_interval(untrained), style.GREY, (0, (1, 2)), "untrained policy")


def _budget_axis(panel: Any, meta: pd.DataFrame, scratch: pd.DataFrame) -> None:
    ticks = sorted({*meta.columns, *scratch.columns} - {50, 200})
    panel.set_xscale("symlog", linthresh=20, linscale=0.6)
    panel.set_xticks(ticks, [f"{x / 1000:g}k" if x >= 1000 else f"{x:g}" for x in ticks])
    panel.minorticks_off()
    panel.set(xlabel="trajectories of the unseen agent", xlim=(-3, 5500))
