"""MAML-LQR: what adaptation leaves above each system's own optimum, on systems that differ more and more."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep
from raypfrl.populations.lqr import LqrTask, lqr

NAMES = {"maml_lqr": "exact", "maml_lqr_first_order": "first order", "fedavg_pg": "FedAvg-PG (shared)"}
STEP = 0.03  # beta of the lines


def panel(axis: Axes, sweep: Sweep) -> str:
    """The adapted cost above the systems' own optima against spread, and what was refused."""
    axis.set_title("MAML-LQR")
    adapted = last_adapted(sweep)
    lines = adapted[(adapted["beta"] == STEP) & (adapted["oracle"] == "exact")]
    for (method, label), (colour, dash, marker) in zip(NAMES.items(), style.SERIES, strict=False):
        along = lines[lines["method"] == method].sort_values("spread")
        axis.plot(along["spread"], along["excess"], color=colour, linestyle=dash, marker=marker, label=label)
    rollouts = adapted[adapted["oracle"] == "zeroth_order"]
    axis.plot(
        rollouts["spread"], rollouts["excess"], color=style.BLACK, marker="x", linestyle="", markersize=6,
        label="exact, from rollouts", zorder=5,
    )  # fmt: skip
    top = 5 * adapted.loc[adapted["refused"] == 0, "excess"].max()
    for row in lines[lines["excess"] > top].itertuples():
        axis.annotate(
            f"{row.excess:.0f}", (float(row.spread), top), (-4, -2), textcoords="offset points", ha="right", va="top",
            fontsize=7, color=style.SERIES[list(NAMES).index(str(row.method))][0],
        )  # fmt: skip
    axis.set_yscale("log")
    axis.set_ylim(None, top)
    axis.set(xlabel="spread of the systems", ylabel="adapted cost above the optimum")
    axis.legend(fontsize=7, loc="lower right")
    counted = adapted[adapted["refused"] > 0]
    refused = ", ".join(
        f"{row.refused:.0f} ({NAMES[str(row.method)]}, spread {row.spread:g}, $\\beta$ = {row.beta:g})"
        for row in counted.itertuples()
    )
    return f"Cost after one exact step, mean over four systems, 60 rounds. Steps refused: {refused}; none elsewhere."


def last_adapted(sweep: Sweep) -> pd.DataFrame:
    """The last round's rows after adaptation, of the systems that learn, with ``excess``, the adapted cost above the
    mean of the systems' optima, and ``refused``."""
    rows = sweep.evaluations
    rows = rows[(rows["split"] == "train") & (rows["phase"] == "after")]
    rows = rows[rows["round"] == rows["round"].max()]
    refused = sweep.metrics[sweep.metrics["metric"] == "refused"].groupby("trial")["value"].max()
    optima = {spread: optimum(spread) for spread in rows["spread"].unique()}
    excess = -rows["return"] - rows["spread"].map(optima)
    return rows.assign(excess=excess, refused=rows["trial"].map(refused).fillna(0))


def optimum(spread: float) -> float:
    """mean_i of system i's least cost, by its Riccati equation."""
    systems = [task for task in lqr(spread=spread).train if isinstance(task, LqrTask)]
    return float(np.mean([-system.closed_form().objective(system.optimum()) for system in systems]))
