"""The paper's remaining claims, run: communication, drift, heterogeneity, 1/n, Corollary 1, R2, R3's bias, and the
order of the methods at every round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import claims
from analysis.figures import style
from analysis.frames import Sweep

SWEEPS = ("claims_gridworld", "claims_arms", "personalization")
HELD = {"beta tau": style.Look("fixed $\\beta\\tau$", style.BLUE, "-", "o"), "beta": style.Look(
    "fixed $\\beta$", style.VERMILLION, (0, (6, 2)), "s"
)}  # fmt: skip
DAGGER = 0.3385  # alpha-dagger of the two arms, with their tight constants (tune_configs/claims_arms.py)


@style.styled
def draw(gridworld: Sweep, arms: Sweep, personalization: Sweep) -> Figure:
    """Eight panels, a claim each."""
    figure = style.sheet(12.0, 6.4)
    panels = figure.subplots(2, 4)
    (a, b, c, d), (e, f, g, h) = panels
    _by_tau(a, claims.floats_to_level(gridworld), "floats", f"floats until $F$ = {claims.LEVEL:g}", "communication")
    _by_tau(b, claims.drift(gridworld), "drift", "client drift", "drift")
    _heterogeneity(c, gridworld)
    _linear_speedup(d, arms)
    _corollary(e, arms)
    _alpha(f, arms)
    _bias(g)
    _order(h, personalization)
    for letter, panel in zip("abcdefgh", panels.ravel(), strict=True):
        panel.set_title(f"({letter}) {panel.get_title('left')}")
    style.caption(
        figure,
        f"(a, b) Gridworld, exact method, {gridworld.trials['seed'].nunique()} seeds: median and range; seeds that "
        f"never reach the level are left out. (c) Median along runs as goals spread; dotted: Remark 1's bound. (d) Two "
        f"arms, pairs of agents: mean and range over {arms.trials['seed'].nunique()} seeds; dotted: 1/n. (e) One "
        f"agent: the "
        f"schedule's rounds, and those until the average so far meets $\\epsilon$; dotted: slope -3/2. (f) One agent, "
        f"exact gradients, $\\beta = 1/(6 L_F)$; vertical: $\\alpha^\\dagger$; dotted: proportional to $\\alpha$. "
        f"(g) By enumeration: three arms. (h) Median over {personalization.trials['seed'].nunique()} seeds of the "
        f"difference of $F$; the band is its order-statistic interval.",
    )
    return figure


def _by_tau(panel: Any, rows: pd.DataFrame, column: str, label: str, title: str) -> None:
    for name, look in HELD.items():
        found = rows[rows["fixed"] == name].dropna(subset=column).groupby("tau")[column]
        _range(panel, found.median(), found.min(), found.max(), look)
    _logarithmic(panel, sorted(rows["tau"].unique()))
    panel.set(xlabel="local steps $\\tau$", ylabel=label, title=title)
    panel.legend(fontsize=7.2)


def _heterogeneity(panel: Any, gridworld: Sweep) -> None:
    rows = claims.heterogeneity(gridworld)
    for spread, (colour, dash, _) in zip(sorted(rows["spread"].unique()), style.SERIES, strict=False):
        along = rows[rows["spread"] == spread].groupby("round")["value"].median()
        panel.plot(along.index, along, color=colour, linestyle=dash, label=f"{spread:g}")
    panel.axhline(claims.G_J**2, color=style.GREY, linewidth=1, linestyle=(0, (1, 2)))
    panel.set_yscale("symlog", linthresh=1e-4)
    panel.set(
        xlabel="round $k$",
        ylabel="mean of $\\||\\nabla J_i - \\nabla f\\||^2$",
        title="heterogeneity, by spread",
        ylim=(-2e-5, 1e5),
    )
    panel.legend(fontsize=6.8, ncols=2, loc=(0.32, 0.1))


def _linear_speedup(panel: Any, arms: Sweep) -> None:
    rows = claims.stationary(arms)
    for tau, (colour, dash, marker) in zip(sorted(rows["tau"].unique()), style.SERIES, strict=False):
        found = rows[rows["tau"] == tau].groupby("n")["value"]
        look = style.Look(f"$\\tau$ = {tau}", colour, dash, marker)
        _range(panel, found.mean(), found.min(), found.max(), look)
    first = rows[rows["tau"] == rows["tau"].min()].groupby("n")["value"].mean()
    panel.plot(
        first.index, first.iloc[0] * first.index[0] / first.index, color=style.GREY, linestyle=(0, (1, 2)), linewidth=1
    )
    _logarithmic(panel, sorted(rows["n"].unique()))
    panel.set(xlabel="agents $n$", ylabel="stationary $\\||\\nabla F\\||^2$", title="what n buys")
    panel.legend(fontsize=7.2)


def _corollary(panel: Any, arms: Sweep) -> None:
    rows = claims.corollary1(arms)
    for column, look in (
        ("rounds", style.Look("the schedule's", style.BLUE, "-", "o")),
        ("needed", style.Look("needed", style.VERMILLION, (0, (6, 2)), "s")),
    ):
        found = rows.groupby("epsilon")[column]
        _range(panel, found.median(), found.min(), found.max(), look)
    planned = rows.groupby("epsilon")["rounds"].median()
    last = float(planned.index[-1])
    panel.plot(
        planned.index,
        planned.iloc[-1] * (planned.index / last) ** -1.5,
        color=style.GREY,
        linestyle=(0, (1, 2)),
        linewidth=1,
    )
    _logarithmic(panel, list(planned.index))
    panel.set(xlabel="$\\epsilon$", ylabel="rounds $K$", title="Corollary 1")
    panel.legend(fontsize=7.2)


def _alpha(panel: Any, arms: Sweep) -> None:
    found = claims.rounds_to(arms)
    panel.plot(found.index, found, color=style.BLUE, marker="o", markersize=4.5)
    panel.plot(found.index, found[1.0] * found.index, color=style.GREY, linestyle=(0, (1, 2)), linewidth=1)
    panel.axvline(DAGGER, color=style.GREY, linewidth=0.8)
    _logarithmic(panel, list(found.index))
    panel.set(xlabel="step size $\\alpha$", ylabel="rounds until $\\||\\nabla F\\||^2 \\leq$ 0.02", title="R2")


def _bias(panel: Any) -> None:
    batches = (1, 2, 4, 8, 16, 32)
    for alpha, (colour, dash, marker) in zip((0.25, 0.5, 1.0, 2.0), style.SERIES, strict=False):
        found = [claims.bias(alpha, m) for m in batches]
        panel.plot(
            batches, found, color=colour, linestyle=dash, marker=marker, markersize=4, label=f"$\\alpha$ = {alpha:g}"
        )
    panel.plot(batches, 0.02 / np.array(batches), color=style.GREY, linestyle=(0, (1, 2)), linewidth=1)
    _logarithmic(panel, batches)
    panel.set(xlabel="inner batch $m_{in}$", ylabel="bias of (7)", title="R3: $\\alpha^2 / m_{in}$")
    panel.legend(fontsize=7.2)


def _order(panel: Any, personalization: Sweep) -> None:
    found = claims.order(personalization)
    for (name, label), (colour, dash, marker) in zip(
        {"exact": "exact - first order", "fo": "first order - FedAvg-PG"}.items(), style.SERIES, strict=False
    ):
        panel.plot(found.index, found[name], color=colour, linestyle=dash, marker=marker, markersize=3, label=label)
        panel.fill_between(
            found.index, found[f"{name}_low"], found[f"{name}_high"], color=colour, alpha=0.16, linewidth=0
        )
    panel.axhline(0, color=style.GREY, linewidth=0.8)
    panel.set(xlabel="round $k$", ylabel="difference of $F$", title="order at every round")
    panel.legend(fontsize=7.2, loc="lower right")


def _range(panel: Any, middle: pd.Series, low: pd.Series, high: pd.Series, look: style.Look) -> None:
    panel.errorbar(
        middle.index, middle, yerr=[middle - low, high - middle], color=look.colour, linestyle=look.dash,
        marker=look.marker, markersize=4.5, capsize=2, elinewidth=0.9, label=look.label,
    )  # fmt: skip


def _logarithmic(panel: Any, ticks: Any) -> None:
    panel.set(xscale="log", yscale="log")
    panel.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()
