"""The adaptation step size alpha: what each method's initialisation is worth (Fig. 1 right), and what the step adds."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.frames import scores, select

METHODS = ("exact", "first_order", "fedavg_pg")


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """Final F, and F - f seed by seed, against alpha for the three methods.

    frame: the sweep's evaluations on the training agents, after (F) and before (f) the adaptation step.
    """
    figure, axes = style.panels(2, 7.4, 3.5)
    curves = []
    for shift, method in zip((-0.05, 0, 0.05), METHODS, strict=True):  # side by side, so that no seed is hidden
        after, before = (_final(frame, method, phase) for phase in ("after", "before"))
        curves.append(after)
        for panel, along in zip(axes, (after, {a: after[a] - before[a] for a in after}), strict=True):
            style.curve(panel, along, style.look(method), points=True, shift=shift)
            for alpha, found in along.items():
                x = alpha + shift + style.jitter(len(found), 0.02)
                panel.plot(x, found, ".", color=style.look(method).colour, alpha=0.35, markersize=3, zorder=3)
    axes[0].set(ylabel="$F$ (exact)", title="(a) after the adaptation step")
    axes[1].set(ylabel="$F - f$ (exact)", title="(b) what the step adds")
    for panel in axes:
        panel.set(xlabel="adaptation step size $\\alpha$", xticks=list(curves[0]))
        panel.set_xticklabels([_fraction(x) for x in curves[0]])
    handles, labels = axes[0].get_legend_handles_labels()
    style.legend(figure, handles, labels, 3)
    style.caption(
        figure,
        f"Gridworld, after {frame['round'].max()} rounds. Dots: seeds. "
        f"{style.seeds_and_band(curves).replace('the band', 'the bar')} Evaluation is exact.",
    )
    return figure


def _final(frame: pd.DataFrame, method: str, phase: str) -> dict[float, pd.Series]:
    alphas = sorted(select(frame, method=method)["alpha"].unique())
    return {a: scores(frame, method=method, phase=phase, split="train", alpha=a) for a in alphas}


def _fraction(x: float) -> str:
    return {0.25: "¼", 0.5: "½"}.get(x, f"{x:g}")
