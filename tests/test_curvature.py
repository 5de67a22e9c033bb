"""Every curvature estimator, by every oracle that samples: the exact Hessian product in the mean, and a test that sees
a bias."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny import GymTask, as_batch, enumerated, random_mdp

from raypfrl.methods.curvature import ESTIMATORS
from raypfrl.methods.per_fedavg_pg import exact, first_order
from raypfrl.oracles import NOISELESS, ORACLES, answers, covering
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.oracles.baseline import fit
from raypfrl.oracles.episodes import Episodes
from raypfrl.oracles.exact import ExactOracle
from raypfrl.policies import MLPSoftmax, TabularSoftmax, Vector
from raypfrl.populations import bandit, gridworld
from raypfrl.streams import LocalStep, Stream

GRID = gridworld(horizon=7)
SAMPLING = [
    name
    for name in covering(GRID.train[0], GRID.policy)
    if name not in NOISELESS and "hessian_vector_product" in answers(name, GRID.train[0], GRID.policy)
]
BATCHES, M_IN, M_H = 30, 20, 60


class Setting(NamedTuple):
    """An oracle of the gridworld, and the exact Hessian product that it is to find along v at theta."""

    oracle: Any
    theta: Vector
    v: Vector
    H_v: Vector


def remembered(oracle: AutodiffOracle) -> AutodiffOracle:
    """An oracle that samples each batch once, for all who ask for it: at one theta it is the same."""
    sample, batches = oracle.sample, dict[Stream, Episodes]()

    def once(theta: Vector, m: int, stream: Stream) -> Episodes:
        return batches.setdefault(stream, batches.get(stream) or sample(theta, m, stream))

    oracle.sample = once  # type: ignore[method-assign]
    return oracle


@pytest.fixture(scope="module", params=SAMPLING)
def setting(request: pytest.FixtureRequest) -> Setting:
    """The first agent; v is the gradient's direction, along which the curvature is not small."""
    arguments = (GRID.train[4], GRID.policy, GRID.gamma, GRID.horizon)
    oracle, exact = ORACLES[request.param](*arguments), ORACLES["exact"](*arguments)
    theta = 0.5 * np.random.default_rng(0).normal(size=100)
    v = exact.policy_gradient(theta)  # type: ignore[call-arg]
    v /= np.linalg.norm(v)
    H_v = exact.hessian_vector_product(theta, v)  # type: ignore[call-arg]
    return Setting(remembered(oracle) if isinstance(oracle, AutodiffOracle) else oracle, theta, v, H_v)


def estimates(setting: Setting, estimator: Any, m_h: int = M_H, batches: int = BATCHES) -> NDArray[np.float64]:
    steps = [LocalStep(0, 0, k, m_h) for k in range(batches)]
    return np.array([estimator(setting.oracle, setting.theta, setting.v, M_IN, m_h, step) for step in steps])


def off_by(found: NDArray[np.float64], exact: Vector) -> float:
    """By how many standard errors, computed from the batches, their mean is off: along the exact answer and along three
    random directions, at most."""
    directions = np.vstack([exact, np.random.default_rng(1).normal(size=(3, exact.size))])
    values = found @ directions.T
    standard_error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return float((np.abs(values.mean(axis=0) - directions @ exact) / standard_error).max())


@pytest.mark.parametrize("curvature", ESTIMATORS)
def test_the_mean_is_the_exact_product(setting: Setting, curvature: str) -> None:
    assert off_by(estimates(setting, ESTIMATORS[curvature]), setting.H_v) < 3


def test_each_estimator_varies_less_than_the_one_before_it(setting: Setting) -> None:
    """What they are for. The summed variance over the batches: measured ratios are below 0.9 at each step, and the
    estimators share their batches, so that there is little noise in the ratios."""
    spread = {name: estimates(setting, estimator).var(axis=0).sum() for name, estimator in ESTIMATORS.items()}
    assert list(spread) == ["paper", "causal", "causal_baseline", "causal_value"]
    for before, after in itertools.pairwise(spread.values()):
        assert after < before
    assert spread["causal_value"] < 0.6 * spread["paper"]


# --- what is biased is seen ----------------------------------------------------------------------------------------


def second_half_of_u(oracle: Any, theta: Vector, v: Vector, m_in: int, m_h: int, step: LocalStep) -> Vector:
    """The surrogate nu differentiated twice, as much code does, by differences of g on one batch: g z^T is lost."""
    batch, e = oracle.sample(theta, m_h, step.hessian), 1e-5
    g = [oracle.policy_gradient_on(batch, theta + sign * e * v) for sign in (1, -1)]
    return np.asarray((g[0] - g[1]) / (2 * e))


def baseline_from_D_h(oracle: Any, theta: Vector, v: Vector, m_in: int, m_h: int, step: LocalStep) -> Vector:
    b = oracle.mean_rewards(theta, m_h, step.hessian)
    return np.asarray(oracle.hessian_vector_product(theta, v, m_h, step.hessian, credit="causal", baseline=b))


def value_from_D_h(oracle: Any, theta: Vector, v: Vector, m_in: int, m_h: int, step: LocalStep) -> Vector:
    b_w = oracle.value_baseline(theta, m_h, step.hessian)
    return np.asarray(oracle.hessian_vector_product(theta, v, m_h, step.hessian, credit="causal", baseline=b_w))


@pytest.mark.parametrize("setting", ["autodiff"], indirect=True)
def test_without_the_first_half_of_u_the_mean_is_off(setting: Setting) -> None:
    assert off_by(estimates(setting, second_half_of_u), setting.H_v) > 6


@pytest.mark.parametrize("setting", ["fused"], indirect=True)
@pytest.mark.parametrize("biased", [baseline_from_D_h, value_from_D_h])
def test_with_a_baseline_from_D_h_itself_the_mean_is_off(setting: Setting, biased: Any) -> None:
    """It shrinks the estimate by 1/m_h: with m_h = 2 by half, which many small batches show."""
    assert off_by(estimates(setting, biased, m_h=2, batches=4000), setting.H_v) > 6
    assert off_by(estimates(setting, ESTIMATORS["causal_value"], m_h=2, batches=4000), setting.H_v) < 3


# --- the baseline that knows the state, by enumeration ---------------------------------------------------------------


def test_a_baseline_fitted_to_D_in_is_unbiased_and_one_fitted_to_D_h_is_not() -> None:
    """Two batches of one trajectory each, all pairs of them; two states, two actions, two decisions."""
    mdp, policy, gamma = random_mdp(1, states=2), TabularSoftmax(2, 2), 0.8
    theta, v = np.random.default_rng(2).normal(size=(2, 4))
    oracle, exact = AutodiffOracle(GymTask("none is made"), policy, gamma, 1), ExactOracle(mdp, policy, gamma, 1)
    law = [(xi.q, as_batch(mdp, xi)) for xi in enumerated(mdp, theta, 1)]
    discounts = gamma ** np.arange(2)

    def fitted(*batches: Episodes) -> Vector:
        rewards = np.stack([batch.rewards for batch in batches]) * discounts
        return fit(rewards, np.eye(2)[np.stack([batch.observations for batch in batches])], discounts)

    def product(D_h: Episodes, baseline: Vector) -> Vector:
        return oracle.hessian_vector_product_on(D_h, theta, v, "causal", baseline)

    # D_in of two trajectories, one of them always the same, so that states differ and w is not zero.
    fixed = law[5][1]
    assert any(np.abs(fitted(fixed, D_in)[2:]).max() > 0.1 for _, D_in in law)
    by_D_in = sum(q * p * product(D_h, fitted(fixed, D_in)) for q, D_in in law for p, D_h in law)
    by_D_h = sum(p * product(D_h, fitted(fixed, D_h)) for p, D_h in law)
    H_v = exact.hessian_vector_product(theta, v)
    assert by_D_in == pytest.approx(H_v, abs=1e-12)
    assert np.linalg.norm(by_D_h - H_v) > 0.1 * np.linalg.norm(H_v)


def test_the_fit_is_the_regression_that_it_says() -> None:
    """Against least squares on the stacked system, in another unit of reward too."""
    rng = np.random.default_rng(0)
    rewards, phi, discounts = rng.normal(size=(7, 4)), rng.normal(size=(7, 4, 3)), 0.9 ** np.arange(4)
    R = np.array([[rewards[i, h:].sum() for h in range(4)] for i in range(7)])
    rows = [discounts[h] * (phi[i, h] - phi[:, h].mean(0)) for i in range(7) for h in range(4)]
    targets = [R[i, h] - R[:, h].mean() for i in range(7) for h in range(4)]
    w, *_ = np.linalg.lstsq(np.vstack([rows, np.sqrt(0.1) * np.eye(3)]), np.append(targets, np.zeros(3)))
    answer = fit(rewards, phi, discounts)
    assert answer[4:] == pytest.approx(w)
    for h in range(4):
        assert answer[h:4].sum() == pytest.approx(R[:, h].mean() - discounts[h] * phi[:, h].mean(0) @ w)
    assert fit(50 * rewards, phi, discounts) == pytest.approx(50 * answer)
    assert fit(rewards, phi[..., :0], discounts) == pytest.approx(rewards.mean(0))


# --- one decision --------------------------------------------------------------------------------------------------


def test_on_a_problem_of_one_decision_causal_is_the_paper_s() -> None:
    step, v = LocalStep(0, 0, 0, 0), np.ones(1)

    def both(horizon: int, gamma: float) -> list[Vector]:
        population = bandit(horizon=horizon, gamma=gamma)
        oracle = ORACLES["autodiff"](population.train[0], population.policy, gamma, horizon)
        return [ESTIMATORS[name](oracle, np.array([0.3]), v, 5, 20, step) for name in ("paper", "causal")]

    paper, causal = both(horizon=0, gamma=0.0)
    assert causal == pytest.approx(paper, abs=1e-14)
    paper, causal = both(horizon=2, gamma=0.5)
    assert abs(causal - paper) > 0.01


@pytest.mark.parametrize("curvature", ESTIMATORS)
@pytest.mark.parametrize("name", SAMPLING)
def test_clipping_at_inf_is_no_clipping_and_at_0_first_order(name: str, curvature: str) -> None:
    oracle = ORACLES[name](GRID.train[0], GRID.policy, GRID.gamma, GRID.horizon)
    theta, step = 0.3 * np.random.default_rng(0).normal(size=100), LocalStep(0, 0, 0, 0)
    batches = {"alpha": 2.0, "m_in": 9, "m_out": 11}

    def end(clip: float | None) -> bytes:
        settings = {"m_h": 10, "curvature": curvature, "curvature_clip": clip, **batches}
        return exact(oracle, theta, step, **settings).tobytes()

    assert end(np.inf) == end(None)
    assert end(0.0) == first_order(oracle, theta, step, **batches).tobytes() != end(None)


# --- what a state is told by -----------------------------------------------------------------------------------------


def test_the_features_are_what_the_logits_are_linear_in() -> None:
    """One-hot in a finite state; the last hidden layer of a network, from which its logits follow."""
    rng = np.random.default_rng(0)
    states = torch.tensor([3, 0, 24])
    one_hot = GRID.policy.state_features(torch.tensor(rng.normal(size=100)), states)
    assert one_hot.tolist() == np.eye(25)[states].tolist()
    assert bandit().policy.state_features(torch.zeros(1), torch.tensor([0, 0])).tolist() == [[1.0], [1.0]]
    policy, x = MLPSoftmax(inputs=2, actions=3, hidden=(5, 4)), torch.tensor(rng.normal(size=(6, 2)))
    theta = torch.tensor(rng.normal(size=policy.dim))
    phi = policy.state_features(theta, x)
    assert phi.shape == (6, 4)
    logits = phi @ theta[-15:-3].reshape(4, 3) + theta[-3:]
    expected = torch.log_softmax(logits, -1)[torch.arange(6), torch.arange(6) % 3]
    assert torch.allclose(policy.log_prob(theta, x, torch.arange(6) % 3), expected)
