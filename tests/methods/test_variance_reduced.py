"""SVRPG's and HAPG's identities, by enumeration and by quadrature, and what they spend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import few
from tiny import by_hand, central_difference, enumerated, random_mdp, small

from raypfrl import Training
from raypfrl.federation import build_agent
from raypfrl.oracles import ORACLES
from raypfrl.oracles.exact import ExactOracle
from raypfrl.policies import TabularSoftmax
from raypfrl.streams import LocalStep, Purpose, Stream

GAMMA, HORIZON = 0.9, 1
MDP = random_mdp(5, states=2)
THETA, SNAPSHOT = np.random.default_rng(0).normal(size=(2, 4))
EXACT: Any = ExactOracle(MDP, TabularSoftmax(2, 2), GAMMA, HORIZON)
STREAM = Stream(0, 0, 0, 0, Purpose.OUTER)


def test_the_weighted_gradient_is_the_gradient_at_the_snapshot_in_the_mean() -> None:
    """E_{q(theta)} [g(theta) - omega g(snapshot)] = grad J(theta) - grad J(snapshot)."""
    total = np.zeros(4)
    at_snapshot = {xi[:2]: xi.q for xi in enumerated(MDP, SNAPSHOT, HORIZON)}
    for xi in enumerated(MDP, THETA, HORIZON):
        omega = at_snapshot[xi[:2]] / xi.q
        total += xi.q * (by_hand(MDP, THETA, GAMMA, xi).g - omega * by_hand(MDP, SNAPSHOT, GAMMA, xi).g)
    truth = EXACT.policy_gradient(THETA) - EXACT.policy_gradient(SNAPSHOT)
    assert total == pytest.approx(truth, abs=1e-14)
    assert EXACT.weighted_gradient(THETA, SNAPSHOT) == pytest.approx(EXACT.policy_gradient(SNAPSHOT), abs=0)


@pytest.mark.parametrize("population", ["gridworld", "quadratic"])
def test_the_autodiff_oracles_weighted_gradient(population: str) -> None:
    """At the snapshot itself it is the gradient; elsewhere its mean is, within four standard errors; no charge."""
    built = small(population).build_population()
    arguments = (built.train[0], built.policy, built.gamma, built.horizon)
    oracle, exact = ORACLES["autodiff"](*arguments), ORACLES["exact"](*arguments)
    rng = np.random.default_rng(2)
    theta = 0.3 * rng.normal(size=built.policy.dim)
    snapshot, along = theta + 0.2 * rng.normal(size=theta.size), rng.normal(size=theta.size)
    g = oracle.policy_gradient(theta, 30, STREAM)
    spent = oracle.meter.trajectories
    assert oracle.weighted_gradient(theta, theta, 30, STREAM) == pytest.approx(g, abs=1e-13)
    assert oracle.meter.trajectories == spent == 30
    streams = [Stream(0, 0, k, 0, Purpose.OUTER) for k in range(40)]
    drawn = np.array([oracle.weighted_gradient(theta, snapshot, 50, stream) @ along for stream in streams])
    truth = exact.policy_gradient(snapshot, 1, STREAM) @ along
    assert abs(drawn.mean() - truth) < 4 * drawn.std(ddof=1) / np.sqrt(len(drawn))


def test_the_step_to_another_gradient_is_an_integral_of_products() -> None:
    """grad J(theta) - grad J(before) = the mean over a uniform on [0, 1] of hess J(theta_a) (theta - before), by
    Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    move = THETA - SNAPSHOT
    integral = sum(
        w / 2 * EXACT.hessian_vector_product((1 + x) / 2 * THETA + (1 - x) / 2 * SNAPSHOT, move)
        for x, w in zip(nodes, weights, strict=True)
    )
    assert integral == pytest.approx(EXACT.policy_gradient(THETA) - EXACT.policy_gradient(SNAPSHOT), abs=1e-13)


def test_hapg_is_its_recursion() -> None:
    """d_t = d_{t-1} + H(theta_a) (theta_t - theta_{t-1}), a from the step's own stream."""
    config = few("gridworld", "hapg", oracle="exact", tau=3, beta=0.5)
    agent, theta = build_agent(config, 1), np.random.default_rng(3).normal(size=100)
    found = agent.answer(0, 4, {"theta": theta}, None).reply.up["theta"]
    oracle: Any = agent.oracle
    d, drawn = oracle.policy_gradient(theta, 1, STREAM), []
    for t in (1, 2):
        before, theta = theta, theta + 0.5 * d
        a = LocalStep(config.seed, 1, 4, t).perturbation.generator().random()
        d = d + oracle.hessian_vector_product(a * theta + (1 - a) * before, theta - before, 1, STREAM)
        drawn.append(a)
    assert found == pytest.approx(theta + 0.5 * d, abs=1e-14)
    assert 0 < min(drawn) < max(drawn) < 1


def test_svrpg_starts_along_the_snapshots_gradient_and_corrects_from_there() -> None:
    """In its first step theta is the snapshot, so the correction is 0, from the same batch; later it is not."""
    config = few("gridworld", "svrpg", tau=1, beta=0.5, m_in=60, m_out=60)
    theta = np.random.default_rng(4).normal(size=100)
    agent = build_agent(config, 0)
    mu = agent.oracle.policy_gradient(theta, config.m_in, LocalStep(config.seed, 0, 2, 0).inner)
    one, two = (
        build_agent(config.model_copy(update={"tau": tau}), 0).answer(0, 2, {"theta": theta}, None).reply.up["theta"]
        for tau in (1, 2)
    )
    assert one == pytest.approx(theta + 0.5 * mu, abs=1e-12)
    assert np.abs(two - theta - mu).max() > 1e-4


@pytest.mark.parametrize(
    ("method", "spent"),
    [("svrpg", lambda c: c.m_in + c.tau * c.m_out), ("hapg", lambda c: c.m_in + (c.tau - 1) * c.m_h)],
)
def test_what_a_round_costs(method: str, spent: Any) -> None:
    config = few("gridworld", method, oracle="autodiff", tau=3)
    server = Training(config).server
    server.run_round()
    assert server.spent.trajectories == config.cohort * spent(config)


# --- the divergence of pMeta-RL ---------------------------------------------------------------------------------------


def test_the_exact_kl_gradient_is_that_of_the_divergence_with_the_states_held_fixed() -> None:
    """By finite differences of the mean over the visited states of KL(pi_theta || pi_anchor)."""
    policy = TabularSoftmax(2, 2)
    occupancy = np.zeros(2)
    for xi in enumerated(MDP, THETA, HORIZON):
        for s in xi.states:
            occupancy[s] += xi.q / (HORIZON + 1)

    def divergence(x: Any) -> Any:
        one, other = (np.exp(t.reshape(2, 2)) for t in (x, SNAPSHOT))
        one, other = one / one.sum(1, keepdims=True), other / other.sum(1, keepdims=True)
        return occupancy @ (one * np.log(one / other)).sum(1)

    found = EXACT.kl_gradient(THETA, SNAPSHOT)
    assert found == pytest.approx(central_difference(divergence, THETA), abs=1e-9)
    assert np.abs(found).max() > 1e-2
    assert not EXACT.kl_gradient(THETA, THETA).any()
    assert policy.dim == len(found)


def test_the_autodiff_oracles_kl_gradient() -> None:
    """Within four standard errors of the exact one; on Gaussians N(w, 1) it is w - anchor."""
    built = small("gridworld").build_population()
    arguments = (built.train[0], built.policy, built.gamma, built.horizon)
    oracle, exact = ORACLES["autodiff"](*arguments), ORACLES["exact"](*arguments)
    theta, anchor, along = np.random.default_rng(6).normal(size=(3, 100))
    streams = [Stream(0, 0, k, 0, Purpose.INNER) for k in range(40)]
    drawn = np.array([oracle.kl_gradient(theta, anchor, 40, stream) @ along for stream in streams])
    truth = exact.kl_gradient(theta, anchor, 1, STREAM) @ along
    assert abs(drawn.mean() - truth) < 4 * drawn.std(ddof=1) / np.sqrt(len(drawn))
    assert abs(truth) > 10 * drawn.std() / np.sqrt(len(drawn))
    assert oracle.meter.trajectories == 0

    line = small("quadratic").build_population()
    gaussian = ORACLES["autodiff"](line.train[0], line.policy, line.gamma, line.horizon)
    numbers = np.array([gaussian.kl_gradient(np.array([0.7]), np.array([0.2]), 50, s)[0] for s in streams])
    assert abs(numbers.mean() - 0.5) < 4 * numbers.std(ddof=1) / np.sqrt(len(numbers))
