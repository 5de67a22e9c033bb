"""SG-MRL by enumeration: over all inner and outer batches of a tiny MDP its mean is the gradient of V_nu."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tiny import Estimates, by_hand, central_difference, enumerated, random_mdp

from raypfrl.methods.sg_mrl import sg_mrl
from raypfrl.oracles import Meter, Oracle, Outcome
from raypfrl.streams import LocalStep, Purpose, Stream

GAMMA, ALPHA = 0.9, 0.8
STEP = LocalStep(seed=0, agent=0, round=0, step=0)


class Given(Oracle):
    """Answers from given batches: the inner ones by part, and the outer one."""

    def __init__(self, mdp: Any, inner: list[Any], outer: Any) -> None:
        self.meter, self._mdp, self._inner, self._outer = Meter(), mdp, inner, outer

    def _batch(self, theta: Any, stream: Stream) -> list[Estimates]:
        batch = self._outer if stream.purpose is Purpose.OUTER else self._inner[stream.part]
        return [by_hand(self._mdp, theta, GAMMA, xi) for xi in batch]

    def policy_gradient(self, theta: Any, m: int, stream: Stream) -> Any:
        return np.mean([xi.g for xi in self._batch(theta, stream)], axis=0)

    def hessian_vector_product(self, theta: Any, v: Any, m: int, stream: Stream, **how: Any) -> Any:
        assert how == {"credit": "none"}
        return np.mean([xi.second_term for xi in self._batch(theta, stream)], axis=0) @ v

    def score_sum(self, theta: Any, m: int, stream: Stream) -> Any:
        return np.sum([xi.z for xi in self._batch(theta, stream)], axis=0)

    def mean_rewards(self, theta: Any, m: int, stream: Stream) -> Any:
        return np.array([np.mean([xi.return_ for xi in self._batch(theta, stream)])])

    def returns(self, theta: Any, m: int, stream: Stream) -> Outcome:
        assert stream.purpose is Purpose.HESSIAN, "independent of D_in and D_out"
        return Outcome(0.37, np.nan, np.nan)


class PaperU(Given):
    """A wrong control: the Hessian estimate u, which has a score term of its own, in the place of hess nu."""

    def hessian_vector_product(self, theta: Any, v: Any, m: int, stream: Stream, **how: Any) -> Any:
        return np.mean([xi.second_term + xi.score_term for xi in self._batch(theta, stream)], axis=0) @ v


class MeanScore(Given):
    """A wrong control: the mean of the scores over the inner batch, in the place of their sum."""

    def score_sum(self, theta: Any, m: int, stream: Stream) -> Any:
        return super().score_sum(theta, m, stream) / m


def batches(mdp: Any, theta: Any, horizon: int, m: int) -> Iterator[tuple[float, Any]]:
    """Every batch of m trajectories, and its probability."""
    for batch in itertools.product([*enumerated(mdp, theta, horizon)], repeat=m):
        yield float(np.prod([xi.q for xi in batch])), batch


def worlds(mdp: Any, theta: Any, horizon: int, m_in: int, nu: int) -> Iterator[tuple[float, list[Any], Any]]:
    """Every sequence of nu inner batches, its probability, and theta^nu."""
    if nu == 0:
        yield 1.0, [], theta
        return
    for q, before, at in worlds(mdp, theta, horizon, m_in, nu - 1):
        for p, batch in batches(mdp, at, horizon, m_in):
            g = np.mean([by_hand(mdp, at, GAMMA, xi).g for xi in batch], axis=0)
            yield q * p, [*before, batch], at + ALPHA * g


def V(mdp: Any, theta: Any, horizon: int, m_in: int, nu: int) -> float:
    """E J(theta^nu)."""
    return sum(
        q * sum(xi.q * by_hand(mdp, at, GAMMA, xi).return_ for xi in enumerated(mdp, at, horizon))
        for q, _, at in worlds(mdp, theta, horizon, m_in, nu)
    )


def mean_direction(kind: type[Given], mdp: Any, theta: Any, horizon: int, m_in: int, nu: int, baseline: int = 0) -> Any:
    """E d over all inner batches and all outer ones of a single trajectory."""
    total = np.zeros_like(theta)
    for q, inner, at in worlds(mdp, theta, horizon, m_in, nu):
        for p, outer in batches(mdp, at, horizon, 1):
            oracle = kind(mdp, inner, outer)
            settings = {"alpha": ALPHA, "m_in": m_in, "m_out": 1, "m_baseline": baseline, "inner_steps": nu}
            total = total + q * p * sg_mrl(oracle, theta, STEP, **settings)
    return total


CASES = [(0, 2, 1), (0, 1, 2), (1, 1, 1)]  # horizon, m_in, nu


@pytest.mark.parametrize(("horizon", "m_in", "nu"), CASES)
@pytest.mark.parametrize("baseline", [0, 5])
def test_its_mean_is_the_gradient_of_V(horizon: int, m_in: int, nu: int, baseline: int) -> None:
    """With and without a baseline, which moves no mean."""
    mdp, theta = random_mdp(3, states=2), np.array([0.3, -0.2, 0.5, 0.1])
    truth = central_difference(lambda x: V(mdp, x, horizon, m_in, nu), theta)
    found = mean_direction(Given, mdp, theta, horizon, m_in, nu, baseline)
    assert np.abs(found - truth).max() < 1e-8
    assert np.linalg.norm(truth) > 0.05


@pytest.mark.parametrize(("wrong", "case"), [(PaperU, CASES[0]), (PaperU, CASES[2]), (MeanScore, CASES[0])])
def test_two_traps_are_found(wrong: type[Given], case: tuple[int, int, int]) -> None:
    """u in the Jacobian counts the score term twice; the mean of the scores is 1/m_in of what is due."""
    mdp, theta = random_mdp(3, states=2), np.array([0.3, -0.2, 0.5, 0.1])
    truth = central_difference(lambda x: V(mdp, x, *case), theta)
    assert np.abs(mean_direction(wrong, mdp, theta, *case) - truth).max() > 5e-3
