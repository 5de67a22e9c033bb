"""Policies: gradients by finite differences, sampling against probabilities, the layout of theta."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from tiny import central_difference, softmax
from torch.func import grad, hessian

from raypfrl.policies import Layered, LinearSoftmax, MLPGaussian, MLPSoftmax, TabularSoftmax, UnitGaussian
from raypfrl.populations import POPULATIONS

FEATURES = (((0.0, 1.0), (1.0, -0.5), (2.0, 0.3)), ((0.4, 0.0), (-1.0, 1.0), (0.0, 0.7)))
POLICIES = {
    "tabular": (TabularSoftmax(states=2, actions=3), 5e-8),
    "linear": (LinearSoftmax(FEATURES), 5e-8),
    "softmax": (MLPSoftmax(inputs=2, actions=3, hidden=()), 6e-7),
    "softmax-4": (MLPSoftmax(inputs=2, actions=3, hidden=(4,)), 6e-7),
    "softmax-5-3": (MLPSoftmax(inputs=2, actions=3, hidden=(5, 3)), 6e-7),
    "gaussian-4": (MLPGaussian(inputs=2, actions=2, hidden=(4,)), 6e-7),
    "gaussian-3-3": (MLPGaussian(inputs=2, actions=1, hidden=(3, 3)), 6e-7),
    "unit gaussian": (UnitGaussian(), 6e-7),
}


def decisions(policy, m=6, seed=1):
    """A theta, and m observations with the actions that it takes there."""
    rng = np.random.default_rng(seed)
    theta = 0.7 * rng.normal(size=policy.dim)
    if hasattr(policy, "inputs"):
        observations = torch.tensor(rng.uniform(-1, 1, (m, policy.inputs)))
    else:
        observations = torch.tensor(rng.integers(getattr(policy, "states", 1), size=m))
    actions = torch.tensor(policy.act(theta, observations.numpy(), policy.noise(rng, (m,))))
    return theta, observations, actions


@pytest.fixture(params=POLICIES.values(), ids=POLICIES.keys())
def case(request):
    """Policy, tolerance, theta, observations, actions."""
    policy, tolerance = request.param
    return policy, tolerance, *decisions(policy)


def test_gradient_and_hessian_of_log_prob_by_finite_differences(case):
    policy, tolerance, theta, observations, actions = case

    def total(theta):
        return policy.log_prob(theta, observations, actions).sum()

    gradient = grad(total)(torch.tensor(theta)).numpy()
    numeric = central_difference(lambda theta: total(torch.tensor(theta)).item(), theta)
    assert np.abs(gradient - numeric).max() <= tolerance
    second = hessian(total)(torch.tensor(theta)).numpy()
    numeric = central_difference(lambda theta: grad(total)(torch.tensor(theta)).numpy(), theta)
    assert np.abs(second - numeric).max() <= tolerance
    assert np.abs(second).max() > 0.1, "the check is empty where the Hessian is 0"


def test_theta_has_the_policys_dim_and_starts_from_the_stream(case):
    policy, *_ = case
    first, again = (policy.init(np.random.default_rng(3)) for _ in range(2))
    assert first.shape == (policy.dim,)
    assert first.dtype == np.float64
    assert first.tobytes() == again.tobytes()


def test_shapes(case):
    policy, _, theta, observations, actions = case
    log_prob = policy.log_prob(torch.tensor(theta), observations, actions)
    assert log_prob.shape == (len(observations),)
    assert log_prob.dtype == torch.float64
    assert len(actions) == len(observations)


@pytest.mark.parametrize("name", [name for name in POLICIES if "gaussian" not in name])
def test_a_categorical_action_is_the_inverse_of_the_distribution_function(name):
    """Taken at every noise level on a fine grid, the actions fall into intervals as long as their probabilities."""
    policy = POLICIES[name][0]
    theta, observations, _ = decisions(policy, m=1)
    levels = (np.arange(20_000) + 0.5) / 20_000
    actions = policy.act(theta, np.repeat(observations.numpy(), 20_000, axis=0), levels)
    assert (np.diff(actions) >= 0).all()
    log_prob = [policy.log_prob(torch.tensor(theta), observations, torch.tensor([a])).item() for a in range(3)]
    assert np.exp(log_prob).sum() == pytest.approx(1, abs=1e-14)
    shares = [(actions == a).mean() for a in range(3)]
    assert shares == pytest.approx(np.exp(log_prob), abs=1e-4)


def test_the_last_action_takes_the_noise_that_rounding_leaves_over():
    """cumsum may end below the largest double under 1."""
    policy = TabularSoftmax(states=1, actions=4)
    theta, almost_one = np.array([1.0, 0.3, -2.0, 0.1]), np.array([1 - 2**-53])
    assert policy.act(theta, np.array([0]), almost_one).item() == 3


def test_gaussian_density_is_scipys():
    policy = MLPGaussian(inputs=2, actions=2, hidden=(4,))
    theta, observations, actions = decisions(policy)
    theta[-2:] = np.log([0.5, 2.0])  # log_std stands last
    mean = policy.act(theta, observations.numpy(), np.zeros((6, 2)))
    expected = stats.norm(mean, [0.5, 2.0]).logpdf(actions.numpy()).sum(-1)
    assert policy.log_prob(torch.tensor(theta), observations, actions).numpy() == pytest.approx(expected, abs=1e-12)
    moved = policy.act(theta, observations.numpy(), np.ones((6, 2)))
    assert moved - mean == pytest.approx(np.tile([0.5, 2.0], (6, 1)))


def test_tabular_theta_is_the_table_of_logits():
    policy = TabularSoftmax(states=2, actions=3)
    theta = np.arange(6.0)
    log_pi = np.log(softmax(theta.reshape(2, 3)))
    states, actions = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])
    assert policy.log_prob(torch.tensor(theta), states, actions).numpy() == pytest.approx(log_pi[states, actions])
    assert policy.logits(theta).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_network_theta_is_W1_b1_W2_b2_row_major():
    policy = MLPSoftmax(inputs=2, actions=3, hidden=(4,))
    rng = np.random.default_rng(0)
    W1, b1, W2, b2 = (rng.normal(size=shape) for shape in ((2, 4), 4, (4, 3), 3))
    theta, x = np.concatenate([W1.ravel(), b1, W2.ravel(), b2]), rng.normal(size=(5, 2))
    log_pi = np.log(softmax(np.tanh(x @ W1 + b1) @ W2 + b2))
    for a in range(3):
        log_prob = policy.log_prob(torch.tensor(theta), torch.tensor(x), torch.full((5,), a))
        assert log_prob.numpy() == pytest.approx(log_pi[:, a], abs=1e-12)


def test_the_papers_network_and_its_initialisation():
    """2-32-8, d = 360, W1 ~ N(0, 0.5^2), W2 ~ N(0, 0.1^2), biases 0. Standard deviations over 200 draws: the relative
    standard error of one from k numbers is 1/sqrt(2k)."""
    policy = MLPSoftmax(inputs=2, actions=8, hidden=(32,))
    assert policy.dim == 360
    rng = np.random.default_rng(0)
    draws = np.array([policy.init(rng) for _ in range(200)])
    W1, b1, W2, b2 = np.split(draws, [64, 96, 352], axis=1)
    assert not b1.any()
    assert not b2.any()
    for W, std in ((W1, 0.5), (W2, 0.1)):
        assert W.std() == pytest.approx(std, rel=3.5 / np.sqrt(2 * W.size))
        assert abs(W.mean()) < 3.5 * std / np.sqrt(W.size)


@pytest.mark.parametrize("family", POPULATIONS)
def test_all_seeds_of_a_population_share_theta_0_and_from_scratch_has_its_own(family):
    population = POPULATIONS[family].build()
    shared = population.initial()
    assert shared.tobytes() == POPULATIONS[family].build().initial().tobytes()
    own = [population.initial(seed, agent) for seed in (0, 1) for agent in (0, 1)]
    if family != "lqr" and shared.any():  # a random initialisation; lqr has to begin where all systems are stable
        assert len({theta.tobytes() for theta in [shared, *own]}) == 5


@pytest.mark.parametrize("name", POLICIES)
def test_the_body_makes_the_features_and_the_head_turns_them_into_actions(name):
    """Moving the head leaves the last hidden layer as it is; moving the body does not. Only networks have blocks."""
    policy, _ = POLICIES[name]
    assert isinstance(policy, Layered) == name.startswith(("softmax", "gaussian"))
    if not isinstance(policy, Layered):
        return
    body, head = policy.blocks["body"], policy.blocks["head"]
    assert list(policy.blocks) == ["body", "head"]
    assert [*range(policy.dim)[body], *range(policy.dim)[head]] == list(range(policy.dim))
    theta, observations, actions = decisions(policy)

    def seen(block):
        moved = theta.copy()
        moved[block] += 0.3
        moved = torch.tensor(moved)
        return policy.state_features(moved, observations), policy.log_prob(moved, observations, actions)

    features, log_prob = seen(slice(0, 0))
    assert torch.equal(seen(head)[0], features)
    if policy.hidden:
        assert not torch.allclose(seen(body)[0], features)
    moved = theta.copy()
    moved[head.start :: 2] += 0.3  # a shift of all logits alone is none
    assert not torch.allclose(policy.log_prob(torch.tensor(moved), observations, actions), log_prob)
