"""Local steps: tau against beta. What more local work, and larger steps, are worth at equal rounds."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.frames import scores, select


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """Final return after adaptation against beta, one line for each tau, one panel a population.

    frame: the sweep's evaluations on the training agents, after the adaptation step.
    """
    populations = sorted(frame["population"].unique())
    figure, axes = style.panels(len(populations), 3.7 * len(populations), 3.6, squeeze=False)
    curves = []
    for panel, population in zip(axes[0], populations, strict=True):
        rows = select(frame, population=population, phase="after", split="train")
        for tau, (colour, dash, marker) in zip(sorted(rows["tau"].unique()), style.SERIES, strict=False):
            betas = sorted(select(rows, tau=tau)["beta"].unique())
            curves.append({beta: scores(rows, tau=tau, beta=beta) for beta in betas})
            style.curve(panel, curves[-1], style.Look(f"$\\tau$ = {tau:g}", colour, dash, marker), points=True)
        ticks = sorted(rows["beta"].unique())
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{x:g}" for x in ticks])
        panel.minorticks_off()
        panel.set(xlabel="local step size $\\beta$ (log scale)", title=f"{population}, {rows['round'].max()} rounds")
        panel.set_ylim(bottom=0)
    axes[0][0].set_ylabel("return after adaptation")
    entries = {
        label: handle for panel in axes[0] for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=len(entries))
    method = ", ".join(style.look(m).label for m in sorted(frame["method"].unique()))
    bars = style.seeds_and_band(curves).replace("the band is", "the bars are")
    style.caption(figure, f"Method: {method}. A round costs the same communication at every $\\tau$. {bars}")
    return figure
