"""pMeta-RL: the shared and the personal policies' returns, for both penalties."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep, select


def panel(axis: Axes, sweep: Sweep) -> str:
    """The mean return against rounds: personal policies darker, the shared one lighter, a colour for each lambda."""
    axis.set_title("pMeta-RL, on the gridworld")
    rows = select(sweep.evaluations, split="train")
    rises = []
    for colour, (lam, of_lam) in zip((style.BLUE, style.GREEN, style.VERMILLION), rows.groupby("lam"), strict=False):
        for (penalty, phase), along in of_lam.groupby(["penalty", "phase"]):
            returns = along.groupby("round")["return"].median()
            axis.plot(
                returns.index, returns, color=colour, linestyle="-" if penalty == "l2" else (0, (4, 2)),
                alpha=1.0 if phase == "after" else 0.45, linewidth=1.3,
                label=f"$\\lambda$ = {lam:g}, {'KL' if penalty == 'kl' else 'squared'}" if phase == "after" else None,
            )  # fmt: skip
            rises.append(float(returns.iloc[-1] - returns.loc[returns.index >= 0.8 * returns.index[-1]].iloc[0]))
    axis.set(xlabel="communication round $k$", ylabel="mean return")
    axis.legend(fontsize=7, loc="lower right", ncols=2)
    return (
        "Dark: the personal policies, pale: the shared one. In the last fifth of the rounds the returns still rise by "
        f"{min(rises):.3f} to {max(rises):.3f}."
    )
