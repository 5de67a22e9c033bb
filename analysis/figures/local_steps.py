"""Local steps: what more local work a round is worth, at a fixed beta and at a fixed beta tau."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis import escape
from analysis.figures import style
from analysis.frames import scores, select

METHODS = ("exact", "first_order", "fedavg_pg")
Series = dict[str, dict[float, pd.Series]]  # label -> tau -> scores


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """Final F against tau: one panel a population and method, one line for each way to choose beta.

    frame: the sweep's evaluations on the training agents, after the adaptation step.
    """
    after = select(frame, phase="after", split="train")
    pairs = [
        (population, method)
        for population in sorted(after["population"].unique())
        for method in METHODS
        if len(after[(after["population"] == population) & (after["method"] == method)])
    ]
    figure, axes = style.panels(
        len(pairs), 3.7 * len(pairs), 3.7, squeeze=False, sharey=after["population"].nunique() == 1
    )
    curves = []
    for panel, (population, method) in zip(axes[0], pairs, strict=True):
        rows = select(after, population=population, method=method)
        for (label, along), (colour, dash, marker) in zip(lines(rows).items(), style.SERIES, strict=False):
            style.curve(panel, along, style.Look(label, colour, dash, marker), points=True)
            curves.append(along)
        rounds = rows.groupby("tau")["round"].max()
        panel.set_xscale("log")
        panel.set_xticks(list(rounds.index), [f"{tau:g}\n{k:g}" for tau, k in rounds.items()])
        panel.minorticks_off()
        panel.set(
            xlabel="local steps $\\tau$, and rounds $K$",
            title=f"{escape.mathtext(population)}, {style.look(method).label}",
        )
    axes[0][0].set_ylabel("return after adaptation")
    entries = {
        label: handle for panel in axes[0] for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    style.legend(figure, entries.values(), entries.keys(), len(entries))
    bars = style.seeds_and_band(curves).replace("the band is", "the bars are")
    equal = after.groupby("trial")["round"].max() * after.groupby("trial")["tau"].first()
    budget = f"All train for $K\\tau$ = {equal.iloc[0]:g} local steps. " if equal.nunique() == 1 else ""
    style.caption(figure, f"{budget}{bars}")
    return figure


def lines(rows: pd.DataFrame) -> Series:
    """A line for each beta, and for each beta tau that is not covered by those, with two or more tau."""
    points = sorted({(tau, beta) for tau, beta in zip(rows["tau"], rows["beta"], strict=True)})
    found: Series = {}
    covered = set()
    for beta in sorted({b for _, b in points}):
        along = {t: scores(rows, tau=t, beta=b) for t, b in points if b == beta}
        if len(along) > 1:
            found[f"$\\beta$ = {beta:g}"] = along
            covered |= {(t, beta) for t in along}
    for product in sorted({round(t * b, 9) for t, b in points}):
        chosen = [(t, b) for t, b in points if round(t * b, 9) == product]
        if len(chosen) > 1 and not set(chosen) <= covered:
            found[f"$\\beta\\tau$ = {product:g}"] = {t: scores(rows, tau=t, beta=b) for t, b in chosen}
    return found
