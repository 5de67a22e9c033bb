"""Diagnostics: they change nothing, they tell what is so, and they say where a lemma fails."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tiny import bytes_of, one_update, runs, small

from raypfrl import RunConfig
from raypfrl.bounds import Bounds, bounds
from raypfrl.config import known
from raypfrl.federation import InProcess, Training, build_agent
from raypfrl.federation.agent import Agent
from raypfrl.federation.train import summary
from raypfrl.methods import METHODS
from raypfrl.methods.per_fedavg_pg import exact, fedavg_pg, first_order
from raypfrl.metrics import METRICS, tracked
from raypfrl.oracles import ORACLES, AgentError
from raypfrl.oracles.exact import gradient_of_F
from raypfrl.policies import Vector
from raypfrl.populations import POPULATIONS
from raypfrl.streams import LocalStep, Purpose, Stream
from raypfrl.watch import REPLICATES, Replicate, Watched

CURVATURE = {"diagnostics/curvature_cosine", "diagnostics/curvature_ratio"}
EXACT = {f"diagnostics/{name}" for name in ("gradient_norm", "heterogeneity", "bias", "variance")}


def run(config: RunConfig) -> tuple[list[dict[str, Any]], Any]:
    """The metrics of every evaluation, and the last theta."""
    training = Training(config, InProcess(config))
    return list(training), bytes_of(training.server)


def diagnostics(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name.startswith("diagnostics/")}


# --- off they cost nothing, on they change nothing -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("population", "method"), [pair for pair in itertools.product(POPULATIONS, METHODS) if runs(*pair)]
)
def test_a_watched_run_is_the_same_run(population: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raypfrl.watch.REPLICATES", 3)
    few = {name: m for name, m in {"m_in": 3, "m_h": 4, "m_out": 2}.items() if name in known(population, method)}
    (plain, theta), (watched, same) = (run(small(population, method, diagnostics=on, **few)) for on in (False, True))
    assert same == theta
    for before, after in zip(plain, watched, strict=True):
        assert not diagnostics(before)
        assert diagnostics(after) or after["status"] == "diverged"  # both alike
        for name in before.keys() - {"seconds", "kernel_seconds", "evaluation_seconds"}:
            assert repr(after[name]) == repr(before[name])  # nan too, where there is no goal


def test_they_are_no_part_of_a_runs_identity() -> None:
    assert small(diagnostics=True).key() == small().key()
    assert small(diagnostics=True).execution()["diagnostics"] is True


def test_off_nothing_stands_between_agent_and_oracle() -> None:
    agent = build_agent(small(), 0)
    assert not isinstance(agent.oracle, Watched)
    assert one_update(agent, np.zeros(100), 0).notes is None
    assert agent.evaluate(0, {"theta": np.zeros(100)}, None, (0,), 8).diagnosis is None


# --- what they tell ------------------------------------------------------------------------------------------------


def test_each_has_its_line_in_the_glossary_and_is_tracked() -> None:
    metrics, _ = run(small(diagnostics=True))
    assert set(diagnostics(metrics[-1])) == {name for name in METRICS if name.startswith("diagnostics/")}
    assert tracked(metrics[-1]).items() >= diagnostics(metrics[-1]).items()
    assert str(REPLICATES) in METRICS["diagnostics/bias"]


@pytest.mark.parametrize(
    ("population", "method", "told"),
    [
        ("gridworld", "first_order", EXACT | {"diagnostics/drift_ratio", "diagnostics/spread"}),
        ("quadratic", "exact", EXACT | CURVATURE | {"diagnostics/spread"}),  # no bound on its score
        ("navigation", "exact", CURVATURE | {"diagnostics/spread"}),  # nor on a network's, and nothing is exact
    ],
)
def test_what_a_population_does_not_know_is_left_out(population: str, method: str, told: set[str]) -> None:
    metrics, _ = run(small(population, method, diagnostics=True))
    assert set(diagnostics(metrics[-1])) == told


def test_on_the_exact_oracle_they_are_what_the_formulas_say() -> None:
    config = small("gridworld", oracle="exact", rounds=1, tau=1, alpha=2.0, diagnostics=True)
    population, training = config.build_population(), Training(config)
    first, last = training
    arguments = (population.policy, population.gamma, population.horizon)
    oracles = [ORACLES["exact"](task, *arguments) for task in population.train]
    theta, cosines, ratios, drifts = np.zeros(100), [], [], []
    for oracle in oracles:
        g_out = oracle.policy_gradient(theta + 2.0 * oracle.policy_gradient(theta, 0, STREAM), 0, STREAM)
        term = 2.0 * oracle.hessian_vector_product(theta, g_out, 0, STREAM)
        cosines.append(term @ g_out / np.linalg.norm(term) / np.linalg.norm(g_out))
        ratios.append(np.linalg.norm(term) / np.linalg.norm(g_out))
        drifts.append(np.linalg.norm(config.beta * (g_out + term)))
    G_F = bounds(population, exact, config.method_settings()).G_F
    assert last["diagnostics/curvature_cosine"] == pytest.approx(np.mean(cosines))
    assert last["diagnostics/curvature_ratio"] == pytest.approx(np.mean(ratios))
    assert last["diagnostics/drift_ratio"] == pytest.approx(max(drifts) / (config.beta * G_F))
    for metrics, where in ((first, theta), (last, training.server.theta)):
        gradient = gradient_of_F(oracles, where, 2.0)
        assert metrics["diagnostics/gradient_norm"] == pytest.approx(np.linalg.norm(gradient))
        own = np.stack([oracle.policy_gradient(where, 0, STREAM) for oracle in oracles])
        assert metrics["diagnostics/heterogeneity"] == pytest.approx(own.var(axis=0).sum())
        assert metrics["diagnostics/bias"] == pytest.approx(0, abs=1e-12)
        assert metrics["diagnostics/variance"] == pytest.approx(0, abs=1e-24)
    theta = training.server.theta
    adapted = [theta + 2.0 * oracle.policy_gradient(theta, 0, STREAM) for oracle in oracles]
    returns = [oracle.returns(plus, 0, STREAM).return_ for oracle, plus in zip(oracles, adapted, strict=True)]
    assert last["diagnostics/spread"] == pytest.approx(np.std(returns))


STREAM = Stream(0, 0, 0, 0, Purpose.INNER)


def test_first_orders_bias_is_the_curvature_term_that_it_lacks() -> None:
    """On the exact oracle there is no noise: the bias is ||alpha hess J g_out|| of every agent."""
    config = small("gridworld", "first_order", oracle="exact", rounds=1, alpha=2.0, diagnostics=True)
    first, _ = Training(config)
    expected = []
    for i in range(config.n):
        oracle = build_agent(config, i).judge
        g_out = oracle.policy_gradient(2.0 * oracle.policy_gradient(np.zeros(100), 0, STREAM), 0, STREAM)
        expected.append(np.linalg.norm(2.0 * oracle.hessian_vector_product(np.zeros(100), g_out, 0, STREAM)))
    assert first["diagnostics/bias"] == pytest.approx(np.mean(expected))


def test_bias_and_variance_are_those_of_fresh_directions() -> None:
    """The replicates' streams are no local step's, and no two are the same; a direction drawn from them has the
    variance of any other. Relative standard error of a variance from R draws: about sqrt(2/R), times sqrt 2 for the
    ratio of two; d = 1, R = 32, so four of them are 1.41, a factor of 2.4."""
    streams = {s for k in range(REPLICATES) for r in [Replicate(3, 1, 2, k)] for s in (r.inner, r.hessian, r.outer)}
    assert len(streams) == 3 * REPLICATES
    assert {stream.purpose for stream in streams} == {Purpose.DIAGNOSE}
    assert {(stream.seed, stream.agent, stream.round) for stream in streams} == {(3, 1, 2)}
    config = small("bandit", m_in=6, m_h=6, m_out=6, diagnostics=True)
    agent = build_agent(config, 1)
    diagnosis = agent.evaluate(0, {"theta": np.zeros(1)}, None, (0,), 8).diagnosis
    assert diagnosis is not None
    replicates = [Replicate(0, 1, 0, k) for k in range(REPLICATES)]
    direction = agent.method.direction
    drawn = [direction(agent.oracle, np.zeros(1), step) for step in replicates]
    assert diagnosis.variance == pytest.approx(np.var(drawn, ddof=1))
    steps = [LocalStep(0, 1, k, 0) for k in range(REPLICATES)]
    fresh = np.var([direction(agent.oracle, np.zeros(1), step) for step in steps], ddof=1)
    assert fresh / 2.4 < diagnosis.variance < fresh * 2.4


def test_a_round_without_a_step_has_no_mean() -> None:
    assert summary([], [None], []) == {}


# --- where a lemma fails -------------------------------------------------------------------------------------------


class Lying:
    """An oracle whose answers in one batch are too large."""

    def __init__(self, oracle: Any, purpose: Purpose, round: int, step: int) -> None:
        self._oracle, self._place = oracle, (purpose, round, step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._oracle, name)

    def _scale(self, stream: Stream) -> float:
        return 1e6 if (stream.purpose, stream.round, stream.step) == self._place else 1.0

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        return self._scale(stream) * self._oracle.policy_gradient(theta, m, stream)

    def hessian_vector_product(self, theta: Vector, v: Vector, m: int, stream: Stream, **estimator: Any) -> Vector:
        return self._scale(stream) * self._oracle.hessian_vector_product(theta, v, m, stream, **estimator)


def lying_agent(purpose: Purpose, known: Bounds | None = None) -> Agent:
    config = small("gridworld", diagnostics=True)
    agent = build_agent(config, 1)
    assert isinstance(agent.oracle, Watched)
    known = known or bounds(config.build_population(), exact, config.method_settings())
    lying = Lying(build_agent(small("gridworld"), 1).oracle, purpose, round=2, step=1)
    agent.oracle = Watched(lying, None, known, alpha=config.alpha, beta=config.beta)
    return agent


@pytest.mark.parametrize(
    ("purpose", "known", "message"),
    [
        (Purpose.INNER, None, r"agent 1, round 2, local step 1, inner batch: Lemma 1\(ii\) does not hold"),
        (Purpose.HESSIAN, None, r"agent 1, round 2, local step 1, hessian batch: Lemma 1\(iii\) does not hold"),
        (Purpose.HESSIAN, Bounds(G_F=9000), r"agent 1, round 2, local step 1: Lemma 3\(i\) does not hold"),
    ],
)
def test_the_agent_the_round_and_the_local_step_are_named(purpose: Any, known: Any, message: str) -> None:
    agent = lying_agent(purpose, known)
    one_update(agent, 0.1 * np.ones(100), round=1)  # nothing is wrong there
    with pytest.raises(AgentError, match=message):
        one_update(agent, np.zeros(100), round=2)


def test_lemma_4_is_held_from_the_broadcast_theta_on() -> None:
    watched = Watched(build_agent(small(), 0).oracle, None, Bounds(G_F=1.0), alpha=1.0, beta=0.5)
    broadcast, d = np.zeros(100), np.eye(100)[0]
    watched.local_step(LocalStep(0, 0, 7, 1), broadcast, d, 0.9 * d)
    assert watched.take_notes().drift_ratio == pytest.approx(0.9)
    with pytest.raises(AgentError, match=r"agent 0, round 7, local step 1: Lemma 4 does not hold"):
        watched.local_step(LocalStep(0, 0, 7, 1), broadcast, d, 1.1 * d)


def test_the_bounds_are_the_tight_ones_and_cover_what_the_lemmas_cover() -> None:
    gridworld, settings = small(horizon=15).build_population(), small().method_settings()
    known = bounds(gridworld, exact, settings)
    assert known == pytest.approx(Bounds(100 * np.sqrt(2), 3250, 100 * np.sqrt(2) * (1 + 2 * 3250)))
    with_baseline = bounds(gridworld, exact, {**settings, "curvature": "causal_baseline"})
    assert with_baseline == Bounds(known.G_J, 2 * known.L_J, pytest.approx(2 * known.G_F, rel=1e-3))
    assert bounds(gridworld, first_order, {"alpha": 2.0}).G_F == known.G_F
    assert pytest.approx(known.G_J * 6501**2) == bounds(gridworld, exact, {**settings, "inner_steps": 2}).G_F
    assert bounds(gridworld, fedavg_pg, {"alpha": 2.0}).G_F == known.G_J  # alpha is its evaluation's alone
    assert bounds(gridworld, exact, {**settings, "curvature": "causal_value"}) == Bounds(known.G_J)
    assert bounds(gridworld, None, settings) == known.__class__(known.G_J, known.L_J)
    assert bounds(small("navigation").build_population(), exact, settings) == Bounds()
    assert bounds(small(gamma=1.0).build_population(), exact, settings) == Bounds()
