"""Methods: which batch is asked where, what a step costs, where the methods coincide and where they differ."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import central_difference, small

from raypfrl import RunConfig, train
from raypfrl.federation import build_agent
from raypfrl.methods import METHODS
from raypfrl.methods.curvature import ESTIMATORS, clipped
from raypfrl.oracles import ORACLES, Meter, covering, is_exact
from raypfrl.oracles.exact import F, gradient_of_F
from raypfrl.populations import POPULATIONS
from raypfrl.streams import LocalStep

STEP = LocalStep(seed=0, agent=2, round=7, step=1)
POPULATION_OF = {name: small(name).build_population() for name in POPULATIONS}
COVERED = [(name, oracle) for name, p in POPULATION_OF.items() for oracle in covering(p.train[0], p.policy)]
SAMPLED = [pair for pair in COVERED if pair[1] != "exact"]
EXACT = [name for name, population in POPULATION_OF.items() if is_exact(population.train[0])]


class Recorder:
    """An oracle with grad J = b - A theta and hess J = -A that writes down what it is asked."""

    A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])
    b = np.array([1.0, -2.0, 0.5])

    def __init__(self):
        self.meter, self.asked = Meter(), []

    def policy_gradient(self, theta, m, stream):
        self.asked.append(("g", tuple(theta), m, stream))
        return self.b - self.A @ theta

    def hessian_vector_product(self, theta, v, m, stream, *, curvature="paper", baseline=None):
        self.asked.append(("H", tuple(theta), m, stream, tuple(v), curvature, baseline))
        return -self.A @ v

    def mean_rewards(self, theta, m, stream):
        self.asked.append(("b", tuple(theta), m, stream))
        return np.array([0.25, 0.5])


THETA = np.array([0.1, -0.2, 0.3])
SETTINGS = {"alpha": 0.5, "m_in": 3, "m_h": 4, "m_out": 2, "curvature": "paper", "curvature_clip": None}
G_IN = Recorder.b - Recorder.A @ THETA
ADAPTED = THETA + 0.5 * G_IN
G_OUT = Recorder.b - Recorder.A @ ADAPTED


def asked_by(name, **changed):
    """The direction of a method on the recorder, and what it asked."""
    recorder, method = Recorder(), METHODS[name]
    settings = {key: value for key, value in {**SETTINGS, **changed}.items() if key in method.settings}
    return method.direction(recorder, THETA, STEP, **settings), recorder.asked


def test_exact_is_equation_7():
    """D_in at theta, D_out at theta + alpha g_in, D_h at theta along g_out; each from its own stream."""
    direction, asked = asked_by("exact")
    assert direction == pytest.approx(G_OUT - 0.5 * Recorder.A @ G_OUT, abs=1e-14)
    assert asked == [
        ("g", tuple(THETA), 3, STEP.inner),
        ("g", tuple(ADAPTED), 2, STEP.outer),
        ("H", tuple(THETA), 4, STEP.hessian, tuple(G_OUT), "paper", None),
    ]


def test_first_order_is_equation_7_without_the_curvature_factor():
    direction, asked = asked_by("first_order")
    assert direction == pytest.approx(G_OUT, abs=1e-14)
    assert asked == [("g", tuple(THETA), 3, STEP.inner), ("g", tuple(ADAPTED), 2, STEP.outer)]


@pytest.mark.parametrize("name", ["fedavg_pg", "independent"])
def test_fedavg_pg_is_one_gradient_from_the_whole_budget(name):
    direction, asked = asked_by(name)
    assert direction == pytest.approx(G_IN, abs=1e-14)
    assert asked == [("g", tuple(THETA), 3 + 4 + 2, STEP.inner)]


def test_the_causal_estimators_and_where_the_baseline_comes_from():
    """From D_in, by its stream and size: independent of D_h, at no extra sample."""
    for curvature in ("causal", "causal_baseline"):
        direction, asked = asked_by("exact", curvature=curvature)
        assert direction == pytest.approx(G_OUT - 0.5 * Recorder.A @ G_OUT, abs=1e-14)
        *_, (_, theta, m, stream, v, kind, baseline) = asked
        assert (theta, m, stream, v, kind) == (tuple(THETA), 4, STEP.hessian, tuple(G_OUT), "causal")
        if curvature == "causal":
            assert baseline is None
        else:
            assert asked[2] == ("b", tuple(THETA), 3, STEP.inner)
            assert baseline.tolist() == [0.25, 0.5]


# --- on real oracles --------------------------------------------------------------------------------------------------

RICH = ("gridworld", "navigation", "bandit", "quadratic")  # small batches hold rewards, and no episode ends early


def one_step(method, population, oracle, **settings):
    """A local update of agent 0 with tau = 1 from a theta that is not special."""
    config = small(population, method, oracle=oracle, tau=1, **settings)
    theta = config.build_population().initial() + 0.3 * np.random.default_rng(0).normal(size=_dim(config))
    return config, theta, build_agent(config, 0).local_update(theta, 1)


def _dim(config):
    return config.build_population().policy.dim


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("population", "oracle"), COVERED)
def test_every_method_takes_a_step_on_every_oracle_and_pays_for_the_batches_it_names(population, oracle, method):
    config, theta, update = one_step(method, population, oracle)
    assert update.theta.shape == theta.shape
    assert np.isfinite(update.theta).all()
    assert population not in RICH or not np.array_equal(update.theta, theta)
    budget = sum(size for name, size in config.method_settings().items() if name.startswith("m_"))
    assert update.trajectories == (0 if oracle == "exact" else budget)
    longest = update.trajectories * (config.horizon + 1)
    assert update.env_steps == longest if population in RICH else update.trajectories <= update.env_steps <= longest


@pytest.mark.parametrize(("method", "trajectories"), [("exact", 189), ("first_order", 125), ("fedavg_pg", 189)])
def test_budgets_in_numbers(method, trajectories):
    """m_in = 63, m_h = 64, m_out = 62."""
    assert one_step(method, "gridworld", "autodiff")[2].trajectories == trajectories


@pytest.mark.parametrize("curvature", ESTIMATORS)
@pytest.mark.parametrize(("population", "oracle"), SAMPLED)
def test_every_curvature_estimator_costs_the_same(population, oracle, curvature):
    assert one_step("exact", population, oracle, curvature=curvature)[2].trajectories == 189


@pytest.mark.parametrize("population", EXACT)
def test_on_the_exact_oracle_exact_is_the_gradient_of_F_and_first_order_is_not(population):
    """Equation (6), for each agent; F itself by finite differences."""
    config = small(population, alpha=0.3)
    built = config.build_population()
    for number, task in enumerate(built.train[:2]):
        oracle = ORACLES["exact"](task, built.policy, built.gamma, built.horizon)
        theta = np.random.default_rng(number).normal(size=built.policy.dim)
        settings = {**config.method_settings(), "alpha": 0.3}
        direction = METHODS["exact"].direction(oracle, theta, STEP, **settings)
        assert direction == pytest.approx(gradient_of_F([oracle], theta, 0.3), abs=1e-14)
        numeric = central_difference(lambda x, oracle=oracle: F([oracle], x, 0.3), theta)
        assert np.abs(direction - numeric).max() <= 5e-8
        first_order = METHODS["first_order"].direction(oracle, theta, STEP, alpha=0.3, m_in=1, m_out=1)
        assert np.linalg.norm(direction - first_order) > 1e-3 * np.linalg.norm(direction)


@pytest.mark.parametrize("curvature", ESTIMATORS)
def test_the_exact_oracle_has_nothing_to_estimate(curvature):
    """Every estimator gives the same bytes there."""
    assert one_step("exact", "gridworld", "exact", curvature=curvature)[2].theta.tobytes() == (
        one_step("exact", "gridworld", "exact")[2].theta.tobytes()
    )


def final(config):
    """theta after training."""
    training = train(config.model_copy(update={"evaluate": ()}))
    assert [*training][-1]["status"] == "finished"
    return training.server.theta


@pytest.mark.parametrize(("population", "oracle"), COVERED)
def test_at_alpha_0_exact_and_first_order_end_at_the_same_bytes(population, oracle):
    thetas = [final(small(population, method, oracle=oracle, alpha=0)) for method in ("exact", "first_order")]
    assert thetas[0].tobytes() == thetas[1].tobytes()


@pytest.mark.parametrize(("population", "oracle"), COVERED)
def test_at_alpha_above_0_they_differ(population, oracle):
    """The name tells the truth: "exact" is no first order in disguise."""
    exact, first_order = (final(small(population, method, oracle=oracle)) for method in ("exact", "first_order"))
    assert np.linalg.norm(exact - first_order) > 1e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize(("population", "oracle"), SAMPLED)
def test_clipping_at_inf_changes_no_byte_and_at_0_gives_first_order(population, oracle):
    def end(method="exact", **settings):
        return one_step(method, population, oracle, **settings)[2].theta.tobytes()

    assert end(curvature_clip=float("inf")) == end(curvature_clip=1e300) == end()
    assert end(curvature_clip=0) == end("first_order")
    assert population not in RICH or len({end(curvature_clip=1e-3), end(), end("first_order")}) == 3


def test_clipping_scales_the_curvature_term_back_to_c_times_the_outer_gradient():
    rng = np.random.default_rng(0)
    term, g_out = rng.normal(size=(2, 20))
    for c in (0.1, 0.5):
        scaled = clipped(10 * term, g_out, c)
        assert np.linalg.norm(scaled) == pytest.approx(c * np.linalg.norm(g_out))
        assert scaled / np.linalg.norm(scaled) == pytest.approx(term / np.linalg.norm(term))
    assert clipped(0.01 * term, g_out, 1.0).tobytes() == (0.01 * term).tobytes()
    assert clipped(term, g_out, np.inf) is clipped(term, g_out, None) is term
    assert not clipped(term, g_out, 0.0).any()
    assert not clipped(0 * term, 0 * g_out, 1.0).any(), "0/0"


# --- what the server does with the results ----------------------------------------------------------------------------


def test_independent_agents_never_hear_of_each_other():
    """Each row is what the agent reaches alone, from its own initialisation; nothing is sent."""
    three = train(small("navigation", "independent", n=3, oracle="autodiff"))
    metrics = [*three][-1]
    assert three.server.theta.shape == (3, _dim(three.config))
    assert metrics["floats_sent"] == 0
    population = three.config.build_population()
    for number in range(3):
        theta = population.initial(three.config.seed, number)
        assert len({row.tobytes() for row in three.server.theta}) == 3
        agent = build_agent(three.config, number)
        for round_ in range(three.config.rounds):
            theta = agent.local_update(theta, round_).theta
        assert theta.tobytes() == three.server.theta[number].tobytes()


def test_from_scratch_begins_anew_for_each_seed_and_the_federation_does_not():
    """One theta^0 is shared by all seeds of a federation."""
    for method, shared in (("independent", False), ("exact", True)):
        thetas = [train(small("navigation", method, seed=seed)).server.theta.tobytes() for seed in (0, 1)]
        assert (thetas[0] == thetas[1]) == shared


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_a_methods_settings_are_settings_of_a_run_and_its_summary_is_a_line(method):
    assert set(method.settings) <= set(RunConfig.model_fields)
    assert 20 < len(method.summary) < 170
    assert method.summary.endswith((".", "trajectories", "(d,)"))
