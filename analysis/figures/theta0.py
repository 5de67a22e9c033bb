"""Where a run begins: every seed from ten theta^0, what varies, when runs fall, and how early one can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from analysis.figures import style
from analysis.figures.curvature_bottleneck import COLLAPSED, TRAINED
from analysis.frames import Sweep, scores, select
from analysis.statistics import dip_test, holm, mixture, share

SWEEPS = ("theta0_100", "theta0")
EARLY = 20  # rounds in which the signs are looked for
SIGNS = {
    "curvature_ratio": "$\\||\\alpha \\hat H g\\|| / \\||g\\||$", "curvature_cosine": "cosine of $\\hat H g$ and $g$",
    "drift": "drift", "return": "return after adaptation",
}  # fmt: skip
GROUPS = {"trained": style.BLUE, "between": style.ORANGE, "collapsed": style.VERMILLION}
DASHES = {"trained": "-", "between": (0, (1.5, 1.5)), "collapsed": (0, (6, 2))}


@style.styled
def draw(many: Sweep, more: Sweep) -> Figure:
    """The four panels; ``many``: the shared theta^0 and the paper's; ``more``: the other draws."""
    table = by_theta0(many, more)
    figure = style.sheet(9.2, 7.0)
    rows = figure.subplots(2, 1, height_ratios=(1.25, 1))
    (top,), (left, middle, right) = [rows[0]], _split(figure, rows[1])
    tests = statistics(table)
    for place, (name, found) in enumerate(table.items()):
        _strip(top, place, found, tests.loc[name])
    for value in (TRAINED, COLLAPSED):
        top.axhline(value, color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2.5)), zorder=1)
    top.set_xticks(range(len(table)), [f"{name}\n{len(found)} seeds" for name, found in table.items()])
    top.set(ylabel="return after adaptation", ylim=(0, None), xlim=(-0.6, len(table) - 0.4))
    top.set_title("(a) every seed by $\\theta^0$, and whether one mode will do", pad=30)
    top.grid(False, axis="x")
    _variance(left, table, many)
    _falls(middle, many, more)
    _signs(right, many, more)
    dips = tests["dip_p_corrected"]
    low = [name for name in dips.index if dips[name] < 0.05]
    said = f"Below 0.05 for {', '.join(low)}." if low else "Below 0.05 for none."
    style.caption(
        figure,
        f"Neural navigation, exact method at $m_h$ = 1000, after 150 rounds. (a) One dot a seed; shape: histogram; "
        f"bar: median; p of Hartigan's dip test, corrected by Holm for {len(table)} tests; below it, what share trains "
        f"and stays collapsed. {said} "
        f"(b) Shares of the variance of a run's return, by analysis of variance; evaluation: of the same theta judged "
        f"again. (c) Median and quartiles over the seeds that end in a group, all theta^0 together. "
        f"(d) Area under the ROC curve for ending trained, from what is known after so many rounds: the side is chosen "
        f"on even seeds, the area is that of odd ones; 0.5 is chance.".replace("theta^0", "$\\theta^0$"),
    )
    return figure


def by_theta0(many: Sweep, more: Sweep) -> dict[str, pd.Series]:
    """theta^0 -> the final return after adaptation at m_h = 1000, one a seed: the two with a hundred seeds first, then
    the others by their median."""
    first = {str(name): _final(many, name) for name in ("shared", "paper")}
    drawn = sorted(set(select(more.evaluations, m_h=1000)["theta0"].astype(str)), key=int)
    others = {f"draw {name}": _final(more, name) for name in drawn}
    return {**first, **dict(sorted(others.items(), key=lambda found: float(found[1].median())))}


def statistics(table: Mapping[str, pd.Series]) -> pd.DataFrame:
    """The numbers of panel (a), one row a theta^0."""
    rows = {}
    for name, found in table.items():
        trained, collapsed = share(found, at_least=TRAINED), share(found, at_most=COLLAPSED)
        modes = mixture(found)
        rows[name] = {
            "seeds": len(found), "median": float(found.median()), "dip_p": dip_test(found).p,
            "components": modes.components, "trained": trained.k / trained.n, "trained_low": trained.low,
            "trained_high": trained.high, "collapsed": collapsed.k / collapsed.n, "collapsed_low": collapsed.low,
            "collapsed_high": collapsed.high,
        }  # fmt: skip
    found = pd.DataFrame(rows).T
    return found.assign(dip_p_corrected=holm(found["dip_p"]))


def variance(table: Mapping[str, pd.Series], judged: pd.DataFrame) -> dict[str, float]:
    """The variance of a run's return from theta^0, the seed and the evaluation: the one-way random effects' moment
    estimates over theta^0, and within them the mean over trials of the variance of a theta judged again.

    judged: trial, evaluation_seed, return.
    """
    groups = [found.to_numpy() for found in table.values()]
    sizes = np.array([len(found) for found in groups])
    total = sizes.sum()
    within = sum(float(((found - found.mean()) ** 2).sum()) for found in groups) / (total - len(groups))
    grand = float(np.concatenate(groups).mean())
    between = sum(len(found) * (float(found.mean()) - grand) ** 2 for found in groups) / (len(groups) - 1)
    size = (total - (sizes**2).sum() / total) / (len(groups) - 1)
    evaluation = float(judged.groupby("trial")["return"].var(ddof=1).mean())
    return {
        "theta0": max(0.0, (between - within) / float(size)), "seed": within - evaluation, "evaluation": evaluation
    }  # fmt: skip


def groups(many: Sweep, more: Sweep) -> pd.DataFrame:
    """Every run at m_h = 1000: trial (index), seed, theta0, its final return and group."""
    frames = [select(sweep.evaluations, m_h=1000, phase="after", split="train") for sweep in (many, more)]
    rows = pd.concat(frames)
    last = rows[rows["round"] == rows["round"].max()].set_index("trial")
    group = np.select([last["return"] >= TRAINED, last["return"] <= COLLAPSED], ["trained", "collapsed"], "between")
    return last[["seed", "theta0", "return"]].assign(group=group)


def signs(many: Sweep, more: Sweep) -> pd.DataFrame:
    """sign x round -> the area under the ROC curve for ending trained, over the odd seeds; its side is that of the even
    ones."""
    ends = groups(many, more)
    known = pd.concat([_measured(sweep) for sweep in (many, more)])
    known = known[known["trial"].isin(ends.index) & (known["round"] <= EARLY) & (known["round"] > 0)]
    known = known.join(ends[["seed", "group"]], on="trial")
    areas = {}
    for (name, round_), rows in known.groupby(["metric", "round"]):
        even, odd = (rows[rows["seed"] % 2 == parity] for parity in (0, 1))
        areas[name, round_] = _area(odd) if _area(even) >= 0.5 else 1 - _area(odd)
    return pd.Series(areas).unstack()


def falls(many: Sweep, more: Sweep) -> pd.DataFrame:
    """trial, seed, theta0, round, return after adaptation, and the group in which the run ends."""
    frames = [select(sweep.evaluations, m_h=1000, phase="after", split="train") for sweep in (many, more)]
    return pd.concat(frames).join(groups(many, more)[["group"]], on="trial")


def _final(sweep: Sweep, theta0: str) -> pd.Series:
    frame = sweep.evaluations.assign(theta0=sweep.evaluations["theta0"].astype(str))
    return scores(frame, phase="after", split="train", m_h=1000, theta0=theta0)


def _measured(sweep: Sweep) -> pd.DataFrame:
    """trial, round, metric, value of the signs."""
    after = select(sweep.evaluations, phase="after", split="train")
    drawn = after.melt(["trial", "round"], ["return", "drift"], "metric")
    noted = sweep.metrics.assign(metric=sweep.metrics["metric"].str.removeprefix("diagnostics/"))
    found = pd.concat([drawn, noted])
    return found[found["metric"].isin(SIGNS)].dropna(subset="value")


def _area(rows: pd.DataFrame) -> float:
    """The area under the ROC curve of the value for ending trained."""
    trained = rows["group"] == "trained"
    yes, no = rows.loc[trained, "value"].astype(float), rows.loc[~trained, "value"].astype(float)
    return float(stats.mannwhitneyu(yes, no).statistic) / (len(yes) * len(no)) if len(yes) and len(no) else 0.5


def _split(figure: Figure, panel: Any) -> Any:
    spec = panel.get_subplotspec().subgridspec(1, 3, width_ratios=(0.62, 1, 1))
    panel.remove()
    return [figure.add_subplot(spec[0, column]) for column in range(3)]


def _strip(panel: Any, place: int, found: pd.Series, tests: pd.Series) -> None:
    edges = np.linspace(0, max(2.6, found.max()), 31)
    counts, _ = np.histogram(found, edges)
    panel.stairs(
        place + 0.04 + 0.42 * counts / counts.max(), edges, baseline=place + 0.04, orientation="horizontal", fill=True,
        color=style.SKY, alpha=0.45, zorder=2,
    )  # fmt: skip
    x = place - 0.19 + style.jitter(len(found), 0.14)
    panel.plot(x, found, "o", color=style.BLUE, markersize=2.4, alpha=0.65, markeredgewidth=0, zorder=3)
    panel.plot([place - 0.36, place + 0.46], [found.median()] * 2, color=style.BLACK, linewidth=1.6, zorder=4)
    p = tests["dip_p_corrected"]
    panel.text(
        place, 1.015,
        f"p {'< 0.001' if p < 0.001 else f'= {p:.3f}' if p < 0.1 else f'= {p:.2f}'}\n"
        f"{100 * tests['trained']:.0f} / {100 * tests['collapsed']:.0f} %",
        transform=panel.get_xaxis_transform(), ha="center", va="bottom", fontsize=7.2, linespacing=1.35,
    )  # fmt: skip


def _variance(panel: Any, table: Mapping[str, pd.Series], many: Sweep) -> None:
    parts = variance(table, judged(many))
    total, bottom = sum(parts.values()), 0.0
    names = {"theta0": "$\\theta^0$", "seed": "seed", "evaluation": "evaluation"}
    for (name, part), colour in zip(parts.items(), (style.PURPLE, style.SKY, style.GREY), strict=True):
        high = 100 * part / total
        panel.bar(0, high, bottom=bottom, color=colour, width=0.5)
        panel.text(0.32, max(bottom + high / 2, 5.0), f"{names[name]}\n{high:.0f} %", va="center", fontsize=8)
        bottom += high
    panel.set(xlim=(-0.3, 0.95), ylim=(0, 100), ylabel="share of the variance (%)")
    panel.set_xticks([])
    panel.grid(False)
    panel.set_title("(b) what varies")


def judged(many: Sweep) -> pd.DataFrame:
    """``judged.csv``: final thetas judged again by other random numbers."""
    return pd.read_csv(many.directory / "judged.csv", dtype={"trial": str})


def _falls(panel: Any, many: Sweep, more: Sweep) -> None:
    rows = falls(many, more)
    for name, colour in GROUPS.items():
        along = rows[rows["group"] == name].groupby("round")["return"].quantile([0.25, 0.5, 0.75]).unstack()
        count = rows.loc[rows["group"] == name, "trial"].nunique()
        panel.plot(along.index, along[0.5], color=colour, linestyle=DASHES[name], label=f"{name} ({count})", zorder=4)
        panel.fill_between(along.index, along[0.25], along[0.75], color=colour, alpha=0.16, linewidth=0, zorder=2)
    panel.set(xlabel="round $k$", ylabel="return after adaptation", ylim=(0, None))
    panel.set_title("(c) when runs part")
    panel.legend(loc="upper left", fontsize=7.5)


def _signs(panel: Any, many: Sweep, more: Sweep) -> None:
    areas = signs(many, more)
    for (name, label), (colour, dash, marker) in zip(SIGNS.items(), style.SERIES, strict=False):
        if name in areas.index:
            found = areas.loc[name].dropna()
            panel.plot(
                found.index, found, color=colour, linestyle=dash, marker=marker, label=label, markersize=5, zorder=4
            )
    panel.axhline(0.5, color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2.5)))
    panel.set(xlabel="round $k$", ylabel="area under the ROC curve", ylim=(0.3, 1))
    panel.set_title("(d) early signs")
    panel.legend(loc="upper right", fontsize=7.2)
