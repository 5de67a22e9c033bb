"""The two-point zeroth-order direction against gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny import small

from raypfrl.methods.zeroth_order import zeroth_order
from raypfrl.oracles import ORACLES, Meter, Outcome
from raypfrl.streams import LocalStep


def steps(count: int) -> list[LocalStep]:
    return [LocalStep(seed=7, agent=0, round=k, step=0) for k in range(count)]


def within(drawn: Any, truth: Any, errors: float = 3.0) -> bool:
    """Whether the mean is the truth along a random direction and in norm: within so many standard errors, of which
    ||mean - truth||^2 has the sum over the entries as its mean."""
    drawn, truth = np.asarray(drawn), np.asarray(truth)
    variances = drawn.var(axis=0, ddof=1) / len(drawn)
    error = drawn.mean(axis=0) - truth
    along = np.random.default_rng(0).standard_normal(truth.size)
    one = drawn @ along
    close = abs(one.mean() - truth @ along) <= errors * one.std(ddof=1) / np.sqrt(len(one))
    return bool(close and (error**2).sum() <= variances.sum() * (1 + errors * np.sqrt(2 / error.size)))


class Linear:
    """J(theta) = b . theta."""

    b = np.array([1.0, -2.0, 0.5, 3.0])
    meter = Meter()

    def returns(self, theta: Any, m: int, stream: Any) -> Outcome:
        return Outcome(float(self.b @ theta), np.nan, np.nan)


@pytest.mark.parametrize("radius", [0.01, 1.0])
@pytest.mark.parametrize("pairs", [1, 5])
def test_it_is_unbiased_for_a_linear_J_at_any_radius(radius: float, pairs: int) -> None:
    oracle: Any = Linear()
    drawn = [zeroth_order(oracle, np.ones(4), s, m_in=1, radius=radius, pairs=pairs) for s in steps(1000)]
    assert within(drawn, Linear.b)
    assert not within(drawn, 1.5 * Linear.b), "a control that must fail"


def test_it_is_unbiased_for_the_exact_gradient_at_a_small_radius() -> None:
    """On the gridworld's exact returns."""
    population = small("gridworld").build_population()
    oracle = ORACLES["exact"](population.train[0], population.policy, population.gamma, population.horizon)
    theta = np.random.default_rng(1).normal(size=100)
    drawn = [zeroth_order(oracle, theta, s, m_in=1, radius=0.01, pairs=20) for s in steps(150)]
    truth = oracle.policy_gradient(theta, 1, steps(1)[0].inner)
    assert within(drawn, truth)
    assert not within(drawn, 2 * truth)


def test_it_is_unbiased_from_sampled_returns_and_pays_for_both_sides() -> None:
    """On the quadratic, whose two-point difference is the gradient at any radius: noise alone is left."""
    population = small("quadratic").build_population()
    oracle = ORACLES["autodiff"](population.train[0], population.policy, population.gamma, population.horizon)
    theta = np.array([0.3])
    drawn = [zeroth_order(oracle, theta, s, m_in=4, radius=0.5, pairs=2) for s in steps(300)]
    assert within(drawn, [-0.5 * (0.3 - 1)])
    assert oracle.meter.trajectories == 300 * 2 * 2 * 4


def test_pairs_and_sides_draw_batches_of_their_own() -> None:
    seen = []

    class Recorder(Linear):
        def returns(self, theta: Any, m: int, stream: Any) -> Outcome:
            seen.append((stream, tuple(theta)))
            return super().returns(theta, m, stream)

    oracle: Any = Recorder()
    zeroth_order(oracle, np.zeros(4), steps(1)[0], m_in=1, radius=0.5, pairs=3)
    assert len({stream for stream, _ in seen}) == 6
    assert [np.linalg.norm(theta) for _, theta in seen] == pytest.approx([0.5] * 6)
    for (_, up), (_, down) in zip(seen[::2], seen[1::2], strict=True):
        assert np.add(up, down) == pytest.approx(np.zeros(4))
