"""FedNPG: the return's distance to that of the soft optimum of the averaged reward, against rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.frames import Sweep
from raypfrl.populations import garnet

SMALLEST = 1e-13  # below it, rounding
LOOKS = {
    ("star", True): ("star", style.BLUE, "-"),
    ("ring", True): ("ring, tracked", style.VERMILLION, (0, (6, 2))),
    ("ring", False): ("ring, not tracked", style.GREEN, (0, (1.5, 1.5))),
    ("none", False): ("nobody", style.PURPLE, (0, (6, 2, 1.5, 2))),
}


def panel(axis: Axes, sweep: Sweep) -> str:
    """A line for each network and eta, the darker the larger."""
    axis.set_title("FedNPG, on random MDPs")
    etas = sorted(sweep.trials["eta"].unique())
    found: dict[tuple[str, bool], dict[float, tuple[float, float]]] = {}
    for _, trial in sweep.trials.iterrows():
        way, eta = (str(trial["topology"]), _is_true(trial["tracking"])), float(trial["eta"])
        away = distance(sweep, trial)
        label, colour, dash = LOOKS[way]
        axis.plot(
            away.index, np.maximum(away, SMALLEST), color=colour, linestyle=dash, linewidth=1.3,
            alpha=0.35 + 0.65 * (etas.index(eta) + 1) / len(etas), label=label if eta == etas[-1] else None,
        )  # fmt: skip
        found.setdefault(way, {})[eta] = rate(away), float(away.iloc[-1])
    axis.set_yscale("log")
    axis.set(xlabel="communication round $k$", ylabel="$|J(\\pi^k) - J(\\pi^*)|$")
    axis.legend(fontsize=7, loc="center right")
    omega = float(sweep.trials["omega"].iloc[0])
    said = [f"{', '.join(f'{found[way, True][eta][0]:.4f}' for eta in etas)} on the {way}" for way in ("star", "ring")]
    return (
        f"FedNPG, $\\eta$ = {', '.join(f'{eta:g}' for eta in etas)}, the darker the larger: the return falls to that "
        f"of "
        f"the soft optimum by a factor a round of {' and '.join(said)}, where $1-\\eta\\omega$ is "
        f"{', '.join(f'{1 - eta * omega:.4f}' for eta in etas)}; without tracking it ends "
        f"{found['ring', False][etas[-1]][1]:.2g} off, alone {found['none', False][etas[-1]][1]:.2g}."
    )


def distance(sweep: Sweep, trial: Any) -> pd.Series:
    """|J - J*| of one trial by its round, J the mean over the agents of the return of each one's own policy."""
    rows = sweep.evaluations[(sweep.evaluations["trial"] == trial["trial"]) & (sweep.evaluations["split"] == "train")]
    return (rows.set_index("round")["return"].sort_index() - soft_optimum(trial)).abs()


def rate(away: pd.Series) -> float:
    """The factor a round by which it falls between a hundredth of its start and 1e-10: a line through its logarithm."""
    within = away[(away < 1e-2 * away.iloc[0]) & (away > 1e-10)]
    if len(within) < 3:
        return float("nan")
    return float(np.exp(np.polyfit(within.index, np.log(within), 1)[0]))


def soft_optimum(trial: Any) -> float:
    """J without entropy of the policy that maximises it with, of the MDP with the averaged reward: soft value
    iteration, and a solve."""
    gamma, omega = float(trial["gamma"]), float(trial["omega"])
    population = garnet(n=int(trial["n"]), gamma=gamma, eps_p=0.0, eps_r=float(trial["eps_r"]))
    mdps = [task.mdp() for task in population.train]  # type: ignore[union-attr]
    shared: Any = mdps[0].P
    P, r = shared.dense(), np.mean([mdp.r for mdp in mdps], axis=0)
    V = np.zeros(len(r))
    for _ in range(1000):
        Q = r + gamma * P @ V
        V = omega * np.log(np.exp(Q / omega).sum(-1))
    pi = np.exp((Q - V[:, None]) / omega)
    chain = (pi[..., None] * P).sum(1)
    return float(mdps[0].mu @ np.linalg.solve(np.eye(len(r)) - gamma * chain, (pi * r).sum(-1)))


def _is_true(cell: Any) -> bool:
    return str(cell) == "True"
