"""The paper's constants and bounds for one run, as a readable table, and in words where they say nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from raypfrl.policies.scores import UNBOUNDED, Scored, Scores
from raypfrl.populations.population import Tabular
from raypfrl.theory import (
    Problem,
    Terms,
    corollary1,
    drift_budget,
    first_order_floor,
    first_order_residual,
    gradient_gap,
    regime,
    theorem1,
    value_gap,
)

if TYPE_CHECKING:
    from raypfrl.populations import Population


class Reading(NamedTuple):
    """The problems that a population poses in the paper's and in the tight constants, and what must be said first.

    Where Assumption 2 fails, ``paper`` is None, or the constants of a smaller problem that the caveat names.
    """

    paper: Problem | None
    tight: Problem | None
    caveat: str


def reading(population: Population) -> Reading:
    """Assumptions 1 and 2 for a population; without an ``mdp`` its rewards are taken to lie in [-1, 1]."""
    rewards = [np.abs(task.mdp().r).max() for task in population.train if isinstance(task, Tabular)]
    R_max = float(max(rewards, default=1.0))

    def problem(scores: Scores | None) -> Problem | None:
        return scores and Problem(R_max, population.gamma, population.horizon, scores)

    policy = population.policy
    paper, tight, caveat = policy.scores() if isinstance(policy, Scored) else UNBOUNDED
    return Reading(problem(paper), problem(tight), caveat)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as aligned columns, the first row as the heading."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(len(line) for line in lines), *lines[1:]])


def number(x: float | str) -> str:
    """A cell of a table: three significant digits, whole numbers below a million in full, thousands apart: 244 000."""
    if isinstance(x, str):
        return x
    whole = math.isclose(x, round(x), rel_tol=1e-9)
    if abs(x) < 1e6 and (whole or abs(x) >= 1000):
        digits = f"{round(x) if whole else round(float(f'{x:.3g}')):,}"
        return digits.replace(",", " " if abs(x) >= 1e4 else "")
    return f"{x:.3g}"


class _Run(NamedTuple):
    """The settings that a report is about."""

    n: int
    alpha: float
    beta: float
    tau: int
    rounds: int
    m_in: int
    m_h: int
    m_out: int
    epsilon: float


def _theorem1(problem: Problem, run: _Run) -> Terms:
    return theorem1(
        delta=2 * problem.Rbar, beta=run.beta, tau=run.tau, rounds=run.rounds, n=run.n,
        L_F=problem.L_F(run.alpha), G_F=problem.G_F(run.alpha), b_hat=problem.b_hat(run.alpha, run.m_in),
        sigma2=problem.sigma2(run.alpha, run.m_in, run.m_h, run.m_out),
    )  # fmt: skip


def _constants(p: Problem, run: _Run) -> list[tuple[str, float | str, str]]:
    alpha, m_in, m_h, m_out = run.alpha, run.m_in, run.m_h, run.m_out
    return [
        ("G", p.scores.G, "||grad log pi|| is at most G"),
        ("M", p.scores.M, "||hess log pi|| is at most M"),
        ("Lambda", p.scores.Lambda, "Lipschitz constant of hess log pi"),
        ("Rbar", p.Rbar, "|J| and |F| are at most Rbar"),
        ("G_J", p.G_J, "bound on a policy gradient, on every trajectory"),
        ("L_J", p.L_J, "bound on a Hessian of J, on every trajectory"),
        ("rho_J", p.rho_J, "Lipschitz constant of the Hessian of J"),
        ("G_F", p.G_F(alpha), "bound on the meta-gradient and on every estimate of it"),
        ("L_F", p.L_F(alpha), "Lipschitz constant of the meta-gradient"),
        ("b_hat", p.b_hat(alpha, m_in), "bound on the bias of the exact method's direction (Lemma 3)"),
        ("b_hat_star", p.b_hat_star(alpha, m_in), "the same by Proposition 1: falls like 1/m_in, not 1/sqrt(m_in)"),
        ("sigma2", p.sigma2(alpha, m_in, m_h, m_out), "bound on its mean squared error"),
        ("b_FO", p.b_FO(alpha, m_in), "bound on the bias of first order: stays however large m_in"),
        ("sigma2_FO", p.sigma2_FO(alpha, m_in, m_out), "bound on its mean squared error"),
    ]


def _bounds(p: Problem, run: _Run) -> list[tuple[str, float | str, str]]:
    terms, G_J, L_J, G_F, L_F = _theorem1(p, run), p.G_J, p.L_J, p.G_F(run.alpha), p.L_F(run.alpha)
    return [
        ("1/(2 L_J)", 1 / (2 * L_J), "R2: the largest moderate alpha"),
        ("alpha_dagger", p.alpha_dagger, "R2: above this alpha the third-order term dominates L_F"),
        ("1/(6 L_F)", 1 / (6 * L_F), "the largest beta that Theorem 1 covers"),
        ("beta tau", drift_budget(run.epsilon, L_F, G_F), "R3: the largest beta tau before client drift dominates"),
        ("optimization", terms.optimization, "Theorem 1, with max F - F(theta^0) <= 2 Rbar: falls with rounds"),
        ("drift", terms.drift, "Theorem 1: exactly 0 at tau = 1"),
        ("bias", terms.bias, "Theorem 1: falls only with m_in"),
        ("variance", terms.variance, "Theorem 1: the only term that falls with n"),
        ("sum", terms.total, "Theorem 1: bound on the average of ||grad F||^2"),
        ("G_F^2", G_F**2, "what Lemma 2 says of ||grad F||^2 without any training"),
        ("floor", first_order_floor(run.alpha, L_J, G_J), "Corollary 2: first order's bias term as m_in grows"),
        ("residual", first_order_residual(run.alpha, L_J, G_J), "Proposition 2: bound on ||grad F|| where it rests"),
        ("gradient gap", gradient_gap(run.alpha, L_J, G_J), "Proposition 3: bound on ||grad F - grad f||"),
        ("value gap", value_gap(run.alpha, G_J), "Proposition 3: bound on |F - f|"),
    ]


def _schedule(p: Problem, run: _Run) -> list[tuple[str, float | str, str]]:
    """Corollary 1 by Lemma 3, then by Proposition 1; dashes where epsilon is out of its range."""
    names, rows = ["m_in", "tau", "beta", "rounds", "trajectories"], []
    for by, sharp in (("by Lemma 3", False), ("by Proposition 1", True)):
        values: list[float | str] = ["-"] * len(names)
        if run.epsilon <= p.G_F(run.alpha) ** 2 / 6:
            s = corollary1(p, alpha=run.alpha, epsilon=run.epsilon, n=run.n, delta=2 * p.Rbar, sharp=sharp)
            values = [s.m_in, s.tau, s.beta, s.rounds, s.trajectories]
        rows += [(name, value, by) for name, value in zip(names, values, strict=True)]
    return rows


def _verdict(p: Problem, run: _Run, kind: str) -> str:
    """What the constants say of this run, in words."""
    G_F, moderate, ceiling = p.G_F(run.alpha), 1 / (2 * p.L_J), 1 / (6 * p.L_F(run.alpha))
    size = f"G_J = {number(p.G_J)}, L_J = {number(p.L_J)}, rho_J = {number(p.rho_J)}"
    times = f", {number(run.alpha / moderate)} times the largest moderate one," if run.alpha > moderate else ""
    lines = [f"With the {kind} constants ({size}):", f"alpha = {run.alpha:g}{times} is {regime(run.alpha, p.L_J)}."]
    if run.beta > ceiling:
        lines.append(f"beta = {run.beta:g} is {number(run.beta / ceiling)} times the largest that Theorem 1 covers:")
        lines.append("it says nothing of this run, and its terms are shown for their size only.")
    trivial = {
        "Theorem 1's sum": (_theorem1(p, run).total, G_F**2, "G_F^2"),
        "b_hat": (p.b_hat(run.alpha, run.m_in), 2 * G_F, "2 G_F"),
        "Proposition 3's |F - f|": (value_gap(run.alpha, p.G_J), 2 * p.Rbar, "2 Rbar"),
    }
    lines += [
        f"{name} is vacuous: {number(bound / known)} times {by}, which holds anyway."
        for name, (bound, known, by) in trivial.items()
        if bound >= known
    ]
    if run.epsilon > G_F**2 / 6:
        lines.append(
            f"epsilon = {run.epsilon:g} is above G_F^2 / 6 = {number(G_F**2 / 6)}: Corollary 1 has no schedule."
        )
    if run.beta <= ceiling and trivial["Theorem 1's sum"][0] < G_F**2:
        lines.append("Theorem 1 covers this run and says more than Lemma 2.")
    return "\n  ".join(lines) + "\n"


def report(
    population: Population,
    *,
    alpha: float,
    beta: float,
    tau: int,
    rounds: int,
    m_in: int,
    m_h: int,
    m_out: int,
    n: int | None = None,
    epsilon: float = 0.01,
) -> str:
    """Every constant and bound of the paper for a run with these settings, and in plain words which say nothing.

    n is by default the population's. Raises ValueError for a setting that is not positive (alpha: negative).
    """
    run = _Run(len(population.train) if n is None else n, alpha, beta, tau, rounds, m_in, m_h, m_out, epsilon)
    for name, value in run._asdict().items():
        if not (value > 0 or (name == "alpha" and value == 0)):
            raise ValueError(f"{name} = {value}: the bounds need a positive {name}")
    paper, tight, caveat = reading(population)
    settings = ", ".join(f"{name} = {value:g}" for name, value in run._asdict().items())
    head = f"{population.name}: gamma = {population.gamma:g}, horizon = {population.horizon}, {settings}\n"
    if paper is None:
        return f"{head}\n{caveat}"
    problems = {"paper's": paper} | ({"tight": tight} if tight else {})
    parts = [head, caveat] if caveat else [head]
    schedule = f"Corollary 1, epsilon = {epsilon:g}"
    for title, rows in (("constant", _constants), ("bound", _bounds), (schedule, _schedule)):
        columns = zip(*(rows(problem, run) for problem in problems.values()), strict=True)
        body = [[same[0][0], *(number(row[1]) for row in same), same[0][2]] for same in columns]
        parts.append(table([[title, *problems, "meaning"], *body]) + "\n")
    parts += [_verdict(problem, run, kind) for kind, problem in problems.items()]
    return "\n".join(parts)
