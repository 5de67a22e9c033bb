"""AFedPG: what it remembers is the gradient itself, where gradients are linear and nobody is late."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from raypfrl.methods.afedpg import estimates, normalised, weight_at

rng = np.random.default_rng(0)
H = np.diag([0.5, 1.0, 3.0])
BEST = rng.normal(size=3)


def gradient(theta: Any) -> Any:
    """Of J = -(theta - c)' H (theta - c) / 2."""
    return -H @ (theta - BEST)


def agent() -> Any:
    """One whose gradients are exact."""
    oracle = SimpleNamespace(policy_gradient=lambda theta, m, stream: gradient(theta))
    return SimpleNamespace(oracle=oracle, step=lambda: SimpleNamespace(inner=None))


def steps(count: int, *, at: str = "ahead", delay: float = 0.0) -> list[Any]:
    """The server's arrays after each step."""
    theta = np.zeros(3)
    server: Any = {"theta": theta, "ahead": theta, "d": np.zeros(3), "k": np.zeros(1)}
    passed = []
    for _ in range(count):
        up = estimates(agent(), {"ahead": server[at]}, {}, tau=2, m_in=1).up
        late = np.array([min(delay, server["k"][0])])
        before, server = server, normalised(server, [{**up, "delay": late}], 1, beta=0.05, weight=0.2)
        passed.append((before, server))
    return passed


def test_what_is_remembered_is_the_gradient_where_one_is() -> None:
    """By induction d_k = grad J(theta_k), for any weights, and a step is beta long."""
    for before, server in steps(40):
        assert server["d"] == pytest.approx(gradient(before["theta"]), abs=1e-13)
        assert np.linalg.norm(server["theta"] - before["theta"]) == pytest.approx(0.05)


@pytest.mark.parametrize("wrong", [{"at": "theta"}, {"delay": 3.0}])
def test_without_the_look_ahead_or_with_delays_it_is_not(wrong: Any) -> None:
    apart = [np.abs(server["d"] - gradient(before["theta"])).max() for before, server in steps(40, **wrong)]
    assert apart[0] < 1e-13, "the first estimate is all there is"
    assert max(apart) > 0.01


def test_it_comes_within_a_step_of_the_optimum() -> None:
    *_, (_, server) = steps(200)
    assert np.linalg.norm(server["theta"] - BEST) < 0.1
    assert np.linalg.norm(BEST) > 0.3


def test_the_weight_falls_from_1_to_its_end() -> None:
    weights = [weight_at(k, 0.2) for k in range(10)]
    assert weights[0] == 1
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] == 0.2
    assert {weight_at(k, 1.0) for k in range(10)} == {1.0}
