"""The paper's lemmas, propositions and Theorem 1 against real quantities: by enumeration, then on sampled runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from raypfrl.methods.per_fedavg_pg import exact as exact_direction
from raypfrl.methods.per_fedavg_pg import first_order
from raypfrl.oracles import ORACLES
from raypfrl.oracles.exact import ExactOracle, F, f, gradient_of_F
from raypfrl.policies import TabularSoftmax
from raypfrl.policies.scores import log_linear_scores, tight_scores
from raypfrl.populations import MDP, BanditTask, bandit, gridworld
from raypfrl.streams import LocalStep, Purpose, Stream
from raypfrl.theory import (
    Problem,
    first_order_residual,
    gradient_gap,
    lemma5,
    theorem1,
    value_gap,
)
from raypfrl.theory_report import reading

TABULAR = tight_scores(math.sqrt(2))
STEP = LocalStep(seed=0, agent=0, round=0, step=0)


def exact_settings(alpha: float, m: int = 1) -> dict[str, Any]:
    return {"alpha": alpha, "m_in": m, "m_h": m, "m_out": m, "curvature": "paper", "curvature_clip": math.inf}


def oracles_of(population: Any, name: str = "exact") -> list[Any]:
    return [ORACLES[name](task, population.policy, population.gamma, population.horizon) for task in population.train]


# --- Lemmas 1 and 2, on every trajectory of a tiny MDP -----------------------------------------------------------


def tiny_mdp(rng: np.random.Generator, states: int = 2, actions: int = 2) -> MDP:
    P = rng.dirichlet(np.ones(states), (states, actions))
    return MDP(P, rng.uniform(-1, 1, (states, actions)), rng.dirichlet(np.ones(states)))


def trajectories(mdp: MDP, theta: np.ndarray, gamma: float, horizon: int) -> Iterator[tuple[float, Any, Any]]:
    """(probability, g, u) of every trajectory, by (2) and (3)."""
    states, actions = mdp.r.shape
    pi = np.exp(theta.reshape(states, actions))
    pi /= pi.sum(1, keepdims=True)
    pairs = list(itertools.product(range(states), range(actions)))
    for xi in itertools.product(pairs, repeat=horizon + 1):
        q = mdp.mu[xi[0][0]] * np.prod([pi[s, a] for s, a in xi])
        q *= np.prod([mdp.P[s, a, after] for (s, a), (after, _) in itertools.pairwise(xi)])
        rewards = np.array([gamma**h * mdp.r[s, a] for h, (s, a) in enumerate(xi)])
        g, z, psi_terms = np.zeros(theta.size), np.zeros(theta.size), np.zeros((theta.size, theta.size))
        for h, (s, a) in enumerate(xi):
            here = slice(s * actions, (s + 1) * actions)
            psi, R = np.eye(actions)[a] - pi[s], rewards[h:].sum()
            g[here] += psi * R
            z[here] += psi
            psi_terms[here, here] -= R * (np.diag(pi[s]) - np.outer(pi[s], pi[s]))
        yield float(q), g, np.outer(g, z) + psi_terms


@pytest.mark.parametrize("scores", [log_linear_scores(1.0), TABULAR], ids=["paper", "tight"])
def test_lemma_1_on_every_trajectory(scores: Any) -> None:
    rng = np.random.default_rng(1)
    for spread in (0.0, 1.0, 3.0):
        mdp, theta = tiny_mdp(rng), spread * rng.standard_normal(4)
        p = Problem(float(np.abs(mdp.r).max()), 0.6, 2, scores)
        total, mean_g, mean_u = 0.0, np.zeros(4), np.zeros((4, 4))
        for q, g, u in trajectories(mdp, theta, gamma=0.6, horizon=2):
            assert np.linalg.norm(g) <= p.G_J
            assert np.linalg.norm(u) <= p.L_J
            total, mean_g, mean_u = total + q, mean_g + q * g, mean_u + q * u
        # The enumeration is the whole law: its means are the exact gradient and Hessian.
        oracle = ExactOracle(mdp, TabularSoftmax(2, 2), 0.6, 2)
        assert total == pytest.approx(1)
        assert mean_g == pytest.approx(oracle.policy_gradient(theta), abs=1e-12)
        assert mean_u == pytest.approx(hessian(oracle, theta), abs=1e-12)


def hessian(oracle: Any, theta: np.ndarray) -> np.ndarray:
    return np.stack([oracle.hessian_vector_product(theta, e) for e in np.eye(theta.size)], axis=1)


def test_the_bound_on_g_is_reached() -> None:
    task, p = BanditTask((1.0, 0.0)), Problem(1.0, 0.0, 0, TABULAR)
    largest = max(np.linalg.norm(g) for _, g, _ in trajectories(task.mdp(), np.array([-6.0, 6.0]), 0.0, 0))
    assert 0.999 * p.G_J < largest <= p.G_J


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_lemmas_1_and_2_on_pairs_of_parameters(alpha: float) -> None:
    rng = np.random.default_rng(2)
    mdps = [tiny_mdp(rng) for _ in range(3)]
    oracles = [ExactOracle(mdp, TabularSoftmax(2, 2), 0.6, 2) for mdp in mdps]
    p = Problem(max(float(np.abs(mdp.r).max()) for mdp in mdps), 0.6, 2, TABULAR)
    for _ in range(50):
        theta = 2 * rng.standard_normal(4)
        delta = 10.0 ** rng.uniform(-3, 0.5) * rng.standard_normal(4)
        gradients = [gradient_of_F(oracles, x, alpha) for x in (theta, theta + delta)]
        hessians = [hessian(oracles[0], x) for x in (theta, theta + delta)]
        assert abs(F(oracles, theta, alpha)) <= p.Rbar
        assert np.linalg.norm(gradients[0]) <= p.G_F(alpha)
        assert np.linalg.norm(gradients[1] - gradients[0]) <= p.L_F(alpha) * np.linalg.norm(delta)
        assert np.linalg.norm(hessians[1] - hessians[0], 2) <= p.rho_J * np.linalg.norm(delta)
        # Proposition 3, and the identity and bound of Proposition 2.
        gap = gradients[0] - gradient_of_F(oracles, theta, 0.0)
        assert np.linalg.norm(gap) <= gradient_gap(alpha, p.L_J, p.G_J)
        assert abs(F(oracles, theta, alpha) - f(oracles, theta)) <= value_gap(alpha, p.G_J)
        D = first_order_mean(oracles, theta, alpha)
        assert np.linalg.norm(gradients[0] - D) <= first_order_residual(alpha, p.L_J, p.G_J)


def first_order_mean(oracles: list[Any], theta: np.ndarray, alpha: float) -> np.ndarray:
    """D(theta) of Proposition 2: the averaged first-order direction, free of noise."""
    total = sum(first_order(oracle, theta, STEP, alpha=alpha, m_in=1, m_out=1) for oracle in oracles)
    return np.asarray(total) / len(oracles)


# --- Lemmas 3 and 5 and Proposition 1, by enumeration of the batches ---------------------------------------------


@dataclass
class Scripted:
    """A one-state oracle whose batches are dictated: ``counts`` of each arm by purpose; the rest is exact."""

    exact: ExactOracle
    rewards: np.ndarray
    counts: dict[Purpose, np.ndarray]

    def policy_gradient(self, theta: np.ndarray, m: int, stream: Stream) -> np.ndarray:
        if stream.purpose not in self.counts:
            return self.exact.policy_gradient(theta)
        share = self.counts[stream.purpose] / self.counts[stream.purpose].sum()
        return (share * self.rewards) @ (np.eye(len(share)) - arm_probabilities(theta))

    def hessian_vector_product(self, theta: np.ndarray, v: np.ndarray, m: int, stream: Stream) -> np.ndarray:
        if stream.purpose not in self.counts:
            return self.exact.hessian_vector_product(theta, v)
        p, share = arm_probabilities(theta), self.counts[stream.purpose] / self.counts[stream.purpose].sum()
        psi = np.eye(len(p)) - p
        return (share * self.rewards) @ (psi * (psi @ v)[:, None] - (p * v - p * (p @ v)))


def arm_probabilities(theta: np.ndarray) -> np.ndarray:
    weights = np.exp(theta - theta.max())
    return weights / weights.sum()


def three_arms(rewards: tuple[float, ...] = (1.0, 0.2, 0.0)) -> ExactOracle:
    return ExactOracle(BanditTask(rewards).mdp(), TabularSoftmax(1, 3), 0.0, 0)


def inner_batches(theta: np.ndarray, m: int) -> Iterator[tuple[float, np.ndarray]]:
    """The law of the counts of three arms in a batch of m."""
    p = arm_probabilities(theta)
    for first in range(m + 1):
        for second in range(m + 1 - first):
            counts = np.array([first, second, m - first - second])
            ways = math.comb(m, first) * math.comb(m - first, second)
            yield float(ways * np.prod(p**counts)), counts


THETA = np.array([0.3, -0.2, 0.1])


def mean_direction(method: Any, m: int, **settings: Any) -> np.ndarray:
    """E of a method's direction over D_in; D_h and D_out enter it through their means."""
    total = np.zeros(3)
    for q, counts in inner_batches(THETA, m):
        oracle = Scripted(three_arms(), np.array([1.0, 0.2, 0.0]), {Purpose.INNER: counts})
        total += q * method(oracle, THETA, STEP, **settings)
    return total


def test_proposition_1_by_enumeration() -> None:
    oracle, alpha = three_arms(), 1.0
    target = gradient_of_F([oracle], THETA, alpha)
    paper, tight = (Problem(1.0, 0.0, 0, scores) for scores in (log_linear_scores(1.0), TABULAR))
    biases = {}
    for m in (1, 2, 4, 8, 16, 32, 64):
        biases[m] = float(np.linalg.norm(mean_direction(exact_direction, m, **exact_settings(alpha)) - target))
        for p in (paper, tight):
            assert biases[m] <= p.b_hat_star(alpha, m, s2=variance_of_g(oracle)) <= p.b_hat_star(alpha, m)
            assert biases[m] <= p.b_hat(alpha, m)
    scaled = [m * bias for m, bias in biases.items()]
    assert scaled == pytest.approx([0.01516, 0.01519, 0.01539, 0.01554, 0.01562, 0.01567, 0.01570], abs=5e-6)
    assert limit_of_the_scaled_bias(oracle, alpha) == pytest.approx(0.01572, abs=5e-6)


def covariance_of_g(oracle: ExactOracle) -> np.ndarray:
    p, mean = arm_probabilities(THETA), oracle.policy_gradient(THETA)
    g = np.array([1.0, 0.2, 0.0])[:, None] * (np.eye(3) - p)
    return (p[:, None] * g).T @ g - np.outer(mean, mean)


def variance_of_g(oracle: ExactOracle) -> float:
    return float(np.trace(covariance_of_g(oracle)))


def limit_of_the_scaled_bias(oracle: ExactOracle, alpha: float) -> float:
    """||(I + alpha hess J(theta)) (alpha^2 / 2) (third derivative of J at theta^+)[Cov g]||, by the complex step."""
    plus, step = THETA + alpha * oracle.policy_gradient(THETA), 1e-30
    sizes, axes = np.linalg.eigh(covariance_of_g(oracle))
    third = sum(
        size * oracle.hessian_vector_product(plus + 1j * step * axis, axis).imag / step
        for size, axis in zip(sizes, axes.T, strict=True)
    )
    return float(np.linalg.norm((np.eye(3) + alpha * hessian(oracle, THETA)) @ (alpha**2 / 2 * third)))


def test_corollary_2_the_bias_of_first_order_stays() -> None:
    oracle, alpha = three_arms(), 1.0
    target = gradient_of_F([oracle], THETA, alpha)
    g_out = oracle.policy_gradient(THETA + alpha * oracle.policy_gradient(THETA))
    stays = alpha * np.linalg.norm(oracle.hessian_vector_product(THETA, g_out))
    for m in (1, 8, 64):
        bias = np.linalg.norm(mean_direction(first_order, m, alpha=alpha, m_in=m, m_out=1) - target)
        assert bias <= Problem(1.0, 0.0, 0, TABULAR).b_FO(alpha, m)
    assert bias == pytest.approx(stays, rel=0.02)  # what is left of the inner batch's share is about 0.016 / 64
    assert stays > 0.01


def directions(rewards: tuple[float, ...], alpha: float) -> Iterator[tuple[float, np.ndarray]]:
    """The whole law of the exact method's direction at THETA with m_in = m_h = m_out = 1: 27 outcomes."""
    oracle, p = three_arms(rewards), arm_probabilities(THETA)
    for inner, curvature, outer in itertools.product(range(3), repeat=3):
        one = np.eye(3)
        counts = {Purpose.INNER: one[inner], Purpose.HESSIAN: one[curvature], Purpose.OUTER: one[outer]}
        scripted = Scripted(oracle, np.array(rewards), counts)
        adapted = THETA + alpha * scripted.policy_gradient(THETA, 1, STEP.inner)
        q = p[inner] * p[curvature] * arm_probabilities(adapted)[outer]
        yield float(q), exact_direction(scripted, THETA, STEP, **exact_settings(alpha))


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.5, 2.0])
def test_lemma_3_by_enumeration(alpha: float) -> None:
    rewards = (1.0, 0.2, -0.5)
    target = gradient_of_F([three_arms(rewards)], THETA, alpha)
    law = list(directions(rewards, alpha))
    mean = sum(q * d for q, d in law)
    second_moment = sum(q * float(((d - target) ** 2).sum()) for q, d in law)
    assert sum(q for q, _ in law) == pytest.approx(1)
    for scores in (log_linear_scores(1.0), TABULAR):
        p = Problem(1.0, 0.0, 0, scores)
        assert max(float(np.linalg.norm(d)) for _, d in law) <= p.G_F(alpha)
        assert np.linalg.norm(mean - target) <= p.b_hat(alpha, 1) + 1e-12
        assert second_moment <= p.sigma2(alpha, 1, 1, 1)


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.5])
def test_lemma_5_by_enumeration(alpha: float) -> None:
    """One averaged step of two agents from a common theta (t = 0), over all 27 x 27 outcomes."""
    both = ((1.0, 0.2, 0.0), (0.0, 0.2, 1.0))
    oracles, p = [three_arms(rewards) for rewards in both], Problem(1.0, 0.0, 0, TABULAR)
    beta = 1 / (6 * p.L_F(alpha))
    expected = sum(
        q_1 * q_2 * F(oracles, THETA + beta * (d_1 + d_2) / 2, alpha)
        for (q_1, d_1), (q_2, d_2) in itertools.product(*(list(directions(rewards, alpha)) for rewards in both))
    )
    gradient2 = float((gradient_of_F(oracles, THETA, alpha) ** 2).sum())
    at_least = lemma5(
        gradient2, beta=beta, t=0, n=2, L_F=p.L_F(alpha), G_F=p.G_F(alpha), b_hat=p.b_hat(alpha, 1),
        sigma2=p.sigma2(alpha, 1, 1, 1),
    )  # fmt: skip
    assert expected - F(oracles, THETA, alpha) >= at_least


# --- Lemma 4 and Theorem 1, on sampled runs ----------------------------------------------------------------------


def run(population: Any, alpha: float, beta: float, tau: int, rounds: int, m: int, p: Problem) -> list[np.ndarray]:
    """Algorithm 1 with the sampling oracle; every step is held to Lemma 4. Gives the averages theta-bar^{k,t}."""
    oracles, theta, averages = oracles_of(population, "autodiff"), population.initial(), []
    for k in range(rounds):
        local = [theta] * len(oracles)
        for t in range(tau):
            averages.append(sum(local) / len(local))
            steps = [LocalStep(0, i, k, t) for i in range(len(oracles))]
            local = [
                x + beta * exact_direction(oracle, x, step, **exact_settings(alpha, m))
                for oracle, x, step in zip(oracles, local, steps, strict=True)
            ]
            away = np.array([x - theta for x in local])
            assert np.linalg.norm(away, axis=1).max() <= beta * (t + 1) * p.G_F(alpha)
            assert ((away - away.mean(0)) ** 2).sum(1).mean() <= (beta * (t + 1) * p.G_F(alpha)) ** 2
        theta = sum(local) / len(local)
    return averages


@pytest.mark.parametrize(("tau", "share"), [(1, 1.0), (4, 0.1)])
def test_theorem_1_on_the_bandit(tau: int, share: float) -> None:
    population, alpha, m, rounds = bandit(), 0.01, 50, 120 // tau
    p = reading(population).tight
    assert p is not None
    oracles, L_F, G_F = oracles_of(population), p.L_F(alpha), p.G_F(alpha)
    beta = share / (6 * L_F)
    averages = run(population, alpha, beta, tau, rounds, m, p)
    measured = np.mean([float((gradient_of_F(oracles, x, alpha) ** 2).sum()) for x in averages])
    best = max(F(oracles, np.array([x]), alpha) for x in np.linspace(-3, 3, 601))
    bound = theorem1(
        delta=best - F(oracles, averages[0], alpha), beta=beta, tau=tau, rounds=rounds, n=2, L_F=L_F, G_F=G_F,
        b_hat=p.b_hat(alpha, m), sigma2=p.sigma2(alpha, m, m, m),
    ).total  # fmt: skip
    assert measured <= bound
    assert bound < G_F**2 / 50  # so the bound says something here


def test_the_variance_of_the_averaged_direction_falls_like_1_over_n() -> None:
    """n identical agents that differ in their streams only. The relative standard error of a variance from R normal
    draws is sqrt(2/R); with R = 150, and eight times as many in the denominator, four of them are 0.49."""
    population, draws = bandit(n=1), 150
    (oracle,) = oracles_of(population, "autodiff")
    sample = np.array([
        [first_order(oracle, np.zeros(1), LocalStep(0, i, k, 0), alpha=0.1, m_in=4, m_out=4)[0] for i in range(8)]
        for k in range(draws)
    ])  # fmt: skip
    alone = sample.var(axis=0).mean()
    for n in (2, 4, 8):
        assert n * sample[:, :n].mean(axis=1).var(ddof=1) / alone == pytest.approx(1, abs=0.49)


# --- Propositions 2 and 3 ----------------------------------------------------------------------------------------


def first_order_rest(alpha: float) -> tuple[float, float]:
    """Where first order comes to rest on the bandit, and ||grad F|| there."""
    population = bandit()
    oracles, theta = oracles_of(population), population.initial()
    for _ in range(400):
        theta = theta + first_order_mean(oracles, theta, alpha)
    assert abs(first_order_mean(oracles, theta, alpha)[0]) < 1e-12
    return float(theta[0]), float(np.linalg.norm(gradient_of_F(oracles, theta, alpha)))


def test_proposition_2_on_the_bandit() -> None:
    expected = {0.1: (-0.166615, 0.014410), 0.05: (-0.197488, 0.0075788), 0.01: (-0.224146, 0.0015624)}
    p = reading(bandit()).tight
    assert p is not None
    for alpha, (where, residual) in expected.items():
        theta, size = first_order_rest(alpha)
        assert theta == pytest.approx(where, abs=6e-7)
        assert size == pytest.approx(residual, rel=4e-5)
        assert size <= first_order_residual(alpha, p.L_J, p.G_J)
    theta, size = first_order_rest(1e-5)
    assert theta == pytest.approx(-math.log(2) / 3, abs=1e-4)
    assert size / 1e-5 == pytest.approx(0.157189, abs=1e-5)


@pytest.mark.slow
def test_the_first_order_floor_on_the_gridworld_at_tau_1() -> None:
    """6000 steps free of noise at alpha = 2, beta = 0.3: ||grad F|| stays at 0.0107 where exact reaches 0.0025."""
    oracles, alpha, beta, sizes = oracles_of(gridworld()), 2.0, 0.3, []
    for mean in (first_order_mean, gradient_of_F):
        theta = np.zeros(100)
        for _ in range(6000):
            theta = theta + beta * mean(oracles, theta, alpha)
        sizes.append(float(np.linalg.norm(gradient_of_F(oracles, theta, alpha))))
    assert sizes == pytest.approx([0.0107, 0.0025], abs=5e-5)
