"""The paper's constants and schedule against numbers worked out by hand, and the report that shows them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from raypfrl.policies.scores import log_linear_scores, tight_scores
from raypfrl.populations import POPULATIONS, bandit, gridworld, navigation, quadratic
from raypfrl.settings import own_settings
from raypfrl.theory import (
    Problem,
    corollary1,
    drift_budget,
    first_order_floor,
    first_order_residual,
    gradient_gap,
    lemma5,
    regime,
    theorem1,
    value_gap,
)
from raypfrl.theory_report import number, report

SETTINGS = ("alpha", "beta", "tau", "rounds", "m_in", "m_h", "m_out")
TABULAR = tight_scores(math.sqrt(2))


# --- constants ---------------------------------------------------------------------------------------------------


def test_the_papers_constants_for_the_gridworld() -> None:
    p = Problem(R_max=1.0, gamma=0.9, horizon=15, scores=log_linear_scores(1.0))
    assert p.scores == (2, 4, 8)
    values = (p.Rbar, p.G_J, p.L_J, p.Mbar, p.Lbar, p.rho_J)
    assert values == pytest.approx((10, 200, 6800, 400, 800, 244_000))
    alpha = 1e-4  # alpha L_J = 0.68
    assert p.alpha_dagger == pytest.approx(6800 / 48_800_000)
    assert p.G_F(alpha) == pytest.approx(336)
    assert p.L_F(alpha) == pytest.approx(19_192.32 + 4880)
    assert p.b_hat(alpha, m_in=16) == pytest.approx(57.12)
    assert p.b_hat_star(alpha, m_in=16) == pytest.approx(5.124)
    assert p.b_hat_star(alpha, m_in=16, s2=10_000) == pytest.approx(1.281)
    assert p.sigma2(alpha, m_in=16, m_h=8, m_out=4) == pytest.approx(101_396.0832)
    assert p.b_FO(alpha, m_in=16) == pytest.approx(170)
    assert p.sigma2_FO(alpha, m_in=16, m_out=4) == pytest.approx(88_956)


def test_the_tight_constants_for_the_gridworld() -> None:
    p = Problem(R_max=1.0, gamma=0.9, horizon=15, scores=TABULAR)
    assert p.scores == pytest.approx((math.sqrt(2), 1 / 2, math.sqrt(6) / 9))
    rho_J = 16 * math.sqrt(2) * 3300 + 800 * math.sqrt(2) + 100 * math.sqrt(6) / 9
    values = (p.G_J, p.L_J, p.rho_J)
    assert values == pytest.approx((100 * math.sqrt(2), 3250, rho_J))


def softmax_sizes(p: np.ndarray, v: np.ndarray) -> tuple[float, float, float]:
    """The largest score, the Hessian of log pi, and its derivative along v, at probabilities p."""
    p_dot = p * (v - p @ v)
    hessian = np.diag(p) - np.outer(p, p)
    hessian_dot = np.diag(p_dot) - np.outer(p_dot, p) - np.outer(p, p_dot)
    scores = np.linalg.norm(np.eye(len(p)) - p, axis=1)
    return float(scores.max()), float(np.linalg.norm(hessian)), float(np.linalg.norm(hessian_dot))


def test_the_tight_constants_hold_for_any_number_of_arms_and_two_arms_reach_them() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        arms = int(rng.integers(2, 6))
        weights = np.exp(rng.uniform(0, 3) * rng.standard_normal(arms))
        v = rng.standard_normal(arms)
        sizes = softmax_sizes(weights / weights.sum(), v / np.linalg.norm(v))
        assert all(size <= bound + 1e-12 for size, bound in zip(sizes, TABULAR, strict=True))
    along = np.array([1.0, -1.0]) / math.sqrt(2)
    turning = 0.5 - math.sqrt(3) / 6  # where (1 - 2p) p (1 - p) is largest
    assert softmax_sizes(np.array([1 - 1e-9, 1e-9]), along)[0] == pytest.approx(TABULAR.G)
    assert softmax_sizes(np.array([0.5, 0.5]), along)[1] == pytest.approx(TABULAR.M)
    assert softmax_sizes(np.array([turning, 1 - turning]), along)[2] == pytest.approx(TABULAR.Lambda)


def test_theorem_1_by_hand() -> None:
    settings = {"delta": 1.0, "beta": 0.5, "rounds": 4, "n": 2, "L_F": 3.0, "G_F": 2.0, "b_hat": 0.1, "sigma2": 0.4}
    terms = theorem1(tau=2, **settings)
    assert terms == pytest.approx((0.5, 54.0, 0.045, 0.3))
    assert terms.total == pytest.approx(54.845)
    assert theorem1(tau=1, **settings).drift == 0.0


def test_lemma_5_by_hand() -> None:
    gain = lemma5(2.0, beta=0.5, t=2, n=2, L_F=3.0, G_F=2.0, b_hat=0.1, sigma2=0.4)
    assert gain == pytest.approx(0.5 - 1.125 * (36 + 0.01) - 0.075)


def test_regimes_and_limits_by_hand() -> None:
    assert "R1" in regime(0.0, 6800.0)
    assert "R2," in regime(1 / 13_600, 6800.0)
    assert "beyond R2" in regime(1.001 / 13_600, 6800.0)
    assert first_order_floor(0.1, 2.0, 3.0) == pytest.approx(4.5 * 0.36)
    assert first_order_residual(0.1, 2.0, 3.0) == pytest.approx(0.6)
    assert gradient_gap(0.1, 2.0, 3.0) == pytest.approx(1.2)
    assert value_gap(0.1, 3.0) == pytest.approx(0.9)
    assert drift_budget(0.06, 2.0, 5.0) == pytest.approx(0.01)


# --- Corollary 1 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("epsilon", [1e-4, 0.05, 0.9])
@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.3])
def test_corollary_1_makes_each_term_of_theorem_1_at_most_a_quarter(alpha: float, epsilon: float, sharp: bool) -> None:
    p, n, delta = Problem(1.0, 0.3, 1, TABULAR), 4, 0.7
    L_F, G_F = p.L_F(alpha), p.G_F(alpha)
    schedule = corollary1(p, alpha=alpha, epsilon=epsilon, n=n, delta=delta, sharp=sharp)
    m_in, m_h, m_out, tau, beta, rounds = schedule
    bias = p.b_hat_star if sharp else p.b_hat
    terms = theorem1(
        delta=delta, beta=beta, tau=tau, rounds=rounds, n=n, L_F=L_F, G_F=G_F, b_hat=bias(alpha, m_in),
        sigma2=p.sigma2(alpha, m_in, m_h, m_out),
    )  # fmt: skip
    assert all(term <= epsilon / 4 * (1 + 1e-9) for term in terms)
    assert beta <= 1 / (6 * L_F)
    assert tau >= epsilon**-0.5
    assert schedule.trajectories == rounds * tau * (m_in + 2)
    # And no more than it takes: a smaller inner batch, or a round less, and its term is too large.
    assert m_in == 1 or 4.5 * bias(alpha, m_in - 1) ** 2 > epsilon / 4
    assert 2 * delta / (beta * (rounds - 1) * tau) > epsilon / 4


def test_proposition_1_needs_far_smaller_inner_batches() -> None:
    p = Problem(1.0, 0.3, 1, TABULAR)
    crude, sharp = (
        [corollary1(p, alpha=0.1, epsilon=e, n=4, delta=1.0, sharp=sharp).m_in for e in (1e-4, 1e-6)]
        for sharp in (False, True)
    )
    assert crude[1] / crude[0] == pytest.approx(100, rel=1e-3)  # epsilon^-1
    assert sharp[1] / sharp[0] == pytest.approx(10, rel=1e-2)  # epsilon^-1/2


def test_corollary_1_refuses_an_epsilon_out_of_its_range() -> None:
    p = Problem(1.0, 0.0, 0, TABULAR)
    for epsilon in (0.0, -1.0, 1.01 * p.G_F(0.1) ** 2 / 6, math.nan):
        with pytest.raises(ValueError, match="Corollary 1 needs 0 < epsilon"):
            corollary1(p, alpha=0.1, epsilon=epsilon, n=2, delta=1.0, sharp=False)


# --- the report --------------------------------------------------------------------------------------------------


def settings_of(name: str) -> dict[str, Any]:
    suggested = POPULATIONS[name].suggested | {"n": len(POPULATIONS[name].build().train)}
    return {key: suggested[key] for key in SETTINGS}


def test_report_of_the_gridworld() -> None:
    text = report(gridworld(), **settings_of("gridworld"))
    assert "G_J = 200, L_J = 6800, rho_J = 244 000" in text
    assert "G_J = 141, L_J = 3250, rho_J = 75 800" in text
    assert "alpha = 2, 27 200 times the largest moderate one, is beyond R2" in text
    assert "largest that Theorem 1 covers" in text
    assert "Theorem 1's sum is vacuous" in text


def test_report_where_the_theory_speaks() -> None:
    settings = settings_of("bandit") | {"alpha": 0.0, "beta": 1e-3, "rounds": 1_000_000}
    text = report(bandit(), **settings)
    assert "R1" in text
    assert "Theorem 1 covers this run" in text
    assert "vacuous" not in text
    assert "has no schedule" in report(bandit(), **settings, epsilon=100.0)


@pytest.mark.parametrize("name", sorted(POPULATIONS))
def test_report_of_every_population(name: str) -> None:
    build = POPULATIONS[name].build
    undiscounted = build().gamma == 1 and "gamma" in own_settings(build)  # where the paper's constants are infinite
    text = report(build(gamma=0.9) if undiscounted else build(), **settings_of(name))
    assert text.startswith(f"{name}: ")
    assert "nan" not in text
    assert max(map(len, text.splitlines()[1:])) <= 120


def test_report_says_where_assumption_2_fails() -> None:
    text = report(navigation(), **settings_of("navigation"))
    assert "Assumption 2 fails" in text
    assert "sqrt(33)" in text
    assert "none of the paper's constants" in report(quadratic(), **settings_of("quadratic"))


@pytest.mark.parametrize("bad", [{"alpha": -1.0}, {"beta": 0.0}, {"m_h": 0}, {"epsilon": math.nan}, {"n": 0}])
def test_report_refuses_bad_settings(bad: dict[str, Any]) -> None:
    (name,) = bad
    with pytest.raises(ValueError, match=rf"^{name} = "):
        report(gridworld(), **(settings_of("gridworld") | bad))


def test_numbers_in_the_tables() -> None:
    shown = {6800: "6800", 100.00000000000004: "100", 244_000: "244 000", 75_829.06: "75 800", 1.26e12: "1.26e+12"}
    shown |= {0.0: "0", 7.35e-5: "7.35e-05", 1521.3: "1520", 0.5: "0.5"}
    assert {x: number(x) for x in shown} == shown
    assert number("-") == "-"
