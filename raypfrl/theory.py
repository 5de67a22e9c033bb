"""The paper's constants, bounds and schedule, as numbers (paper, Sections 4 to 6).

The constants are uniform worst cases: they show that nothing else need be assumed, not how fast a run goes. At the
experiments' settings they are vacuous, which ``raypfrl theory`` says in numbers; never choose a step size by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from raypfrl.policies.scores import Scores


@dataclass(frozen=True)
class Problem:
    """Assumptions 1 and 2 of one population, and every constant that follows from them."""

    R_max: float
    gamma: float
    horizon: int
    scores: Scores

    @property
    def Rbar(self) -> float:
        """Lemma 2(i): |F_i| <= Rbar."""
        return self.R_max / (1 - self.gamma)

    @property
    def G_J(self) -> float:
        """Lemma 1(ii): ||g|| <= G_J on every trajectory."""
        return self.scores.G * self.R_max / (1 - self.gamma) ** 2

    @property
    def L_J(self) -> float:
        """Lemma 1(iii): ||u||_F <= L_J on every trajectory."""
        return self.R_max * ((self.horizon + 1) * self.scores.G**2 + self.scores.M) / (1 - self.gamma) ** 2

    @property
    def Mbar(self) -> float:
        """The part of L_J that comes from hess log pi."""
        return self.scores.M * self.R_max / (1 - self.gamma) ** 2

    @property
    def Lbar(self) -> float:
        """The part of rho_J that comes from the Lipschitz constant of hess log pi."""
        return self.scores.Lambda * self.R_max / (1 - self.gamma) ** 2

    @property
    def rho_J(self) -> float:
        """Lemma 1(iv): hess J is rho_J-Lipschitz."""
        G, M, decisions = self.scores.G, self.scores.M, self.horizon + 1
        return decisions * G * (self.L_J + self.Mbar) + decisions * M * self.G_J + self.Lbar

    @property
    def alpha_dagger(self) -> float:
        """Section 6, R2: above L_J / (rho_J G_J) the third-order term of L_F dominates."""
        return self.L_J / (self.rho_J * self.G_J)

    def G_F(self, alpha: float) -> float:
        """Lemmas 2(ii) and 3(i): ||grad F_i|| <= G_F, and so is every estimate of it."""
        return (1 + alpha * self.L_J) * self.G_J

    def L_F(self, alpha: float) -> float:
        """Lemma 2(iii): grad F_i is L_F-Lipschitz."""
        return (1 + alpha * self.L_J) ** 2 * self.L_J + alpha * self.rho_J * self.G_J

    def b_hat(self, alpha: float, m_in: float) -> float:
        """Lemma 3(ii): the bias of (7)."""
        return (1 + alpha * self.L_J) * alpha * self.L_J * self.G_J / math.sqrt(m_in)

    def b_hat_star(self, alpha: float, m_in: float, s2: float | None = None) -> float:
        """Proposition 1: the bias of (7); s2 = E||g - grad J||^2, at most G_J^2 (taken where it is not given)."""
        s2 = self.G_J**2 if s2 is None else s2
        return (1 + alpha * self.L_J) * alpha**2 * self.rho_J * s2 / (2 * m_in)

    def sigma2(self, alpha: float, m_in: float, m_h: float, m_out: float) -> float:
        """Lemma 3(iii): the second moment of (7) about grad F_i; curvature, outer and inner gradient in this order."""
        aL = alpha * self.L_J
        return 3 * self.G_J**2 * (aL**2 / m_h + (1 + aL) ** 2 / m_out + (1 + aL) ** 2 * aL**2 / m_in)

    def b_FO(self, alpha: float, m_in: float) -> float:
        """Corollary 2: the bias of first order; it does not vanish as m_in grows."""
        return alpha * self.L_J * self.G_J * (1 + 1 / math.sqrt(m_in))

    def sigma2_FO(self, alpha: float, m_in: float, m_out: float) -> float:
        """Corollary 2: the second moment of first order about grad F_i."""
        aL = alpha * self.L_J
        return 3 * self.G_J**2 * (1 / m_out + aL**2 / m_in + aL**2)


def lemma5(
    gradient2: float, *, beta: float, t: int, n: int, L_F: float, G_F: float, b_hat: float, sigma2: float
) -> float:
    """Lemma 5, for beta <= 1/(6 L_F): the least that local step t adds to F in expectation; gradient2: ||grad F||^2."""
    lost = 9 * beta / 4 * (L_F**2 * beta**2 * t**2 * G_F**2 + b_hat**2) + L_F * beta**2 * sigma2 / (2 * n)
    return beta / 2 * gradient2 - lost


class Terms(NamedTuple):
    """The four terms of (8), the bound on the average of E||grad F||^2 over all rounds and local steps."""

    optimization: float
    drift: float
    bias: float
    variance: float

    @property
    def total(self) -> float:
        """The right-hand side of (8)."""
        return sum(self)


def theorem1(
    *, delta: float, beta: float, tau: int, rounds: int, n: int, L_F: float, G_F: float, b_hat: float, sigma2: float
) -> Terms:
    """(8), for beta <= 1/(6 L_F) and delta = max F - F(theta^0); the drift is exactly 0 at tau = 1."""
    return Terms(
        optimization=2 * delta / (beta * rounds * tau),
        drift=1.5 * L_F**2 * G_F**2 * beta**2 * tau**2 if tau > 1 else 0.0,
        bias=4.5 * b_hat**2,
        variance=L_F * beta * sigma2 / n,
    )


class Schedule(NamedTuple):
    """Settings under which each of the four terms of (8) is at most epsilon / 4."""

    m_in: int
    m_h: int
    m_out: int
    tau: int
    beta: float
    rounds: int

    @property
    def trajectories(self) -> int:
        """What an agent samples over the whole run."""
        return self.rounds * self.tau * (self.m_in + self.m_h + self.m_out)


def corollary1(problem: Problem, *, alpha: float, epsilon: float, n: int, delta: float, sharp: bool) -> Schedule:
    """Corollary 1's schedule; ``sharp``: m_in by Proposition 1 (epsilon^-1/2) in place of Lemma 3 (epsilon^-1).

    Raises ValueError for epsilon outside (0, G_F^2 / 6].
    """
    G_J, L_J, G_F, L_F = problem.G_J, problem.L_J, problem.G_F(alpha), problem.L_F(alpha)
    if not 0 < epsilon <= G_F**2 / 6:
        raise ValueError(f"epsilon = {epsilon:g}: Corollary 1 needs 0 < epsilon <= G_F^2 / 6 = {G_F**2 / 6:g}")
    if sharp:
        m_in = 3 / math.sqrt(2) * (1 + alpha * L_J) * alpha**2 * problem.rho_J * G_J**2 / math.sqrt(epsilon)
    else:
        m_in = 18 * (1 + alpha * L_J) ** 2 * alpha**2 * L_J**2 * G_J**2 / epsilon
    m_in = max(1, math.ceil(m_in))
    sigma2 = problem.sigma2(alpha, m_in, 1, 1)
    tau = max(math.ceil(epsilon**-0.5), math.ceil(4 * sigma2 / (math.sqrt(6) * n * G_F * math.sqrt(epsilon))))
    return Schedule(
        m_in=m_in,
        m_h=1,
        m_out=1,
        tau=tau,
        beta=drift_budget(epsilon, L_F, G_F) / tau,
        rounds=math.ceil(8 * math.sqrt(6) * delta * L_F * G_F / epsilon**1.5),
    )


def drift_budget(epsilon: float, L_F: float, G_F: float) -> float:
    """Corollary 1(ii) and R3: the largest beta tau whose drift term stays within epsilon / 4."""
    return math.sqrt(epsilon) / (math.sqrt(6) * L_F * G_F)


def first_order_floor(alpha: float, L_J: float, G_J: float) -> float:
    """Corollary 2: what (8) keeps of first order's bias, (9/2) b_FO^2, however large m_in."""
    return 4.5 * alpha**2 * L_J**2 * G_J**2


def first_order_residual(alpha: float, L_J: float, G_J: float) -> float:
    """Proposition 2: ||grad F|| <= alpha L_J G_J wherever first order stands still."""
    return alpha * L_J * G_J


def gradient_gap(alpha: float, L_J: float, G_J: float) -> float:
    """Proposition 3: ||grad F - grad f|| <= 2 alpha L_J G_J."""
    return 2 * alpha * L_J * G_J


def value_gap(alpha: float, G_J: float) -> float:
    """Proposition 3: |F - f| <= alpha G_J^2."""
    return alpha * G_J**2


def regime(alpha: float, L_J: float) -> str:
    """Section 6: the regime that alpha lies in."""
    if alpha == 0:
        return "in R1, no personalization: F = f"
    return "in R2, moderate adaptation" if alpha <= 1 / (2 * L_J) else "beyond R2, the regime that the paper recommends"
