"""pFedMe: the Moreau envelope's optimum, which is known in closed form on the quadratic."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep, select
from raypfrl.populations.quadratic import TRAIN


def panel(axis: Axes, sweep: Sweep) -> str:
    """The loss at the shared w and at the personal thetas against lambda, and the closed form's."""
    axis.set_title("pFedMe, on the quadratic")
    last = select(sweep.evaluations, round=int(sweep.evaluations["round"].max()), split="train")
    furthest = 0.0
    for phase, look, known in zip(("before", "after"), style.SERIES, (shared, personal), strict=False):
        colour, dash, marker = look
        seen = select(last, phase=phase).set_index("lam")["return"].sort_index()
        lam = np.geomspace(seen.index[0], seen.index[-1], 100)
        axis.plot(lam, [-known(each) for each in lam], color=colour, linestyle=dash, linewidth=1.2)
        label = {"before": "shared $w$", "after": "personal $\\theta_i(w)$"}[phase]
        axis.plot(seen.index, -seen, color=colour, marker=marker, linestyle="", label=label)
        furthest = max(furthest, *(abs(J - known(lam)) for lam, J in seen.items()))
    axis.set_xscale("log")
    axis.set(xlabel="$\\lambda$", ylabel="mean loss $-J_i$", ylim=(0, None))
    axis.legend(loc="center right")
    lines = f"lines: the closed form, from which no point is further than {furthest:.1e}"
    return f"After {last['round'].iloc[0]} rounds; {lines}."


def shared(lam: float) -> float:
    """mean_i J_i(w) at the envelope's optimum: the mean of the c_i weighted by a_i lambda / (a_i + lambda)."""
    a, c = np.array(TRAIN).T
    return float((-a * (_optimum(lam) - c) ** 2 / 2).mean())


def personal(lam: float) -> float:
    """mean_i J_i(theta_i(w)) there, with theta_i(w) = (a_i c_i + lambda w) / (a_i + lambda)."""
    a, c = np.array(TRAIN).T
    theta = (a * c + lam * _optimum(lam)) / (a + lam)
    return float((-a * (theta - c) ** 2 / 2).mean())


def _optimum(lam: float) -> float:
    a, c = np.array(TRAIN).T
    weights = a * lam / (a + lam)
    return float((weights * c).sum() / weights.sum())
