"""What else the paper claims, held against runs: the numbers behind docs/claims.md and the figure ``claims``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.figures.few_shot import from_scratch, one_step
from analysis.frames import Sweep, by_seed, scores, select
from analysis.statistics import Interval, Share, mean_interval, quantile_interval, wilson

LEVEL = 0.7  # of F, that communication is counted to
FLOATS = 2 * 100 * 8  # of a round on the gridworld: theta down and up, for every agent
G_J = 100 * np.sqrt(2)  # the gridworld's, with the tight constant of a table
GOAL_RADIUS = 0.2
EPSILON = (0.08, 0.05, 0.03)  # of Corollary 1's schedules, as tune_configs/claims_arms.py says
HOLDS, FAILS, PARTLY = "holds", "**does not hold**", "holds in part"


class Claim(NamedTuple):
    """A row: what the paper says and where, what was seen, and whether that agrees."""

    claim: str
    source: str
    seen: str
    verdict: str


def order(personalization: Sweep) -> pd.DataFrame:
    """round -> the median differences exact - first order and first order - FedAvg-PG of F, and their intervals."""
    tables = {
        method: by_seed(personalization.evaluations, "round", method=method, phase="after", split="train")
        for method in ("exact", "first_order", "fedavg_pg")
    }
    rows = []
    for k in tables["exact"].columns[1:]:
        first, second = (
            quantile_interval(tables[a][k] - tables[b][k])
            for a, b in (("exact", "first_order"), ("first_order", "fedavg_pg"))
        )
        rows.append({
            "round": k, "exact": first.estimate, "exact_low": first.low, "exact_high": first.high,
            "fo": second.estimate, "fo_low": second.low, "fo_high": second.high,
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("round")


def floats_to_level(gridworld: Sweep) -> pd.DataFrame:
    """Floats sent until F first reaches LEVEL: columns tau, fixed (what is held, beta tau or beta), seed, floats; nan
    where it never does."""
    rows = select(gridworld.evaluations, method="exact", spread=1.0, phase="after", split="train")
    reached = rows[rows["return"] >= LEVEL].groupby("trial")["round"].min()
    trials = rows.drop_duplicates("trial").set_index("trial")[["tau", "beta", "seed"]]
    found = trials.assign(floats=FLOATS * reached.reindex(trials.index))
    product = np.isclose(found["beta"] * found["tau"], 1.5)
    fixed = found[np.isclose(found["beta"], 0.3)].assign(fixed="beta")
    return pd.concat([found[product].assign(fixed="beta tau"), fixed], ignore_index=True)


def drift(gridworld: Sweep) -> pd.DataFrame:
    """The client drift after the last round: columns tau, fixed, seed, drift."""
    rows = select(gridworld.evaluations, method="exact", spread=1.0, phase="after", split="train")
    last = rows[rows["round"] == rows.groupby("trial")["round"].transform("max")]
    last = last[["tau", "beta", "seed", "drift"]]
    product = np.isclose(last["beta"] * last["tau"], 1.5)
    fixed = last[np.isclose(last["beta"], 0.3)].assign(fixed="beta")
    return pd.concat([last[product].assign(fixed="beta tau"), fixed], ignore_index=True)


def heterogeneity(gridworld: Sweep) -> pd.DataFrame:
    """mean_i ||grad J_i - grad f||^2 along runs: columns spread, round, seed, value."""
    rows = select(gridworld.evaluations, method="exact", tau=5, phase="after", split="train")
    rows = rows[np.isclose(rows["beta"], 0.3) & (rows["round"].max() >= rows["round"])]
    noted = gridworld.metrics[gridworld.metrics["metric"] == "diagnostics/heterogeneity"]
    return rows[["trial", "spread", "round", "seed"]].merge(noted, on=["trial", "round"])


def specialist(gridworld: Sweep) -> Interval:
    """A specialist's return without any step minus F of the exact method, at FedAvg-PG's budget."""
    alone = scores(gridworld.evaluations, method="independent", phase="before", split="train")
    F = scores(
        gridworld.evaluations[np.isclose(gridworld.evaluations["beta"], 0.3)],
        method="exact", tau=5, spread=1.0, phase="after", split="train", round=80,
    )  # fmt: skip
    return mean_interval(alone - F)


def break_even(few_shot: Sweep) -> Interval:
    """How many agents have to adapt for meta-training to have paid: its trajectories over what each of them saves, the
    budget from scratch that first matches zero-shot; over seeds."""
    frame = few_shot.evaluations
    scratch, goal = from_scratch(frame, "return"), one_step(frame, "return")[0].mean()
    spent = 6 * scores(frame, "trajectories", method="first_order", split="held_out", m_adapt="0")
    needed = (scratch >= goal).idxmax(axis=1).astype(float)
    return quantile_interval(spent / needed.reindex(spent.index))


def ends_inside(rollouts: pd.DataFrame) -> tuple[Share, Share]:
    """Of the episodes before any step: how many are in the goal region at some decision, and at the last one."""
    before = rollouts[rollouts["phase"] == "before"]
    inside = np.hypot(before["x"] - before["goal_x"], before["y"] - before["goal_y"]) <= GOAL_RADIUS
    episodes = before.assign(inside=inside).sort_values("h").groupby("episode")["inside"]
    reached, last = episodes.any(), episodes.last()
    return wilson(int(reached.sum()), len(reached)), wilson(int(last.sum()), len(last))


def corollary1(arms: Sweep) -> pd.DataFrame:
    """For each trial of Corollary 1's schedule: epsilon, seed, the average of ||grad F||^2 over the run,
    the rounds of the schedule, and those after which the average so far is at most epsilon."""
    rows = []
    for epsilon, trials in _scheduled(arms):
        for trial, seed in zip(trials["trial"], trials["seed"], strict=True):
            noted = _gradient2(arms, trial)
            so_far = noted.expanding().mean()
            met = so_far[so_far <= epsilon]
            rows.append({
                "epsilon": epsilon, "seed": seed, "average": float(noted.mean()), "rounds": int(noted.index.max()),
                "needed": float(met.index[0]) if len(met) else np.nan,
            })  # fmt: skip
    return pd.DataFrame(rows)


def stationary(arms: Sweep) -> pd.DataFrame:
    """n, tau, seed, the average of ||grad F||^2 after the first third of the rounds."""
    trials = arms.trials[(arms.trials["alpha"] == 2.0) & (arms.trials["oracle"] == "fused")]
    rows = []
    for trial, n, tau, seed in trials[["trial", "n", "tau", "seed"]].itertuples(index=False):
        noted = _gradient2(arms, trial)
        rows.append(
            {"n": n, "tau": tau, "seed": seed, "value": float(noted[noted.index >= noted.index.max() / 3].mean())}
        )
    return pd.DataFrame(rows)


def rounds_to(arms: Sweep, epsilon: float = 0.02) -> pd.Series:
    """alpha -> rounds until ||grad F||^2 <= epsilon with exact gradients and the largest beta of Theorem 1."""
    trials = arms.trials[arms.trials["oracle"] == "exact"].drop_duplicates("alpha")
    found = {}
    for trial, alpha in trials[["trial", "alpha"]].itertuples(index=False):
        noted = _gradient2(arms, trial)
        met = noted[noted <= epsilon]
        found[float(alpha)] = float(met.index[0]) if len(met) else np.nan
    return pd.Series(found).sort_index()


def bias(alpha: float, m_in: int) -> float:
    """||E d - grad F_i|| of (7) by enumeration of D_in: one state, three arms that pay 1, 0.2 and 0, at theta = (0.3,
    -0.2, 0.1); D_h and D_out in their mean."""
    r, theta = np.array([1.0, 0.2, 0.0]), np.array([0.3, -0.2, 0.1])

    def p(at: NDArray[np.float64]) -> NDArray[np.float64]:
        weights = np.exp(at - at.max())
        return np.asarray(weights / weights.sum())

    def gradient(at: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(p(at) * (r - p(at) @ r))

    here = p(theta)
    excess = here * (r - here @ r)
    H = np.diag(excess) - np.outer(excess, here) - np.outer(here, excess)
    mean = np.zeros(3)
    for first in range(m_in + 1):
        for second in range(m_in + 1 - first):
            counts = np.array([first, second, m_in - first - second])
            g_in = (counts * r)[:, None] * (np.eye(3) - here)
            chance = float(stats.multinomial.pmf(counts, m_in, here))
            mean += chance * gradient(theta + alpha * g_in.sum(axis=0) / m_in)
    factor = np.eye(3) + alpha * H
    return float(np.linalg.norm(factor @ (mean - gradient(theta + alpha * gradient(theta)))))


def _scheduled(arms: Sweep) -> Iterator[tuple[float, pd.DataFrame]]:
    """The trials of each schedule; a larger epsilon has fewer rounds."""
    trials = arms.trials[arms.trials["alpha"] == 0.02]
    for epsilon, (_, found) in zip(EPSILON, trials.groupby("rounds"), strict=True):
        yield epsilon, found


def _gradient2(arms: Sweep, trial: str) -> pd.Series:
    """round -> ||grad F||^2."""
    noted = arms.metrics[(arms.metrics["trial"] == trial) & (arms.metrics["metric"] == "diagnostics/gradient_norm")]
    return noted.set_index("round")["value"].sort_index() ** 2
