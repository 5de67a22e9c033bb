"""Digits: gradients against torch, the convex case against SciPy, and who has what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.func import grad, jvp

from raypfrl import RunConfig, SettingsError, Training
from raypfrl.oracles import ORACLES
from raypfrl.populations import digits
from raypfrl.streams import Purpose, Stream

STREAM = Stream(0, 0, 0, 0, Purpose.INNER)
SHAPES = [(), (16,), (5, 4)]


def made(name: str, **options: Any) -> tuple[Any, Any]:
    """The named oracle of the first agent, and a theta that is not special."""
    population = digits(**options)
    theta = population.initial() + 0.1 * np.random.default_rng(0).normal(size=population.policy.dim)
    return ORACLES[name](population.train[0], population.policy, 0.0, 0), theta


def in_torch(x: Any, y: Any, decay: float, hidden: tuple[int, ...]) -> Any:
    """J by the policy's own log_prob, which torch differentiates."""
    policy = digits(hidden=hidden).policy
    seen, labels = torch.tensor(x), torch.tensor(y)
    return lambda theta: policy.log_prob(theta, seen, labels).mean() - decay / 2 * (theta * theta).sum()


@pytest.mark.parametrize("hidden", SHAPES)
def test_gradients_and_products_are_torchs(hidden: tuple[int, ...]) -> None:
    oracle, theta = made("exact", hidden=hidden, decay=0.05)
    x, y, *_ = digits(hidden=hidden).train[0].examples()  # type: ignore[union-attr]
    J, at = in_torch(x, y, 0.05, hidden), torch.tensor(theta)
    v = torch.tensor(np.random.default_rng(1).normal(size=theta.size))
    assert oracle.objective(theta) == pytest.approx(J(at).item(), rel=1e-13)
    assert oracle.policy_gradient(theta) == pytest.approx(grad(J)(at).numpy(), abs=1e-13)
    product = jvp(grad(J), (at,), (v,))[1].numpy()
    assert oracle.hessian_vector_product(theta, v.numpy()) == pytest.approx(product, abs=1e-12)
    assert np.abs(product).max() > 1e-2
    undecayed = jvp(grad(in_torch(x, y, 0.0, hidden)), (at,), (v,))[1].numpy()
    assert np.abs(product - undecayed).max() > 1e-2, "the control: decay is a part of it"


def test_a_sampled_batch_is_of_its_own_examples_and_unbiased() -> None:
    """Every batch of m has its price; the mean over many is the gradient on all, within standard errors."""
    (sampled, theta), (whole, _) = made("examples"), made("exact")
    g = whole.policy_gradient(theta)
    streams = [Stream(0, 0, k, 0, Purpose.INNER) for k in range(400)]
    drawn = np.array([sampled.policy_gradient(theta, 7, stream) @ g for stream in streams])
    assert abs(drawn.mean() - g @ g) < 4 * drawn.std(ddof=1) / 20
    assert drawn.std() > 0
    assert (sampled.meter.trajectories, sampled.meter.env_steps) == (2800, 2800)
    assert (whole.meter.trajectories, whole.meter.env_steps) == (0, 0)


def test_what_is_asked_of_a_batch_again_is_free_and_of_the_same_examples() -> None:
    oracle, theta = made("examples")
    v = np.ones_like(theta)
    g = oracle.policy_gradient(theta, 9, STREAM)
    spent = oracle.meter.trajectories
    plus, minus = (oracle.weighted_gradient(theta, theta + e * v, 9, STREAM) for e in (1e-6, -1e-6))
    product = oracle.hessian_vector_product(theta, v, 9, STREAM, credit="none")
    assert product == pytest.approx((plus - minus) / 2e-6, abs=1e-6)
    assert oracle.weighted_gradient(theta, theta, 9, STREAM).tobytes() == g.tobytes()
    assert not oracle.score_sum(theta, 9, STREAM).any()
    assert oracle.meter.trajectories == spent
    assert oracle.mean_rewards(theta, 9, STREAM) == [oracle.returns(theta, 9, STREAM).return_]


def test_the_convex_case_ends_at_scipys_optimum() -> None:
    """A linear predictor with decay: FedAvg at tau = 1 on the whole examples against L-BFGS on their torch loss. With
    local steps it ends elsewhere."""
    options = {"n": 3, "hidden": (), "own": 30, "decay": 0.2}
    population = digits(**options)
    parts = [in_torch(*task.examples()[:2], 0.2, ()) for task in population.train]  # type: ignore[union-attr]

    def loss(theta: Any) -> tuple[float, Any]:
        at = torch.tensor(theta, requires_grad=True)
        value = -sum(J(at) for J in parts) / len(parts)
        return value.item(), torch.autograd.grad(value, at)[0].numpy()

    best = minimize(loss, population.initial(), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 0}).x
    ends = {}
    for tau, rounds in ((1, 150), (15, 10)):
        settings = {"rounds": rounds, "evaluate": rounds, "tau": tau, "beta": 0.4, "m_adapt": (0,)}
        server = Training(
            RunConfig(population="digits", method="fedavg_pg", oracle="exact", **options, **settings)
        ).server
        for _ in range(rounds):
            server.run_round()
        ends[tau] = np.abs(server.theta - best).max()
    assert ends[1] < 1e-5
    assert ends[15] > 1e-3


def test_agents_have_two_or_three_classes_and_the_held_out_ones_other_mixtures() -> None:
    population = digits(n=8)
    mixtures = [task.classes for task in population.tasks]  # type: ignore[union-attr]
    assert {len(mixture) for mixture in mixtures} == {2, 3}
    assert not set(mixtures[:8]) & set(mixtures[8:])
    for task in population.tasks:
        x, y, x_test, y_test = task.examples()  # type: ignore[union-attr]
        assert (len(x), x.shape[1]) == (60, 64)
        assert set(y) == set(y_test) == set(task.classes)  # type: ignore[union-attr]
        assert not {row.tobytes() for row in x} & {row.tobytes() for row in x_test}
        assert 0 <= x.min() < x.max() <= 1


def test_learning_from_examples_is_seen_on_those_that_nobody_learned_from() -> None:
    settings = {"rounds": 40, "evaluate": 40, "hidden": ()}
    first, last = Training(RunConfig(population="digits", method="first_order", **settings))
    assert last["after/success"] > 0.9 > first["after/success"]
    assert last["held_out/after/success"] > 0.7


def test_without_scikit_learn_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SettingsError, match=r"^digits needs scikit-learn: pip install 'raypfrl\[analysis\]'$"):
        RunConfig(population="digits", method="exact", n=2, own=7)
