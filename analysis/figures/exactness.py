"""When exactness pays: the exact method minus first order at equal trajectories, over step size, budget and
heterogeneity; where first order rests; how the budget is best spent; and the same on navigation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.figures import style
from analysis.frames import Sweep, scores, select
from analysis.statistics import Interval, mean_interval

SWEEPS = ("exactness", "exactness_late", "exactness_navigation")
BUDGETS = (40, 80, 160, 240)  # rounds of the exact method; the others make half as many again
SPLITS = {"train": "training agents", "held_out": "unseen agents"}
SPENT = {"m_in": 10.0, "m_h": 10.0, "m_out": 10.0}  # how the exact method spends 30 trajectories, unless it is said
WIDEST = 0.4  # the difference at which the colours end


@style.styled
def draw(gridworld: Sweep, late: Sweep, navigation: Sweep) -> Figure:
    """Phase diagrams above, for both splits and every spread; below: the floor, the budget's parts, navigation."""
    spreads = sorted(gridworld.evaluations["spread"].unique())
    figure = style.sheet(9.4, 8.6)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.35, 1))[:, 0]
    grid = above.subplots(len(SPLITS), len(spreads), sharex=True, sharey=True, squeeze=False)
    letters = iter("abcdefghi")
    for row, (split, title) in zip(grid, SPLITS.items(), strict=True):
        for panel, spread in zip(row, spreads, strict=True):
            mesh = _phases(panel, gridworld, float(spread), split)
            panel.set_title(f"({next(letters)}) {title}, spread {spread:g}")
        row[0].set_ylabel("trajectories an agent")
    for panel in grid[-1]:
        panel.set_xlabel("step size $\\alpha$")
    bar = above.colorbar(mesh, ax=grid, shrink=0.8, pad=0.015)
    bar.set_label("exact minus first order, return", fontsize=8)
    floor, spent, away = below.subplots(1, 3)
    _floor(floor, gridworld)
    _spent(spent, gridworld, late)
    _navigation(away, navigation)
    for panel, letter in zip((floor, spent, away), letters, strict=False):
        panel.set_title(f"({letter}) {panel.get_title('left')}")
    seeds = gridworld.trials["seed"].nunique()
    style.caption(
        figure,
        f"(a-f) Gridworld: the exact method (causal_value) minus first order at equal trajectories, mean over {seeds} "
        f"seeds of the paired difference of the return after adaptation (in hundredths); outlined where its 95 % "
        f"interval (Student's t) leaves zero. Spread: the share of the border along which goals lie. (g) Norm of "
        f"grad F after the whole budget, median and range over seeds; grey: proportional to alpha. (h) Gridworld, "
        f"spread 1, whole budget: other ways to spend it, minus first order. (i) Navigation, "
        f"{navigation.trials['seed'].nunique()} seeds, 22 500 trajectories: minus first order, after an adaptation "
        f"step from 4096 trajectories. Bars: 95 % intervals.",
    )
    return figure


def difference(
    sweep: Sweep, *, rounds: int, split: str = "train", against: str = "first_order", m_adapt: str | None = None,
    spent: dict[str, Any] | None = None, clip: float | None = None, **where: Any,
) -> Interval:  # fmt: skip
    """The mean over seeds of the exact method's return after adaptation, at ``rounds``, minus that of ``against`` at
    half as many rounds again, paired by seed, with its 95 % t interval.

    spent: the exact method's batches; clip: of its curvature term; m_adapt: the adaptation step, if there are several.
    """
    frame = sweep.evaluations
    where = {**where, "split": split, **({"m_adapt": m_adapt} if m_adapt else {"phase": "after"})}
    exact = frame[frame["method"] == "exact"]
    exact = exact[exact["curvature_clip"].isna() if clip is None else exact["curvature_clip"] == clip]
    ours = scores(exact, round=rounds, **(spent or SPENT), **where)
    theirs = scores(frame[frame["method"] == against], round=rounds * 3 // 2, **where)
    return paired_mean(ours, theirs)


def paired_mean(ours: pd.Series, theirs: pd.Series) -> Interval:
    """The mean of the difference seed by seed, with its t interval."""
    return mean_interval(ours - theirs.reindex(ours.index))


def phases(gridworld: Sweep, spread: float, split: str) -> pd.DataFrame:
    """One row for each (rounds, alpha): the difference to first order, and its interval."""
    alphas = sorted(gridworld.evaluations["alpha"].unique())
    rows = [
        {"rounds": rounds, "alpha": alpha, **difference(
            gridworld, rounds=rounds, split=split, alpha=alpha, spread=spread
        )._asdict()}
        for rounds in BUDGETS for alpha in alphas
    ]  # fmt: skip
    return pd.DataFrame(rows)


def floor(gridworld: Sweep) -> pd.DataFrame:
    """||grad F|| after the whole budget at spread 1: method, alpha, seed, value."""
    last = select(gridworld.evaluations, spread=1.0, phase="after", split="train")
    last = last[last["round"] == last.groupby("trial")["round"].transform("max")]
    plain = last[(last["method"] != "exact") | ((last["m_h"] == SPENT["m_h"]) & last["curvature_clip"].isna())]
    noted = gridworld.metrics[gridworld.metrics["metric"] == "diagnostics/gradient_norm"]
    return plain.merge(noted, on=["trial", "round"])[["method", "alpha", "seed", "value"]]


def _phases(panel: Any, gridworld: Sweep, spread: float, split: str) -> Any:
    found = phases(gridworld, spread, split)
    alphas, rounds = sorted(found["alpha"].unique()), sorted(found["rounds"].unique())
    means = found.pivot(index="rounds", columns="alpha", values="estimate").to_numpy()
    mesh = panel.imshow(means, origin="lower", aspect="auto", cmap="PuOr_r", vmin=-WIDEST, vmax=WIDEST)
    for _, cell in found.iterrows():
        x, y = alphas.index(cell["alpha"]), rounds.index(cell["rounds"])
        dark = abs(cell["estimate"]) > 0.6 * WIDEST
        panel.text(
            x, y, f"{100 * cell['estimate']:+.0f}", ha="center", va="center", fontsize=7.5,
            color="white" if dark else style.BLACK,
        )  # fmt: skip
        if cell["low"] > 0 or cell["high"] < 0:
            panel.add_patch(
                Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor=style.BLACK, linewidth=1.1)
            )
    panel.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    panel.set_yticks(range(len(rounds)), [f"{150 * k:,}".replace(",", " ") for k in rounds])
    panel.grid(False)
    return mesh


def _floor(panel: Any, gridworld: Sweep) -> None:
    rows = floor(gridworld)
    for method in ("exact", "first_order"):
        look = style.look(method)
        found = rows[rows["method"] == method].groupby("alpha")["value"]
        middle, low, high = found.median(), found.min(), found.max()
        panel.errorbar(
            middle.index, middle, yerr=[middle - low, high - middle], color=look.colour, linestyle=look.dash,
            marker=look.marker, markersize=5, capsize=2.5, elinewidth=1, label=look.label,
        )  # fmt: skip
    middle = rows[rows["method"] == "first_order"].groupby("alpha")["value"].median()
    panel.plot(
        middle.index, middle.iloc[0] * middle.index / middle.index[0], color=style.GREY, linewidth=1,
        linestyle=(0, (1, 2)), label="proportional to $\\alpha$",
    )  # fmt: skip
    panel.set(xscale="log", yscale="log", xlabel="step size $\\alpha$", ylabel="$\\||\\nabla F\\||$ at the end")
    _plain_alphas(panel, middle.index)
    panel.set_title("where it rests")
    panel.legend(fontsize=7.2)


def _spent(panel: Any, gridworld: Sweep, late: Sweep) -> None:
    alphas = sorted(gridworld.evaluations["alpha"].unique())
    at: dict[str, Any] = {"rounds": BUDGETS[-1], "spread": 1.0}
    curves: dict[str, dict[float, Interval]] = {
        "$m_h$ a third": {a: difference(gridworld, alpha=a, **at) for a in alphas},
        "a fifth": {
            a: difference(gridworld, alpha=a, spent={"m_in": 12.0, "m_h": 6.0, "m_out": 12.0}, **at) for a in alphas
        },
        "half": {
            a: difference(gridworld, alpha=a, spent={"m_in": 7.0, "m_h": 16.0, "m_out": 7.0}, **at) for a in alphas
        },
        "clipped": {a: difference(gridworld, alpha=a, clip=1.0, **at) for a in alphas},
        **{
            {"late": "late only", "growing": "growing"}[method]: {
                a: adaptive(gridworld, late, method, a) for a in sorted(late.evaluations["alpha"].unique())
            }
            for method in ("late", "growing")
        },
    }
    for number, ((name, along), series) in enumerate(zip(curves.items(), style.SERIES, strict=False)):
        _bars(panel, along, style.Look(name, *series), 1.035 ** (number - 2.5))
    panel.axhline(0, color=style.GREY, linewidth=0.8)
    panel.set(xscale="log", xlabel="step size $\\alpha$", ylabel="minus first order")
    _plain_alphas(panel, alphas)
    panel.set_title("how it is spent")
    panel.legend(fontsize=6.8, ncols=2)


def adaptive(gridworld: Sweep, late: Sweep, method: str, alpha: float) -> Interval:
    """A changing budget minus first order, at the end."""
    ours = scores(late.evaluations, method=method, alpha=alpha, phase="after", split="train")
    theirs = scores(gridworld.evaluations, method="first_order", alpha=alpha, spread=1.0, phase="after", split="train")
    return paired_mean(ours, theirs)


def _navigation(panel: Any, navigation: Sweep) -> None:
    frame = navigation.evaluations
    number = 0
    for spread, dash in zip(sorted(frame["spread"].unique()), ("-", (0, (4, 2))), strict=True):
        for name, colour, marker, where in (
            ("$m_h$ = 10", style.BLUE, "o", {"m_h": 10.0, "clip": None}),
            ("$m_h$ = 100", style.SKY, "D", {"m_h": 100.0, "clip": None}),
            ("clipped", style.VERMILLION, "s", {"m_h": 10.0, "clip": 1.0}),
        ):
            along = {
                alpha: on_navigation(navigation, alpha=alpha, spread=float(spread), **where)
                for alpha in sorted(frame["alpha"].unique())
            }
            _bars(panel, along, style.Look(f"{name}, spread {spread:g}", colour, dash, marker), 1.03 ** (number - 2.5))
            number += 1
    panel.axhline(0, color=style.GREY, linewidth=0.8)
    panel.set(xscale="log", xlabel="step size $\\alpha$", ylabel="minus first order")
    _plain_alphas(panel, sorted(frame["alpha"].unique()))
    panel.set_title("navigation")
    panel.set_ylim(bottom=-3.6)
    panel.legend(fontsize=6.5, loc="lower left")


def on_navigation(
    navigation: Sweep, *, alpha: float, spread: float, m_h: float, clip: float | None, m_adapt: str = "4096",
    split: str = "train",
) -> Interval:  # fmt: skip
    """The exact method's return after a step from m_adapt trajectories minus first order's, both at their end."""
    frame = select(navigation.evaluations, alpha=alpha, spread=spread, split=split, m_adapt=m_adapt)
    exact = frame[(frame["method"] == "exact") & (frame["m_h"] == m_h)]
    exact = exact[exact["curvature_clip"].isna() if clip is None else exact["curvature_clip"] == clip]
    return paired_mean(scores(exact), scores(frame[frame["method"] == "first_order"]))


def _bars(panel: Any, along: dict[float, Interval], look: style.Look, shift: float) -> None:
    x = np.array(list(along)) * shift
    middle, low, high = (np.array([getattr(i, name) for i in along.values()]) for name in ("estimate", "low", "high"))
    panel.errorbar(
        x, middle, yerr=[middle - low, high - middle], color=look.colour, linestyle=look.dash, marker=look.marker,
        markersize=4, capsize=2, elinewidth=0.9, linewidth=1.1, label=look.label,
    )  # fmt: skip


def _plain_alphas(panel: Any, alphas: Sequence[float]) -> None:
    panel.set_xticks(list(alphas), [f"{alpha:g}" for alpha in alphas])
    panel.minorticks_off()
