"""The README's findings and the page of claims: every number in them is worked out here from committed rows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import claims
from analysis.claims import FAILS, HOLDS, PARTLY, Claim
from analysis.figures import exactness, theta0
from analysis.frames import Sweep, load, scores
from analysis.statistics import Interval, Share, quantile_interval

FOUND, CLAIMS = "found", "claims"  # the blocks of the README and of docs/claims.md
WIDTH = 120


def readme(results: Path) -> str:
    """The README's findings, one bullet each. Raises ResultsError where results are lacking."""
    many, more = (load(results / name) for name in theta0.SWEEPS)
    gridworld, late, navigation = (load(results / name) for name in exactness.SWEEPS)
    remedies = load(results / "curvature_remedies").evaluations
    bullets = (
        _groups(many, more),
        _bottleneck(remedies),
        _exactness(gridworld),
        _elsewhere(gridworld, late, navigation),
    )
    return "\n".join(textwrap.fill(text, WIDTH, initial_indent="* ", subsequent_indent="  ") for text in bullets)


def _groups(many: Sweep, more: Sweep) -> str:
    table = theta0.by_theta0(many, more)
    tests = theta0.statistics(table)
    parts = theta0.variance(table, theta0.judged(many))
    total = sum(parts.values())
    low = [name for name in tests.index if tests.loc[name, "dip_p_corrected"] < 0.05]
    paper, ours = tests.loc["paper"], tests.loc["shared"]
    others = [name for name in low if name.startswith("draw")]
    draws = sum(name.startswith("draw") for name in tests.index)
    return (
        f"**Two groups or one depends on theta^0.** From the paper's, {_share(paper, 'trained')} of a hundred seeds "
        f"train "
        f"at m_h = 1000 and {_share(paper, 'collapsed')} stay collapsed, with a gap between "
        f"({_p(paper['dip_p_corrected'])}, "
        f"dip test, corrected); from ours {_share(ours, 'trained')} and {_share(ours, 'collapsed')}, without; of "
        f"{draws} "
        f"other draws {len(others) or 'none'} shows one. theta^0 explains {100 * parts['theta0'] / total:.0f} % of the "
        f"variance, the seed {100 * parts['seed'] / total:.0f} %."
    )


def _bottleneck(frame: pd.DataFrame) -> str:
    def median(curvature: str, m_h: int, clip: float | None = None) -> str:
        rows = frame[frame["curvature_clip"].isna() if clip is None else frame["curvature_clip"] == clip]
        exact = scores(rows, method="exact", phase="after", split="train", curvature=curvature, m_h=m_h)
        found = quantile_interval(exact)
        return f"{found.estimate:.2f} ({found.low:.2f} to {found.high:.2f})"

    return (
        f"**The bottleneck goes away** (30 seeds, medians). The paper's estimator needs m_h = 1000 for "
        f"{median('paper', 1000)}; `curvature=causal_value` reaches {median('causal_value', 500)} at 500, without "
        f"bias. "
        f"Clipped (`curvature_clip=0.25`), {median('paper', 10, 0.25)} at m_h = 10: stability, not exactness."
    )


def _exactness(gridworld: Sweep) -> str:
    last = exactness.BUDGETS[-1]
    by_alpha = {a: exactness.difference(gridworld, rounds=last, alpha=a, spread=1.0) for a in (0.5, 4.0, 8.0)}
    half = {a: exactness.difference(gridworld, rounds=last, alpha=a, spread=0.5) for a in (2.0, 16.0)}
    return (
        f"**Exactness pays where adaptation steps are long and agents differ.** Gridworld, equal trajectories, F of "
        f"exact "
        f"minus first order: {_signed(by_alpha[0.5])} at alpha = 0.5, {_signed(by_alpha[4.0])} at 4, "
        f"{_signed(by_alpha[8.0])} at 8; with goals on half the border {_signed(half[2.0])} at 2, "
        f"{_signed(half[16.0])} at "
        f"16; with one goal for all never."
    )


def _elsewhere(gridworld: Sweep, late: Sweep, navigation: Sweep) -> str:
    after = exactness.adaptive(gridworld, late, "late", 8.0)
    best = {
        alpha: max(
            (exactness.on_navigation(navigation, alpha=alpha, spread=1.0, m_h=m_h, clip=clip)
             for m_h, clip in ((10.0, None), (10.0, 1.0), (100.0, None))),
            key=lambda found: found.estimate,
        )
        for alpha in (1.0, 4.0)
    }  # fmt: skip
    return (
        f"Exact only late keeps most of it ({_signed(after)} at alpha = 8). On navigation it never pays: the best of "
        f"three "
        f"exact ways is {_signed(best[1.0])} at alpha = 1 and {_signed(best[4.0])} at 4."
    )


def page(results: Path) -> str:
    """docs/claims.md's table."""
    lines = ["| claim | where | what was seen | verdict |", "|---|---|---|---|"]
    lines += [f"| {row.claim} | {row.source} | {row.seen} | {row.verdict} |" for row in rows(results)]
    return "\n".join(lines)


def rows(results: Path) -> Iterable[Claim]:
    """Every claim with what was seen. Raises ResultsError where results are lacking."""
    gridworld, arms = (load(results / name) for name in ("claims_gridworld", "claims_arms"))
    few_shot, personalization = (load(results / name) for name in ("few_shot_100", "personalization"))
    yield from _of_the_theory(arms)
    yield from _of_communication(gridworld)
    order = claims.order(personalization)
    always = [int((order[f"{name}_low"] > 0).sum()) for name in ("exact", "fo")]
    first = int(order.index[order["exact_low"] > 0][0])
    yield Claim(
        "the order exact, first order, FedAvg-PG holds at every round", "appendix, Figure 6",
        f"of {len(order)} evaluations the interval of exact minus first order lies above zero at {always[0]} (from "
        f"round "
        f"{first} on), that of first order minus FedAvg-PG at {always[1]}",
        HOLDS if always == [len(order)] * 2 else PARTLY,
    )  # fmt: skip
    alone = claims.specialist(gridworld)
    yield Claim(
        "in the tabular family a specialist dominates any shared initialisation", "appendix, E",
        f"agents alone, FedAvg-PG's budget and no step, minus F of the exact method: {_signed(alone)}",
        HOLDS if alone.low > 0 else FAILS,
    )  # fmt: skip
    even = claims.break_even(few_shot)
    yield Claim(
        "meta-training is amortised when enough agents adapt", "Section 7",
        f"90 000 trajectories, and each agent saves what it needs from scratch to match zero-shot: after "
        f"{even.estimate:.0f} agents (95 % interval {even.low:.0f} to {even.high:.0f})",
        HOLDS,
    )  # fmt: skip
    reached, last = claims.ends_inside(pd.read_csv(few_shot.directory / "rollouts.csv"))
    yield Claim(
        "success: an episode enters the goal region", "Section 7",
        f"of {reached.n} episodes before any step {_percent(reached.k, reached)} enter it, and "
        f"{_percent(last.k, last)} are in "
        f"it at their last decision: the measure says little of staying",
        "as defined",
    )  # fmt: skip


def _of_the_theory(arms: Sweep) -> Iterable[Claim]:
    met = claims.corollary1(arms)
    ratios = met["average"] / met["epsilon"]
    planned, needed = (met.groupby("epsilon")[name].median() for name in ("rounds", "needed"))
    slope = _slope(needed)
    yield Claim(
        "with Corollary 1's K, tau, beta and batches the average of the squared norm of grad F is at most epsilon",
        "Corollary 1",
        f"two arms, epsilon = {', '.join(f'{e:g}' for e in claims.EPSILON)}: at most {ratios.max():.2f} epsilon; it "
        f"needs "
        f"{(needed / planned).min():.1%} to {(needed / planned).max():.1%} of K, and that grows like "
        f"epsilon^{slope:.1f} "
        f"where K grows like epsilon^-1.5",
        HOLDS if ratios.max() <= 1 else FAILS,
    )  # fmt: skip
    found = claims.stationary(arms).groupby(["tau", "n"])["value"].mean().unstack("tau")
    slopes = {tau: _slope(found[tau]) for tau in found}
    yield Claim(
        "noise falls like 1/n, and only noise", "Theorem 1",
        "two arms, slope of the stationary squared norm of grad F against n: "
        + ", ".join(f"{slope:.2f} at tau = {tau}" for tau, slope in slopes.items()),
        HOLDS if abs(slopes[1] + 1) < 0.25 and slopes[16] > -0.5 else PARTLY,
    )  # fmt: skip
    by_alpha = claims.rounds_to(arms)
    above = _slope(by_alpha[(by_alpha.index >= 0.3) & (by_alpha.index <= 1)])
    yield Claim(
        "above alpha-dagger the rounds to epsilon grow linearly in alpha", "Section 6, R2",
        f"two arms, exact gradients, the largest beta of Theorem 1: {by_alpha.iloc[0]:.0f} rounds at alpha = "
        f"{by_alpha.index[0]:g}, {by_alpha[0.3]:.0f} at 0.3, {by_alpha[1.0]:.0f} at 1 (slope {above:.2f}), "
        f"{by_alpha[3.0]:.0f} at 3, where the start is nearer to the end",
        PARTLY,
    )  # fmt: skip
    products = [m * claims.bias(1.0, m) for m in (1, 4, 16)]
    squares = [claims.bias(alpha, 4) / alpha**2 for alpha in (0.25, 1.0)]
    yield Claim(
        "the direction's bias is of order alpha^2 / m_in, whatever beta, tau and n", "Proposition 1, R3",
        f"three arms, by enumeration: m_in times the bias {', '.join(f'{x:.4f}' for x in products)} for m_in = 1, 4, "
        f"16; "
        f"bias over alpha^2 {squares[0]:.4f} at alpha = 1/4, {squares[1]:.4f} at 1; beta, tau and n do not enter it",
        HOLDS if max(products) < 1.1 * min(products) else PARTLY,
    )  # fmt: skip


def _of_communication(gridworld: Sweep) -> Iterable[Claim]:
    floats = claims.floats_to_level(gridworld).groupby(["fixed", "tau"])["floats"].median().unstack("fixed")
    drift = claims.drift(gridworld).groupby(["fixed", "tau"])["drift"].median().unstack("fixed")
    held, free = floats["beta tau"].dropna(), floats["beta"].dropna()
    yield Claim(
        "local work saves communication only while beta tau grows", "Section 6, R3",
        f"floats until F = {claims.LEVEL:g}: at fixed beta tau {held.iloc[0]:.0f} at tau = {held.index[0]} and "
        f"{held.iloc[-1]:.0f} at {held.index[-1]}; at fixed beta {free.iloc[0]:.0f} at {free.index[0]} and "
        f"{free.iloc[-1]:.0f} at {free.index[-1]}",
        HOLDS if held.max() < 3 * held.min() and free.iloc[0] > 5 * free.iloc[-1] else PARTLY,
    )  # fmt: skip
    kept = drift["beta tau"].dropna()
    yield Claim(
        "client drift is unchanged when tau doubles and beta halves", "Section 6, R3",
        f"{', '.join(f'{x:.2f}' for x in kept)} for tau = {', '.join(f'{tau:g}' for tau in kept.index)} at beta tau "
        "= 1.5: its noise averages out, its mean stays",
        HOLDS if kept.iloc[1:].max() < 1.5 * kept.iloc[1:].min() else PARTLY,
    )  # fmt: skip
    spread = claims.heterogeneity(gridworld).groupby("spread")["value"].max()
    yield Claim(
        "heterogeneity needs no assumption: the mean squared distance of grad J_i from grad f is at most G_J^2",
        "Remark 1",
        f"largest along runs: {', '.join(f'{x:.2g} at spread {s:g}' for s, x in spread.items())}; G_J^2 = "
        f"{claims.G_J**2:.0f}",
        HOLDS if spread.max() <= claims.G_J**2 else FAILS,
    )  # fmt: skip


def _slope(found: pd.Series) -> float:
    """Of logarithms."""
    found = found.dropna()
    return float(np.polyfit(np.log(found.index.to_numpy(float)), np.log(found.to_numpy(float)), 1)[0])


def _share(tests: pd.Series, what: str) -> str:
    return f"{100 * tests[what]:.0f} % ({100 * tests[f'{what}_low']:.0f} to {100 * tests[f'{what}_high']:.0f})"


def _percent(k: int, of: Share) -> str:
    return f"{100 * k / of.n:.0f} % ({100 * of.low:.0f} to {100 * of.high:.0f})"


def _signed(found: Interval) -> str:
    return f"{found.estimate:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
