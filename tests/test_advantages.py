"""What an estimator of a family's own makes of a batch: by hand, in the mean, and in the Hessian product."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import GymTask

from raypfrl.oracles import ORACLES
from raypfrl.oracles.advantages import advantages
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.policies import MLPSoftmax
from raypfrl.populations import Estimator, gridworld
from raypfrl.populations.population import PAPER
from raypfrl.streams import Purpose, Stream

POLICY = MLPSoftmax(2, 2, (3,))
TASK = GymTask("tiny/Countdown-v0", (("longest", 6),))
H, GAMMA = 5, 0.9
THETA, V = np.random.default_rng(0).normal(size=(2, POLICY.dim))
DISCOUNTS = GAMMA ** np.arange(H + 1)
ALL = [Estimator(b, n, a) for b in ("none", "time", "linear", "value") for n in (False, True) for a in (False, True)]


def oracle(estimator=PAPER):
    return AutodiffOracle(TASK, POLICY, GAMMA, H, estimator)


def stream(number):
    return Stream(0, 0, number, 0, Purpose.INNER)


@pytest.fixture(scope="module")
def batch():
    """Forty episodes of one to six decisions."""
    return oracle().sample(THETA, 40, stream(0))


def features(batch):
    return POLICY.state_features(torch.tensor(THETA), torch.tensor(batch.observations)).numpy()


def by_hand(batch, estimator):
    """A^h and the unit, by least squares on the stacked system and a loop."""
    t = batch.columns / (H + 1)
    o = batch.observations
    known = {"none": np.empty((len(t), 0)), "time": np.stack([t**0, t, t**2, t**3], 1)}
    known["linear"] = np.hstack([known["time"], o, o**2])
    known["value"] = np.hstack([known["time"], features(batch)])
    X = known[estimator.baseline] * DISCOUNTS[batch.columns, None]
    R = batch.reward_to_go(DISCOUNTS)
    ridge = np.sqrt(1e-8 * (X**2).sum() / max(X.shape[1], 1)) * np.eye(X.shape[1])
    w = np.linalg.lstsq(np.vstack([X, ridge]), np.append(R, np.zeros(len(ridge))))[0]
    A = R - X @ w
    c = A.std() if estimator.normalise else 1.0
    A = A - A.mean() if estimator.normalise else A
    return A, len(batch.lengths) / (c * (len(A) if estimator.average else len(batch.lengths)))


@pytest.mark.parametrize("estimator", ALL)
def test_gradient_and_product_are_those_by_hand(batch, estimator):
    """g is psi^T A in its unit; the product is the paper's, or the causal one, in the same unit."""
    A, unit = by_hand(batch, estimator)
    found = advantages(batch, batch.reward_to_go(DISCOUNTS), DISCOUNTS, estimator, lambda: features(batch))
    assert np.abs(found.A - A).max() < 1e-6
    assert found.unit == pytest.approx(unit, rel=1e-6)

    def log_prob(theta):
        return POLICY.log_prob(theta, torch.tensor(batch.observations), torch.tensor(batch.actions))

    psi = torch.func.jacrev(log_prob)(torch.tensor(THETA)).numpy()
    g = unit * (A @ psi) / len(batch.lengths)
    assert oracle(estimator).policy_gradient_on(batch, THETA) == pytest.approx(g, abs=1e-6)
    for how in (("all",), ("causal",), ("causal", np.linspace(0, 1, H + 1))):
        plain = oracle().hessian_vector_product_on(batch, THETA, V, *how)
        product = oracle(estimator).hessian_vector_product_on(batch, THETA, V, *how)
        assert product == pytest.approx(unit * plain, rel=1e-6)


def test_the_papers_estimator_is_the_default_to_the_byte(batch):
    plain = AutodiffOracle(TASK, POLICY, GAMMA, H)
    assert plain.policy_gradient_on(batch, THETA).tobytes() == oracle().policy_gradient_on(batch, THETA).tobytes()
    assert advantages(batch, batch.reward_to_go(DISCOUNTS), DISCOUNTS, Estimator(), lambda: features(batch)).unit == 1


@pytest.mark.parametrize("baseline", ["time", "linear", "value"])
def test_a_baseline_leaves_the_mean_and_lowers_the_variance(baseline):
    """On the gridworld against the exact gradient, 60 batches of 60. The fit to the batch itself biases by 1/m, which
    is below the standard error."""
    population = gridworld(horizon=7)
    arguments = (population.train[4], population.policy, population.gamma, population.horizon)
    theta = 0.5 * np.random.default_rng(0).normal(size=100)
    exact = ORACLES["exact"](*arguments).policy_gradient(theta, 0, stream(0))
    plain, better = (AutodiffOracle(*arguments, estimator) for estimator in (Estimator(), Estimator(baseline)))
    batches = [plain.sample(theta, 60, stream(k)) for k in range(60)]
    found = {o: np.array([o.policy_gradient_on(batch, theta) for batch in batches]) for o in (plain, better)}
    along = found[better] @ exact / np.linalg.norm(exact)
    off = abs(along.mean() - np.linalg.norm(exact)) / (along.std(ddof=1) / np.sqrt(60))
    assert off < 3
    assert found[better].var(0).sum() < found[plain].var(0).sum()


@pytest.mark.parametrize("baseline", ["none", "time", "linear"])
def test_returns_that_are_all_alike_say_nothing(baseline):
    """Normalised, they are 0, and not rounding errors made as large as 1."""
    task = GymTask("CartPole-v1")
    policy = MLPSoftmax(4, 2, (3,))
    still = AutodiffOracle(task, policy, 1.0, 0, Estimator(baseline, normalise=True))  # one decision, reward 1
    assert not still.policy_gradient(policy.init(np.random.default_rng(0)), 5, stream(0)).any()
