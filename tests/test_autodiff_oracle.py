"""The autodiff oracle: both estimators against enumeration, the exact oracle and full matrices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from tiny import GymTask, as_batch, by_hand, central_difference, enumerated, random_mdp
from torch.func import grad, hessian

from raypfrl.oracles import ORACLES
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.oracles.episodes import Episodes
from raypfrl.oracles.exact import ExactOracle
from raypfrl.policies import MLPGaussian, MLPSoftmax, TabularSoftmax
from raypfrl.populations import gridworld
from raypfrl.populations.population import MDP
from raypfrl.streams import Purpose, Stream

GAMMA = 0.8


def stream(number=0, purpose=Purpose.INNER):
    """Some batch's name."""
    return Stream(0, 0, number, 0, purpose)


# --- expectations by enumeration: no sampling, no tolerance to argue about --------------------------------------------


class Enumerated(NamedTuple):
    """Every trajectory of a small MDP with its probability, an oracle to ask, and the exact answers."""

    oracle: AutodiffOracle
    exact: ExactOracle
    batches: list[Episodes]
    q: list[float]
    theta: np.ndarray
    v: np.ndarray

    def mean(self, function):
        """E over one trajectory."""
        return sum(q * function(batch) for q, batch in zip(self.q, self.batches, strict=True))


def enumerate_all(mdp, horizon, end=None, seed=2):
    """``end``: a terminal state."""
    states, actions = mdp.r.shape
    policy = TabularSoftmax(states, actions)
    rng = np.random.default_rng(seed)
    theta, v = rng.normal(size=(2, policy.dim))
    trajectories = [xi for xi in enumerated(mdp, theta, horizon) if xi.q > 0]
    return Enumerated(
        AutodiffOracle(GymTask("no environment is made"), policy, GAMMA, horizon),
        ExactOracle(mdp, policy, GAMMA, horizon),
        [as_batch(mdp, xi, end=end) for xi in trajectories],
        [xi.q for xi in trajectories],
        theta,
        v,
    )


@pytest.fixture(scope="module")
def small():
    """Three states, two actions, three decisions: 216 trajectories."""
    return enumerate_all(random_mdp(1), horizon=2)


def test_every_trajectorys_g_and_uv_are_those_written_by_hand():
    """Equations (2) and (3) with full matrices, without automatic differentiation."""
    mdp = random_mdp(1)
    problem = enumerate_all(mdp, horizon=2)
    for xi, batch in list(zip(enumerated(mdp, problem.theta, 2), problem.batches, strict=True))[::7]:
        hand = by_hand(mdp, problem.theta, GAMMA, xi)
        assert problem.oracle.policy_gradient_on(batch, problem.theta) == pytest.approx(hand.g, abs=1e-12)
        product = problem.oracle.hessian_vector_product_on(batch, problem.theta, problem.v)
        u = hand.score_term + hand.second_term
        assert product == pytest.approx(u @ problem.v, abs=1e-12)


def test_a_batch_gives_the_mean_over_its_trajectories(small):
    mdp = random_mdp(1)
    several = as_batch(mdp, *[xi for xi in enumerated(mdp, small.theta, 2) if xi.q > 0][3:9])
    for question in (
        lambda batch: small.oracle.policy_gradient_on(batch, small.theta),
        lambda batch: small.oracle.hessian_vector_product_on(batch, small.theta, small.v),
        lambda batch: small.oracle.hessian_vector_product_on(batch, small.theta, small.v, "causal"),
    ):
        one_by_one = np.mean([question(batch) for batch in small.batches[3:9]], axis=0)
        assert question(several) == pytest.approx(one_by_one, abs=1e-12)


def test_g_is_unbiased(small):
    mean = small.mean(lambda batch: small.oracle.policy_gradient_on(batch, small.theta))
    assert mean == pytest.approx(small.exact.policy_gradient(small.theta), abs=1e-12)


ESTIMATORS = {
    "paper": lambda small, batch: small.oracle.hessian_vector_product_on(batch, small.theta, small.v),
    "causal": lambda small, batch: small.oracle.hessian_vector_product_on(batch, small.theta, small.v, "causal"),
    "causal with baseline": lambda small, batch: small.oracle.hessian_vector_product_on(
        batch, small.theta, small.v, "causal", np.array([0.7, -0.4, 0.2])
    ),
}


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS.keys())
def test_uv_is_unbiased(small, estimator):
    """hess J v by every estimator, with a baseline that is any constant."""
    mean = small.mean(lambda batch: estimator(small, batch))
    assert mean == pytest.approx(small.exact.hessian_vector_product(small.theta, small.v), abs=1e-12)


def test_without_g_zT_the_curvature_is_wrong(small):
    """The negative control: the surrogate differentiated twice, as much code does, is not hess J."""
    mdp = random_mdp(1)
    second = sum(xi.q * by_hand(mdp, small.theta, GAMMA, xi).second_term for xi in enumerated(mdp, small.theta, 2))
    exact = small.exact.hessian_vector_product(small.theta, small.v)
    assert np.linalg.norm(second @ small.v - exact) > 0.5 * np.linalg.norm(exact)


def test_a_baseline_from_D_in_is_unbiased_and_one_from_D_h_is_not():
    """Two batches of one trajectory each, all pairs of them. Taken from D_h itself the baseline cancels everything."""
    problem = enumerate_all(random_mdp(1, states=2), horizon=1)
    discounts = GAMMA ** np.arange(2)

    def product(D_h, baseline):
        return problem.oracle.hessian_vector_product_on(D_h, problem.theta, problem.v, "causal", baseline)

    def baseline_of(batch):
        return batch.rewards * discounts

    exact = problem.exact.hessian_vector_product(problem.theta, problem.v)
    independent = problem.mean(lambda D_in: problem.mean(lambda D_h: product(D_h, baseline_of(D_in))))
    assert independent == pytest.approx(exact, abs=1e-12)
    assert problem.mean(lambda D_h: product(D_h, baseline_of(D_h))) == pytest.approx(np.zeros(4), abs=1e-12)
    assert np.linalg.norm(exact) > 0.05


@pytest.mark.parametrize("baseline", [None, (0.7, -0.4, 0.2)])
def test_the_estimators_stay_unbiased_where_episodes_terminate(baseline):
    """State 2 ends the episode: its decisions never happen, but whether they happen depends on theta."""
    P, r, mu, _ = random_mdp(4)
    P[2], r[2] = [0, 0, 1], 0
    mdp = MDP(P, r, mu, None)
    problem = enumerate_all(mdp, horizon=2, end=2)
    assert {batch.lengths.item() for batch in problem.batches} == {0, 1, 2, 3}
    exact = problem.exact.hessian_vector_product(problem.theta, problem.v)
    products = [
        problem.mean(lambda batch: problem.oracle.hessian_vector_product_on(batch, problem.theta, problem.v)),
        problem.mean(
            lambda batch: problem.oracle.hessian_vector_product_on(
                batch, problem.theta, problem.v, "causal", None if baseline is None else np.array(baseline)
            )
        ),
    ]
    for product in products:
        assert product == pytest.approx(exact, abs=1e-12)
    mean = problem.mean(lambda batch: problem.oracle.policy_gradient_on(batch, problem.theta))
    assert mean == pytest.approx(problem.exact.policy_gradient(problem.theta), abs=1e-12)


# --- Monte Carlo on the gridworld -------------------------------------------------------------------------------------


class Sampled(NamedTuple):
    """Independent batches of the gridworld, an oracle, theta and v."""

    oracle: AutodiffOracle
    exact: ExactOracle
    batches: list[Episodes]
    theta: np.ndarray
    v: np.ndarray


@pytest.fixture(scope="module")
def sampled():
    """24 batches of 100 trajectories; v is the gradient's direction, along which the curvature is not small."""
    population = gridworld()
    arguments = (population.train[4], population.policy, population.gamma, population.horizon)
    oracle, exact = AutodiffOracle(*arguments), ORACLES["exact"](*arguments)
    theta = 0.5 * np.random.default_rng(0).normal(size=100)
    v = exact.policy_gradient(theta)
    batches = [oracle.sample(theta, 100, stream(number, Purpose.HESSIAN)) for number in range(24)]
    return Sampled(oracle, exact, batches, theta, v / np.linalg.norm(v))


def off_by(replicates, exact):
    """How many standard errors, computed from the replicates, their mean is off in each of six directions: the exact
    answer's own and five random ones."""
    directions = np.vstack([exact, np.random.default_rng(1).normal(size=(5, exact.size))])
    values = np.array(replicates) @ directions.T
    standard_error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.abs(values.mean(axis=0) - directions @ exact) / standard_error


MONTE_CARLO = {
    "paper": lambda s, D_h, D_in: s.oracle.hessian_vector_product_on(D_h, s.theta, s.v),
    "causal": lambda s, D_h, D_in: s.oracle.hessian_vector_product_on(D_h, s.theta, s.v, "causal"),
    "causal with baseline": lambda s, D_h, D_in: s.oracle.hessian_vector_product_on(
        D_h, s.theta, s.v, "causal", D_in.table(D_in.rewards, 16).mean(0) * 0.9 ** np.arange(16)
    ),
}


@pytest.mark.parametrize("estimator", MONTE_CARLO.values(), ids=MONTE_CARLO.keys())
def test_the_mean_of_H_hat_v_is_within_three_standard_errors(sampled, estimator):
    pairs = zip(sampled.batches, sampled.batches[1:] + sampled.batches[:1], strict=True)
    products = [estimator(sampled, D_h, D_in) for D_h, D_in in pairs]
    assert off_by(products, sampled.exact.hessian_vector_product(sampled.theta, sampled.v)).max() < 3


def test_the_mean_of_g_is_within_three_standard_errors(sampled):
    gradients = [sampled.oracle.policy_gradient_on(batch, sampled.theta) for batch in sampled.batches]
    assert off_by(gradients, sampled.exact.policy_gradient(sampled.theta)).max() < 3


def test_three_standard_errors_are_enough_to_see_that_g_zT_is_missing(sampled):
    """The negative control at the same sample size."""

    def second_term_only(batch):
        R, policy = torch.tensor(batch.reward_to_go(0.9 ** np.arange(16))), TabularSoftmax(25, 4)
        seen, taken = torch.tensor(batch.observations), torch.tensor(batch.actions)

        def nu_bar(theta):
            return (policy.log_prob(theta, seen, taken) * R).sum() / 100

        gradient = grad(nu_bar)
        return torch.func.jvp(gradient, (torch.tensor(sampled.theta),), (torch.tensor(sampled.v),))[1].numpy()

    products = [second_term_only(batch) for batch in sampled.batches]
    assert off_by(products, sampled.exact.hessian_vector_product(sampled.theta, sampled.v)).max() > 10


def test_the_causal_estimators_vary_less(sampled):
    """What they are for: the summed variance of u_c is below that of u at equal batches, with baseline lower still."""
    pairs = list(zip(sampled.batches, sampled.batches[1:] + sampled.batches[:1], strict=True))
    spread = [np.var([estimator(sampled, *pair) for pair in pairs], axis=0).sum() for estimator in MONTE_CARLO.values()]
    assert spread[0] > 1.2 * spread[1]
    assert spread[1] > spread[2]


# --- neural policies --------------------------------------------------------------------------------------------------

NEURAL = {
    "softmax-4": (GymTask("raypfrl/Navigation-v0", (("goal", (0.1, 0.3)), ("horizon", 5))), MLPSoftmax(2, 8, (4,))),
    "softmax-3-3": (GymTask("raypfrl/Navigation-v0", (("goal", (0.1, 0.3)), ("horizon", 5))), MLPSoftmax(2, 8, (3, 3))),
    "gaussian-4": (GymTask("tiny/Reach-v0"), MLPGaussian(2, 2, (4,))),
    "pendulum": (GymTask("Pendulum-v1"), MLPGaussian(3, 1, (4,))),
    "countdown": (GymTask("tiny/Countdown-v0", (("longest", 6),)), MLPSoftmax(2, 2, (4,))),
}


@pytest.mark.parametrize(("task", "policy"), NEURAL.values(), ids=NEURAL.keys())
def test_neural_estimates_against_finite_differences_and_full_matrices(task, policy):
    """On fixed trajectories: g is the derivative of nu_bar; u v is the mean of (g z^T + hess nu) v, trajectory by
    trajectory with whole matrices; the same without a baseline for u_c, reward by reward."""
    oracle = AutodiffOracle(task, policy, 0.9, horizon=5)
    rng = np.random.default_rng(3)
    theta, v = 0.5 * rng.normal(size=(2, policy.dim))
    batch = oracle.sample(theta, 4, stream())
    assert np.abs(batch.rewards).sum() > 0
    discounted = batch.table(batch.rewards, 6) * 0.9 ** np.arange(6)
    R = np.stack([discounted[:, h:].sum(1) for h in range(6)], 1)
    ends = np.append(0, batch.lengths.cumsum())

    def log_prob(theta, row):
        happened = slice(ends[row], ends[row + 1])
        return policy.log_prob(theta, *(torch.tensor(x[happened]) for x in (batch.observations, batch.actions)))

    def nu_bar(theta):
        return np.mean([log_prob(torch.tensor(theta), i).numpy() @ R[i, : batch.lengths[i]] for i in range(4)])

    scale = max(1.0, np.abs(R).max())
    gradient = oracle.policy_gradient_on(batch, theta)
    assert np.abs(gradient - central_difference(nu_bar, theta)).max() <= 6e-7 * scale

    u, u_c = np.zeros((2, policy.dim, policy.dim))
    for row, length in enumerate(batch.lengths):
        psi = torch.func.jacrev(log_prob)(torch.tensor(theta), row).numpy()
        Psi = np.stack(
            [hessian(lambda x, h=h, row=row: log_prob(x, row)[h])(torch.tensor(theta)) for h in range(length)]
        )
        g, z = R[row, :length] @ psi, psi.sum(0)
        u += (np.outer(g, z) + np.tensordot(R[row, :length], Psi, 1)) / 4
        for t in range(length):
            z_t = psi[: t + 1].sum(0)
            u_c += discounted[row, t] * (np.outer(z_t, z_t) + Psi[: t + 1].sum(0)) / 4
    assert oracle.hessian_vector_product_on(batch, theta, v) == pytest.approx(u @ v, abs=1e-10 * scale)
    assert oracle.hessian_vector_product_on(batch, theta, v, "causal") == pytest.approx(u_c @ v, abs=1e-10 * scale)
    oracle.close()
