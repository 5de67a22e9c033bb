"""This paper: the norm of grad F falls to 0 along (7), and to a floor of order alpha without the curvature factor."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep

SMALLEST = 1e-12  # below it, rounding


def panel(axis: Axes, sweep: Sweep) -> str:
    """||grad F|| against rounds."""
    axis.set_title("this paper, on the bandit")
    return gradient_norms(axis, sweep)


def gradient_norms(axis: Axes, sweep: Sweep) -> str:
    """||grad F|| against rounds on a log scale, a line for each method and alpha, the darker the larger alpha."""
    rows = sweep.metrics[sweep.metrics["metric"] == "diagnostics/gradient_norm"]
    rows = rows.merge(sweep.trials[["trial", "method", "alpha"]], on="trial")
    floors = dict[str, list[float]]()
    alphas = sorted(rows["alpha"].unique())
    for method, of_method in rows.groupby("method"):
        look = style.look(str(method))
        for alpha, along in of_method.groupby("alpha"):
            norms = along.groupby("round")["value"].median()
            shade = 0.35 + 0.65 * (alphas.index(alpha) + 1) / len(alphas)
            label = look.label if alpha == alphas[-1] else None
            axis.plot(
                norms.index, np.maximum(norms, SMALLEST), color=look.colour, linestyle=look.dash, alpha=shade,
                linewidth=1.3, label=label,
            )  # fmt: skip
            if method != "exact":
                floors.setdefault(look.label, []).append(norms.iloc[-1] / alpha)
    axis.set_yscale("log")
    axis.set(xlabel="communication round $k$", ylabel="$\\|\\nabla F\\|$")
    axis.legend(fontsize=7, loc="center right")
    shown = ", ".join(f"{alpha:g}" for alpha in alphas)
    ended = "; ".join(
        f"{label}'s floor over $\\alpha$: {', '.join(f'{ratio:.3f}' for ratio in ratios)}"
        for label, ratios in floors.items()
    )
    return f"$\\|\\nabla F\\|$ for $\\alpha$ = {shown}, the darker the larger; {ended}."
