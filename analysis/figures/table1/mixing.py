"""Mixing: stationarity along first-order and along zeroth-order gradients, at equal rollouts."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep


def panel(axis: Axes, sweep: Sweep) -> str:
    """The root mean square over the agents of ||grad J_i|| at their mixtures, against rollouts."""
    axis.set_title("mixing, on the gridworld")
    measured = sweep.metrics.pivot_table(index=["trial", "round"], columns="metric", values="value")
    size = np.sqrt(measured["diagnostics/gradient_norm"] ** 2 + measured["diagnostics/heterogeneity"])
    rows = sweep.evaluations[sweep.evaluations["split"] == "train"].merge(size.rename("size").reset_index())
    returns = []
    groups = rows.groupby(["method", "beta"], sort=False)
    for (colour, dash, marker), ((method, beta), along) in zip(style.SERIES, groups, strict=False):
        order = "first order" if method == "mixing" else "zeroth order"
        look = style.Look(f"{order}, $\\beta$ = {beta:g}", colour, dash, marker)
        style.curve(axis, along.pivot(index="seed", columns="trajectories", values="size"), look)
        at_equal = along[along["round"] == rows.groupby("trial")["round"].max().min()]["return"]
        returns.append(f"{at_equal.median():.2f}")
    axis.set_yscale("log")
    axis.set(xlabel="trajectories an agent", ylabel="rms of $\\|\\nabla J_i\\|$ at $\\bar\\theta_i$")
    axis.legend(fontsize=7)
    seeds = rows["seed"].nunique()
    return (
        f"Median and range over {seeds} seeds. Returns where the shorter lines end, in the legend's order: "
        f"{', '.join(returns)}; a small gradient beside a small return is a plateau."
    )
