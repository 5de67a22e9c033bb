"""FedPG: the return that one policy for all costs, against what is an agent's own."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep


def panel(axis: Axes, sweep: Sweep) -> str:
    """A line for each n: the mean over draws of the gap, with its standard error."""
    axis.set_title("FedPG, on random MDPs")
    rows = sweep.evaluations[(sweep.evaluations["split"] == "train") & (sweep.evaluations["m_adapt"] == "0")]
    ends = rows[rows["round"] == rows["round"].max()]
    returns = ends.pivot_table(index=["n", "draw", "eps_p"], columns="method", values="return")
    gaps = (returns["independent"] - returns["fedavg_pg"]).groupby(["n", "eps_p"])
    mean, error = gaps.mean(), gaps.std(ddof=1) / np.sqrt(gaps.size())
    ns, shares = mean.index.levels
    for place, (n, (colour, dash, marker)) in enumerate(zip(ns, style.SERIES, strict=False)):
        beside = shares + 0.006 * (place - 1)  # so that no bar hides another
        axis.errorbar(
            beside, mean[n], error[n], color=colour, linestyle=dash, marker=marker, markersize=3.5,
            linewidth=1.3, label=f"$n$ = {n}",
        )  # fmt: skip
    axis.set(xlabel="share $\\varepsilon$ that is an agent's own", ylabel="return, alone less shared")
    axis.set_xticks(list(shares))
    axis.legend(fontsize=7, loc="upper left")
    most = max(shares)
    said = ", ".join(f"{mean[n][most]:.3f} $\\pm$ {error[n][most]:.3f} for {n} agents" for n in ns)
    return f"FedPG: what the shared policy costs at $\\varepsilon$ = {most:g} is {said}."
