"""The bandit: its environment, its log-linear policy, and that every oracle and method runs on it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from raypfrl.oracles import ORACLES, covering
from raypfrl.policies import LinearSoftmax, TabularSoftmax
from raypfrl.populations import BanditTask, bandit
from raypfrl.populations.bandit import BanditEnv
from raypfrl.streams import Purpose, Stream

INNER, HESSIAN = (Stream(3, 0, 0, 0, purpose) for purpose in (Purpose.INNER, Purpose.HESSIAN))


def test_environment_passes_the_checker() -> None:
    check_env(gymnasium.make("raypfrl/Bandit-v0", **bandit().train[0].env_kwargs).unwrapped)


def test_an_episode() -> None:
    env = BanditEnv(rewards=(1.0, 0.2, 0.0), horizon=1)
    for _ in range(2):
        assert env.reset(seed=0) == (0, {})
        assert env.step(1) == (0, 0.2, False, False, {})
        assert env.step(0) == (0, 1.0, True, False, {})


def test_environment_refuses_a_single_arm() -> None:
    with pytest.raises(ValueError, match="at least two arms"):
        BanditEnv(rewards=(1.0,))


def test_the_mdp_is_the_environment() -> None:
    task = BanditTask((1.0, 0.2, 0.0), horizon=2)
    env = gymnasium.make(task.env_id, **task.env_kwargs)
    env.reset(seed=0)
    P, r, mu, distance = task.mdp()
    assert (P == 1).all()
    assert P.shape == (1, 3, 1)
    assert (mu.tolist(), distance) == ([1.0], None)
    steps = [env.step(arm) for arm in range(3)]
    assert [step[1] for step in steps] == r[0].tolist()
    assert [step[2] for step in steps] == [False, False, True]


def test_the_population() -> None:
    population = bandit()
    assert [task.rewards for task in population.train] == [(1, 1, 0), (0, 1, 1)]
    assert [task.rewards for task in population.held_out] == [(0.5, 1, 0.5)]
    assert population.initial().tolist() == [0.0]
    assert len(bandit(n=5).train) == 5
    assert bandit(n=1).held_out == ()
    with pytest.raises(ValueError, match="n = 0"):
        bandit(n=0)


def test_one_hot_features_make_a_tabular_softmax() -> None:
    one_hot = np.eye(6).reshape(2, 3, 6).tolist()
    linear, tabular = LinearSoftmax(tuple(tuple(map(tuple, s)) for s in one_hot)), TabularSoftmax(2, 3)
    theta = np.random.default_rng(0).standard_normal(6)
    assert linear.dim == tabular.dim
    assert (linear.init(np.random.default_rng(0)) == tabular.init(np.random.default_rng(0))).all()
    assert linear.logits(theta).tolist() == tabular.logits(theta).tolist()
    assert linear.pullback(theta.reshape(2, 3)).tolist() == tabular.pullback(theta.reshape(2, 3)).tolist()
    states, actions = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])
    weights = torch.tensor(theta)
    log_probs = [policy.log_prob(weights, states, actions) for policy in (linear, tabular)]
    assert torch.equal(*log_probs)
    u = np.array([0.1, 0.6, 0.99])
    assert np.array_equal(linear.act(theta, states.numpy(), u), tabular.act(theta, states.numpy(), u))


def test_pullback_is_the_transpose_of_logits() -> None:
    rng = np.random.default_rng(1)
    policy = LinearSoftmax(tuple(tuple(map(tuple, s)) for s in rng.standard_normal((2, 3, 4)).tolist()))
    theta, table = rng.standard_normal(4), rng.standard_normal((2, 3))
    assert (policy.logits(theta) * table).sum() == pytest.approx(theta @ policy.pullback(table))


def test_oracles() -> None:
    population = bandit()
    assert covering(population.train[0], population.policy) == ("autodiff", "exact", "table", "continuing")


@pytest.mark.parametrize("horizon", [0, 2])
def test_the_sampling_oracle_agrees_with_the_exact_one(horizon: int) -> None:
    """Means over m = 4000, within four standard errors; 100 batches of 40 tell the standard error."""
    population, theta, v = bandit(gamma=0.8, horizon=horizon), np.array([0.3]), np.array([1.0])
    task, rest = population.train[0], (population.policy, population.gamma, population.horizon)
    sampled, exact = ORACLES["autodiff"](task, *rest), ORACLES["exact"](task, *rest)
    batches = [(sampled, 40, Stream(5, 0, k, 0, Purpose.INNER)) for k in range(100)]
    for ask in (
        lambda oracle, m, stream: oracle.policy_gradient(theta, m, stream)[0],
        lambda oracle, m, stream: oracle.hessian_vector_product(theta, v, m, stream)[0],
        lambda oracle, m, stream: oracle.returns(theta, m, stream).return_,
    ):
        answers = np.array([ask(*batch) for batch in batches])
        assert answers.mean() == pytest.approx(ask(exact, 0, INNER), abs=4 * answers.std(ddof=1) / 10)
