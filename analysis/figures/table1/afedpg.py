"""AFedPG and Per-FedAvg-PG, on the event clock and in rounds: what is returned after the same time."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep


def panel(axis: Axes, sweep: Sweep) -> str:
    """The return after adaptation at time T against the slowest agent's time a task, a line for each method and
    clock."""
    axis.set_title("AFedPG, one agent ever slower")
    rows = sweep.evaluations
    rows = rows[(rows["split"] == "train") & (rows["phase"] == "after")]
    last = rows[rows["round"] == rows.groupby("trial")["round"].transform("max")]
    T = sweep.metrics.loc[sweep.metrics["metric"] == "time", "value"].max()
    for (method, clock), found in last.groupby(["method", "clock"]):
        events = clock == "events"
        slowest = found["task_times"].map(slowest_of) if events else T / found["round"]
        colour = style.BLUE if method == "afedpg" else style.VERMILLION
        name = "AFedPG" if method == "afedpg" else "Per-FedAvg-PG"
        at = found.assign(slowest=slowest).groupby("slowest")["return"].median()
        axis.plot(
            at.index, at, color=colour, linestyle="-" if events else (0, (4, 2)), marker="o" if events else "s",
            label=f"{name}, {'on arrival' if events else 'in rounds'}",
        )  # fmt: skip
    axis.set_xscale("log", base=2)
    axis.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axis.set(xlabel="time that the slowest agent takes for a task", ylabel="return after adaptation")
    axis.legend(fontsize=7, loc="lower left")
    steps = last.groupby("clock")["round"].agg(["min", "max"])
    arrival, waiting = (f"{low} to {high}" for low, high in steps.itertuples(index=False))
    return f"After {T:g} units of time, {arrival} steps of the server on arrival and {waiting} in rounds; exact oracle."


def slowest_of(times: str) -> float:
    """The largest of what trials.csv calls task_times."""
    return max(map(float, str(times).split()))
