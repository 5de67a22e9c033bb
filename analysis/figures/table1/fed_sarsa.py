"""FedSARSA: the distance of the shared values from each agent's own, against n and what is an agent's own."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep


def panel(axis: Axes, sweep: Sweep) -> str:
    """A line for each heterogeneity, and below it what is there without noise."""
    axis.set_title("FedSARSA, on random MDPs")
    found = pd.read_csv(sweep.directory / "distances.csv")
    noisy, silent = found[found["seed"].notna()], found[found["seed"].isna()]
    means = against_n(axis, noisy, "eps", "$\\varepsilon$ = {:g}")
    for (eps, rows), (colour, _, _) in zip(silent.groupby("eps"), style.SERIES, strict=False):
        if eps:
            rows = rows[rows["n"] > 1]
            axis.plot(rows["n"], rows["squared_distance"], color=colour, linewidth=0.7)
    axis.set_ylabel("mean $\\|\\theta - \\theta_i^*\\|^2$")
    most = int(noisy["n"].max())
    gaps = silent[(silent["n"] == most) & (silent["eps"] > 0)].set_index("eps")["squared_distance"]
    ends = "; ".join(f"{means[eps][most]:.3g} ({gap:.3g}) for {eps:g}" for eps, gap in gaps.items())
    return (
        f"FedSARSA, a share $\\varepsilon$ of kernel and reward the agent's own: equal agents' distance times n is "
        f"{', '.join(f'{n * x:.3g}' for n, x in means[0.0].items())}; for {most} others it ends at {ends}, in brackets "
        "and thin without noise."
    )


def against_n(axis: Axes, found: pd.DataFrame, by: str, label: str) -> dict[float, pd.Series]:
    """The mean over seeds of the squared distance, with its standard error, a line for each value of a setting; and
    1/n from where the first begins. Returns the means by n."""
    means = {}
    for (value, rows), (colour, dash, marker) in zip(found.groupby(by), style.SERIES, strict=False):
        distances = rows.groupby("n")["squared_distance"]
        mean, error = distances.mean(), distances.std(ddof=1) / np.sqrt(distances.size())
        axis.errorbar(
            mean.index, mean, error, color=colour, linestyle=dash, marker=marker, markersize=3.5, linewidth=1.3,
            label=label.format(value),
        )  # fmt: skip
        means[float(value)] = mean
    first = means[min(means)]
    axis.plot(first.index, first.iloc[0] * first.index[0] / first.index, color=style.GREY, linewidth=0.8, label="$1/n$")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(list(first.index), [str(n) for n in first.index])
    axis.set_xlabel("agents $n$")
    axis.legend(fontsize=7)
    return means
