"""The supervised twin: the fixed points in closed form tell the methods apart."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from raypfrl.config import RunConfig
from raypfrl.federation.train import Training
from raypfrl.metrics import tracked
from raypfrl.oracles import ORACLES, covering
from raypfrl.oracles.exact import F, f, gradient_of_F, hessian_of_F
from raypfrl.populations import quadratic
from raypfrl.populations.quadratic import TRAIN
from raypfrl.streams import Purpose, Stream

A, C = np.array(TRAIN).T
ALPHA, LAM, BETA, TAU = 0.2, 3.0, 0.05, 10
STREAM = Stream(0, 0, 0, 0, Purpose.INNER)


def oracles(name: str = "exact") -> list[Any]:
    population = quadratic()
    return [ORACLES[name](task, population.policy, 0.0, 0) for task in population.train]


def weighted_mean(weights: np.ndarray) -> float:
    return float(weights @ C / weights.sum())


def end_of_training(method: str, tau: int, beta: float, rounds: int) -> float:
    """theta after a run with all of the platform: agents, server, evaluation."""
    settings = {"tau": tau, "beta": beta, "alpha": ALPHA, "rounds": rounds, "evaluate": rounds}
    training = Training(RunConfig(population="quadratic", method=method, **settings))
    assert [metrics["status"] for metrics in training] == ["running", "finished"]
    return float(training.server.theta[0])


@pytest.mark.parametrize(
    ("method", "tau", "beta", "weights", "expected"),
    [
        ("fedavg_pg", 1, 0.3, A, 0.028571),
        ("fedavg_pg", TAU, BETA, 1 - (1 - BETA * A) ** TAU, 0.013950),
        ("exact", 1, 0.3, A * (1 - ALPHA * A) ** 2, -0.010765),
        ("first_order", 1, 0.3, A * (1 - ALPHA * A), 0.004082),
    ],
)
def test_fixed_points(method: str, tau: int, beta: float, weights: np.ndarray, expected: float) -> None:
    theta = end_of_training(method, tau, beta, rounds=150)
    assert theta == pytest.approx(weighted_mean(weights), abs=1e-9)
    assert theta == pytest.approx(expected, abs=5e-7)


def test_fixed_point_of_pfedme() -> None:
    """w <- w - beta lam (w - theta_i(w)), theta_i(w) = argmax J_i - (lam / 2) (theta - w)^2 by gradient ascent."""
    w, agents = np.zeros(1), oracles()
    for _ in range(100):
        moves = []
        for oracle in agents:
            theta = w
            for _ in range(60):
                theta = theta + 0.25 * (oracle.policy_gradient(theta, 1, STREAM) - LAM * (theta - w))
            moves.append(0.2 * LAM * (theta - w))
        w = w + sum(moves) / len(moves)
    assert w[0] == pytest.approx(weighted_mean(A * LAM / (A + LAM)), abs=1e-9)
    assert w[0] == pytest.approx(0.016216, abs=5e-7)


def test_the_exact_fixed_point_is_where_grad_F_is_zero() -> None:
    theta = np.array([weighted_mean(A * (1 - ALPHA * A) ** 2)])
    assert gradient_of_F(oracles(), theta, ALPHA) == pytest.approx(0, abs=1e-12)
    curvature = hessian_of_F(oracles(), theta, np.ones(1), ALPHA)
    assert curvature == pytest.approx(-(A * (1 - ALPHA * A) ** 2).mean())
    assert F(oracles(), theta, 0.0) == f(oracles(), theta)


def test_environment_passes_the_checker() -> None:
    check_env(gymnasium.make("raypfrl/Quadratic-v0", a=2.0, c=0.3).unwrapped)


def test_an_episode_is_one_decision() -> None:
    env = gymnasium.make("raypfrl/Quadratic-v0", a=2.0, c=0.5)
    env.reset(seed=0)
    assert env.step(np.float64(2.5)) == (0, -3.0, True, False, {})


def test_oracles_and_population() -> None:
    population = quadratic(n=2)
    assert len(population.train) == 2
    assert covering(population.train[0], population.policy) == ("autodiff", "exact")
    assert RunConfig(population="quadratic", method="exact").oracle == "exact"
    with pytest.raises(ValueError, match="n = 4"):
        quadratic(n=4)
    with pytest.raises(ValueError, match="horizon = 3"):
        quadratic(horizon=3)


def test_the_sampling_oracle_agrees_with_the_closed_form() -> None:
    """Continuous actions against an exact answer: 60 batches of 60 each, within four standard errors of their mean."""
    (sampled, *_), (exact, *_) = oracles("autodiff"), oracles()
    theta, v = np.array([0.4]), np.array([1.0])
    for ask in (
        lambda oracle, stream: oracle.policy_gradient(theta, 60, stream)[0],
        lambda oracle, stream: oracle.hessian_vector_product(theta, v, 60, stream)[0],
        lambda oracle, stream: oracle.returns(theta, 60, stream).return_,
    ):
        answers = np.array([ask(sampled, Stream(7, 0, k, 0, Purpose.INNER)) for k in range(60)])
        assert answers.mean() == pytest.approx(ask(exact, STREAM), abs=4 * answers.std(ddof=1) / np.sqrt(60))
    assert exact.mean_rewards(theta, 1, STREAM).tolist() == [exact.objective(theta)]


def test_what_a_population_has_not_is_no_metric_of_it() -> None:
    """Without a goal there is no success: no panel of W&B or TensorBoard that shows nothing."""
    first = tracked(next(iter(Training(RunConfig(population="quadratic", method="exact", rounds=1)))))
    assert {"before/return", "after/return", "m_adapt_0/train/return"} <= set(first)
    assert not [name for name in first if name.rpartition("/")[2] in ("success", "final_distance")]
