"""How noisy the curvature term is: its squared error against m_h for every estimator, at theta^0 and trained."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis import escape
from analysis.figures import style
from analysis.figures.curvature_remedies import LOOKS
from analysis.frames import ResultsError, by_seed

FILE = "curvature_noise/noise.csv"
COLUMNS = ("population", "parameters", "seed", "curvature", "m_h", "squared_error", "relative_error")
PARAMETERS = {"initial": "at $\\theta^0$", "trained": "trained"}


def read(path: Path) -> pd.DataFrame:
    """``noise.csv``: one row a population, parameters, seed, estimator and m_h."""
    if not path.is_file():
        raise ResultsError(f"{path.parent}: no {path.name}; write it by running tune_configs/curvature_noise.py")
    frame = pd.read_csv(path)
    lacking = [c for c in COLUMNS if c not in frame]
    if lacking:
        raise ResultsError(f"{path}: no column {', '.join(lacking)}; was it written by another program?")
    return frame


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """alpha^2 ||H_hat v - hess J v||^2 / ||v||^2 for v = g_out, one panel a population and parameters."""
    pairs = [(population, name) for population in sorted(frame["population"].unique()) for name in PARAMETERS]
    figure, axes = style.panels(len(pairs), 2.5 * len(pairs), 3.5)
    curves = []
    for panel, (population, name) in zip(axes, pairs, strict=True):
        for curvature, look in LOOKS.items():
            table = by_seed(frame, "m_h", "relative_error", population=population, parameters=name, curvature=curvature)
            style.curve(panel, table, look)
            curves.append(table)
        panel.axhline(1, color=style.GREY, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="Hessian batch $m_h$",
            title=f"{escape.mathtext(population)}, {PARAMETERS[name]}",
        )
    axes[0].set_ylabel("squared error / squared outer gradient")
    handles, labels = axes[0].get_legend_handles_labels()
    style.legend(figure, handles, labels, len(labels))
    style.caption(
        figure,
        "Squared error of $\\alpha \\hat{H} g_{out}$ over $||g_{out}||^2$; above 1 (dotted) the noise of the curvature "
        f"term is larger than the outer gradient. {style.seeds_and_band(curves)}",
    )
    return figure
