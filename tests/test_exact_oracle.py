"""The exact oracle against full enumeration, finite differences, known values and Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from tiny import by_hand, central_difference, enumerated, random_mdp

from raypfrl.oracles import ORACLES
from raypfrl.oracles.exact import SMALL, ExactOracle, F, f, gradient_of_F, hessian_of_F
from raypfrl.policies import LinearSoftmax, TabularSoftmax
from raypfrl.populations import MDP, Successors, gridworld
from raypfrl.streams import Purpose, Stream

TOLERANCE = 5e-8
GAMMA = 0.8


@pytest.fixture(params=[(3, 2, 2), (2, 2, 3), (2, 3, 0)], ids=lambda size: "S{}-A{}-H{}".format(*size))
def problem(request):
    """MDP, horizon, oracle and theta of a problem small enough to enumerate."""
    states, actions, horizon = request.param
    mdp = random_mdp(1, states, actions)
    oracle = ExactOracle(mdp, TabularSoftmax(states, actions), GAMMA, horizon)
    return mdp, horizon, oracle, np.random.default_rng(2).normal(size=states * actions)


@pytest.fixture(scope="module")
def grid():
    """The oracles of the paper's gridworld."""
    population = gridworld()
    return [
        ORACLES["exact"](task, population.policy, population.gamma, population.horizon) for task in population.train
    ]


@pytest.fixture(scope="module")
def pair():
    """Two agents on one small state space: F, f and their derivatives in every coordinate."""
    return [ExactOracle(random_mdp(seed, 3, 2), TabularSoftmax(3, 2), GAMMA, 3) for seed in (1, 2)]


def test_enumeration(problem):
    """E over all trajectories, probabilities summing to 1: the return is J, g is grad J, u is hess J, z is 0."""
    mdp, horizon, oracle, theta = problem
    d = theta.size
    total, J, g, z, u = 0.0, 0.0, np.zeros(d), np.zeros(d), np.zeros((d, d))
    for xi in enumerated(mdp, theta, horizon):
        estimates = by_hand(mdp, theta, GAMMA, xi)
        total += xi.q
        J += xi.q * estimates.return_
        g += xi.q * estimates.g
        z += xi.q * estimates.z
        u += xi.q * (estimates.score_term + estimates.second_term)
    assert total == pytest.approx(1, abs=1e-12)
    assert np.abs(z).max() < 1e-12
    assert oracle.objective(theta) == pytest.approx(J, abs=1e-12)
    assert np.abs(oracle.policy_gradient(theta) - g).max() < 1e-12
    hessian = np.array([oracle.hessian_vector_product(theta, v) for v in np.eye(d)])
    assert np.abs(hessian - u).max() < 1e-12
    assert np.abs(hessian - hessian.T).max() < 1e-12
    assert np.abs(hessian).max() > 0.01


def test_success_and_final_distance_by_enumeration(problem):
    mdp, horizon, oracle, theta = problem
    success = sum(xi.q for xi in enumerated(mdp, theta, horizon) if 0 in xi.states)
    distance = sum(xi.q * mdp.distance[xi.states[-1]] for xi in enumerated(mdp, theta, horizon))
    outcome = oracle.returns(theta)
    assert outcome == pytest.approx((oracle.objective(theta), success, distance), abs=1e-12)


def test_mean_rewards_by_enumeration(problem):
    mdp, horizon, oracle, theta = problem
    expected = np.zeros(horizon + 1)
    for xi in enumerated(mdp, theta, horizon):
        expected += xi.q * GAMMA ** np.arange(horizon + 1) * mdp.r[list(xi.states), list(xi.actions)]
    assert oracle.mean_rewards(theta, 0, None) == pytest.approx(expected, abs=1e-12)
    assert expected.sum() == pytest.approx(oracle.objective(theta), abs=1e-12)


def test_gridworld_by_finite_differences(grid):
    """grad J in all 100 coordinates, hess J v along a random v and along the gradient."""
    theta, oracle = np.random.default_rng(0).normal(size=100), grid[4]
    gradient = oracle.policy_gradient(theta)
    assert np.abs(gradient - central_difference(oracle.objective, theta)).max() <= TOLERANCE
    for v in (np.random.default_rng(1).normal(size=100), gradient / np.linalg.norm(gradient)):
        step = 1e-5
        numeric = (oracle.policy_gradient(theta + step * v) - oracle.policy_gradient(theta - step * v)) / (2 * step)
        product = oracle.hessian_vector_product(theta, v)
        assert np.abs(product - numeric).max() <= TOLERANCE
        assert np.abs(product).max() > 1e-3


def test_a_policy_with_features_by_finite_differences():
    """The chain rule through the features, where theta is not the table of logits."""
    features = np.random.default_rng(5).normal(size=(3, 2, 4))
    policy = LinearSoftmax(tuple(tuple(tuple(phi) for phi in state) for state in features.tolist()))
    oracle = ExactOracle(random_mdp(3), policy, GAMMA, 3)
    theta = np.random.default_rng(6).normal(size=4)
    assert np.abs(oracle.policy_gradient(theta) - central_difference(oracle.objective, theta)).max() <= TOLERANCE
    hessian = np.array([oracle.hessian_vector_product(theta, v) for v in np.eye(4)])
    assert np.abs(hessian - central_difference(oracle.policy_gradient, theta)).max() <= TOLERANCE


@pytest.mark.parametrize("alpha", [0.0, 0.5, 2.0])
def test_F_by_finite_differences_in_every_coordinate(pair, alpha):
    theta = np.random.default_rng(4).normal(size=6)
    gradient = gradient_of_F(pair, theta, alpha)
    assert np.abs(gradient - central_difference(lambda theta: F(pair, theta, alpha), theta)).max() <= TOLERANCE
    hessian = np.array([hessian_of_F(pair, theta, v, alpha) for v in np.eye(6)])
    numeric = central_difference(lambda theta: gradient_of_F(pair, theta, alpha), theta)
    assert np.abs(hessian - numeric).max() <= TOLERANCE
    assert np.abs(hessian - hessian.T).max() < 1e-12


def test_F_is_the_mean_objective_after_one_exact_step(pair):
    theta = np.random.default_rng(4).normal(size=6)
    objectives = [oracle.objective(theta + 2.0 * oracle.policy_gradient(theta)) for oracle in pair]
    assert F(pair, theta, 2.0) == pytest.approx(np.mean(objectives), abs=1e-14)
    assert f(pair, theta) == pytest.approx(np.mean([oracle.objective(theta) for oracle in pair]), abs=1e-14)
    assert F(pair, theta, 0.0) == f(pair, theta)
    assert gradient_of_F(pair, theta, 0.0) == pytest.approx(central_difference(lambda x: f(pair, x), theta), abs=1e-7)


def test_the_uniform_policy_is_worth_02439(grid):
    """Mean over the eight agents, 16 decisions; 15 decisions would give 0.2359."""
    assert f(grid, np.zeros(100)) == pytest.approx(0.2439, abs=5e-5)
    shorter = gridworld(horizon=14)
    oracles = [ORACLES["exact"](task, shorter.policy, 0.9, 14) for task in shorter.train]
    assert f(oracles, np.zeros(100)) == pytest.approx(0.2359, abs=5e-5)


def test_against_monte_carlo(grid):
    """Return, success and final distance, and the reward of every decision, of 3000 sampled episodes, within 3.5 of
    the sample's standard errors."""
    population, m = gridworld(), 3000
    sampler = ORACLES["autodiff"](population.train[1], population.policy, population.gamma, population.horizon)
    theta = np.random.default_rng(8).normal(size=100)
    batch = sampler.sample(theta, m, Stream(0, 1, 0, 0, Purpose.EVALUATE))
    discounted = batch.table(batch.rewards, 16) * 0.9 ** np.arange(16)
    assert grid[1].mean_rewards(theta)[0] == discounted[:, 0].sum() == 0, "no episode starts on the goal"
    for exact, sampled in zip(
        (*grid[1].returns(theta), *grid[1].mean_rewards(theta)[1:]),
        (discounted.sum(1), batch.success, batch.final_distance, *discounted.T[1:]),
        strict=True,
    ):
        standard_error = sampled.std(ddof=1) / np.sqrt(m)
        assert standard_error > 0
        assert abs(sampled.mean() - exact) < 3.5 * standard_error


def test_batches_and_streams_are_ignored_and_nothing_is_charged(grid):
    theta, stream = np.random.default_rng(0).normal(size=100), Stream(0, 0, 0, 0, Purpose.INNER)
    assert grid[0].policy_gradient(theta, 7, stream).tobytes() == grid[0].policy_gradient(theta).tobytes()
    product = grid[0].hessian_vector_product(theta, theta, 7, stream, credit="causal", baseline=np.zeros(16))
    assert product.tobytes() == grid[0].hessian_vector_product(theta, theta).tobytes()
    assert (grid[0].meter.trajectories, grid[0].meter.env_steps) == (0, 0)
    assert grid[0].meter.seconds > 0


def test_large_logits_do_not_overflow(grid):
    theta = np.random.default_rng(0).normal(size=100) * 1e4
    assert np.isfinite(grid[0].policy_gradient(theta)).all()
    assert 0 <= grid[0].objective(theta) <= 10


def test_a_task_without_a_goal_has_no_success():
    mdp = random_mdp(0)._replace(distance=None)
    outcome = ExactOracle(mdp, TabularSoftmax(3, 2), GAMMA, 2).returns(np.zeros(6))
    assert np.isfinite(outcome.return_)
    assert np.isnan([outcome.success, outcome.final_distance]).all()


# --- few successors, and values that are kept ----------------------------------------------------------------------


def of_few_successors(seed, states, horizon):
    """A problem in which three states, not always different ones, may follow each decision: by its successors, and by
    the same probabilities as a matrix."""
    rng = np.random.default_rng(seed)
    shape = (states, 2, 3)
    P = Successors(rng.integers(states, size=shape), rng.dirichlet(np.ones(3), size=shape[:2]))
    few = MDP(P, rng.normal(size=shape[:2]), rng.dirichlet(np.ones(states)), rng.integers(3, size=states) * 1.0)
    policy = TabularSoftmax(states, 2)
    return [ExactOracle(mdp, policy, GAMMA, horizon) for mdp in (few, few._replace(P=P.dense()))], rng


@pytest.mark.parametrize("states", [4, SMALL + 20])
def test_few_successors_are_the_matrix_that_they_stand_for(states):
    """Every answer, for complex theta too, by the entries (above SMALL states) and by the matrix."""
    (few, matrix), rng = of_few_successors(7, states, horizon=5)
    theta, v = rng.normal(size=(2, 2 * states))
    for at in (theta, theta + 1e-3j * v):
        assert few.objective(at) == pytest.approx(matrix.objective(at), abs=1e-13)
        assert few.policy_gradient(at) == pytest.approx(matrix.policy_gradient(at), abs=1e-13)
        assert few.hessian_vector_product(at, v) == pytest.approx(matrix.hessian_vector_product(at, v), abs=1e-13)
    assert few.returns(theta) == pytest.approx(matrix.returns(theta), abs=1e-12)
    assert few.mean_rewards(theta) == pytest.approx(matrix.mean_rewards(theta), abs=1e-13)
    assert 0 < few.returns(theta).success < 1
    gradient = few.policy_gradient(theta)
    numeric = [
        (few.objective(theta + 1e-5 * e) - few.objective(theta - 1e-5 * e)) / 2e-5 for e in np.eye(2 * states)[:9]
    ]
    assert np.abs(gradient[:9] - numeric).max() <= TOLERANCE


def test_the_same_successor_twice_is_as_likely_as_both():
    P = Successors(np.array([[[1, 1]], [[0, 1]]]), np.array([[[0.25, 0.75]], [[0.5, 0.5]]]))
    assert P.dense().tolist() == [[[0.0, 1.0]], [[0.5, 0.5]]]


@dataclass(frozen=True)
class Counting(TabularSoftmax):
    """A policy that counts how often its table of logits is asked for."""

    asked: list[None] = field(default_factory=list)

    def logits(self, theta):
        self.asked.append(None)
        return super().logits(theta)


def test_several_questions_at_one_theta_cost_one_pass_and_an_old_one_is_never_answered():
    """Values are kept for the last two thetas, as many as a step of the exact method asks about; theta changed in place
    is another theta."""
    policy = Counting(3, 2)
    oracle, fresh = (ExactOracle(random_mdp(1, 3, 2), p, GAMMA, 3) for p in (policy, TabularSoftmax(3, 2)))
    theta, other = np.random.default_rng(0).normal(size=(2, 6))
    for at in (theta, other, theta):
        assert oracle.returns(at) == fresh.returns(at)
        assert oracle.policy_gradient(at).tobytes() == fresh.policy_gradient(at).tobytes()
        oracle.mean_rewards(at)
        oracle.objective(at)
    assert len(policy.asked) == 2
    oracle.policy_gradient(theta + other)
    oracle.policy_gradient(theta)
    assert len(policy.asked) == 3
    before = oracle.policy_gradient(theta)
    theta[0] += 0.1
    assert oracle.policy_gradient(theta).tobytes() == fresh.policy_gradient(theta).tobytes() != before.tobytes()
    assert len(policy.asked) == 4


def test_large_grids():
    """20 x 20 and 50 x 50: the same formulas, by finite differences along the gradient."""
    for size in (20, 50):
        population = gridworld(n=5, size=size, horizon=30)
        oracle = ORACLES["exact"](population.train[4], population.policy, population.gamma, population.horizon)
        theta = np.random.default_rng(0).normal(size=population.policy.dim)
        gradient = oracle.policy_gradient(theta)
        along = gradient / np.linalg.norm(gradient)
        step = 1e-4
        numeric = (oracle.objective(theta + step * along) - oracle.objective(theta - step * along)) / (2 * step)
        assert numeric == pytest.approx(np.linalg.norm(gradient), rel=1e-6)
        numeric = (oracle.policy_gradient(theta + step * along) - oracle.policy_gradient(theta - step * along)) / (
            2 * step
        )
        assert oracle.hessian_vector_product(theta, along) == pytest.approx(numeric, abs=1e-8)
