"""SG-MRL: with its score term the mean of N directions is the gradient of V; without it a bias is left."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep


def panel(axis: Axes, sweep: Sweep) -> str:
    """The error of the mean of N directions, over ||grad V||, against N."""
    axis.set_title("SG-MRL, on the bandit")
    table = pd.read_csv(sweep.directory / "bias.csv")
    table = table.assign(error=table["error"] / table["size"])
    for (colour, dash, marker), score in zip(style.SERIES, ("with", "without"), strict=False):
        errors = table[table["score_term"] == score].pivot(index="repetition", columns="directions", values="error")
        rms = (errors**2).mean() ** 0.5
        axis.plot(
            rms.index, rms, color=colour, linestyle=dash, marker=marker, label=f"{score} the score term"
        )  # fmt: skip
        axis.plot(
            errors.columns, errors.T, color=colour, marker=".", markersize=2.5, linestyle="", alpha=0.5
        )  # fmt: skip
        if score == "with":
            axis.plot(
                rms.index, rms.iloc[0] * (rms.index[0] / rms.index) ** 0.5, color=style.GREY, linewidth=0.9,
                linestyle=(0, (1, 1)), label="$\\propto 1/\\sqrt{N}$",
            )  # fmt: skip
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set(xlabel="directions $N$", ylabel="relative error of their mean")
    axis.legend(fontsize=7, loc="lower left")
    return f"Root mean square over {table['repetition'].nunique()} repetitions, which are the points."
