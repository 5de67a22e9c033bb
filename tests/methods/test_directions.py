"""The paper's directions: which batch is asked where, where they coincide and where they differ."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import central_difference, one_update, small

from raypfrl import train
from raypfrl.federation import build_agent
from raypfrl.methods import METHODS
from raypfrl.methods.curvature import ESTIMATORS, clipped
from raypfrl.methods.per_fedavg_pg import exact, first_order
from raypfrl.oracles import NOISELESS, ORACLES, Meter, answers, covering, is_exact
from raypfrl.oracles.exact import F, gradient_of_F
from raypfrl.populations import POPULATIONS
from raypfrl.settings import own_settings
from raypfrl.streams import LocalStep

STEP = LocalStep(seed=0, agent=2, round=7, step=1)
POPULATION_OF = {name: small(name).build_population() for name in POPULATIONS}
COVERED = [
    (name, oracle)
    for name, p in POPULATION_OF.items()
    for oracle in covering(p.train[0], p.policy)
    if "hessian_vector_product" in answers(oracle, p.train[0], p.policy)
]
SAMPLED = [pair for pair in COVERED if pair[1] not in NOISELESS]
EXACT = [  # of lqr, where not every theta has a J, in tests/test_lqr.py
    name for name, population in POPULATION_OF.items() if is_exact(population.train[0]) and name != "lqr"
]


class Recorder:
    """An oracle with grad J = b - A theta and hess J = -A that writes down what it is asked."""

    A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])
    b = np.array([1.0, -2.0, 0.5])

    def __init__(self):
        self.meter, self.asked = Meter(), []

    def policy_gradient(self, theta, m, stream):
        self.asked.append(("g", tuple(theta), m, stream))
        return self.b - self.A @ theta

    def hessian_vector_product(self, theta, v, m, stream, *, credit="all", baseline=None):
        self.asked.append(("H", tuple(theta), m, stream, tuple(v), credit, baseline))
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
    settings = {key: value for key, value in {**SETTINGS, **changed}.items() if key in own_settings(method.direction)}
    return method.direction(recorder, THETA, STEP, **settings), recorder.asked


def test_exact_is_equation_7():
    """D_in at theta, D_out at theta + alpha g_in, D_h at theta along g_out; each from its own stream."""
    direction, asked = asked_by("exact")
    assert direction == pytest.approx(G_OUT - 0.5 * Recorder.A @ G_OUT, abs=1e-14)
    assert asked == [
        ("g", tuple(THETA), 3, STEP.inner),
        ("g", tuple(ADAPTED), 2, STEP.outer),
        ("H", tuple(THETA), 4, STEP.hessian, tuple(G_OUT), "all", None),
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
    return config, theta, one_update(build_agent(config, 0), theta, 1)


def _dim(config):
    return config.build_population().policy.dim


@pytest.mark.parametrize("curvature", ESTIMATORS)
@pytest.mark.parametrize(("population", "oracle"), [pair for pair in SAMPLED if pair[1] in ("autodiff", "fused")])
def test_every_curvature_estimator_costs_the_same(population, oracle, curvature):
    config, _, update = one_step("exact", population, oracle, curvature=curvature)
    assert update.trajectories == config.m_in + config.m_h + config.m_out


@pytest.mark.parametrize("population", EXACT)
def test_on_the_exact_oracle_exact_is_the_gradient_of_F_and_first_order_is_not(population):
    """Equation (6), for each agent; F itself by finite differences."""
    config = small(population, alpha=0.3)
    built = config.build_population()
    for number, task in enumerate(built.train[:2]):
        oracle = ORACLES["exact"](task, built.policy, built.gamma, built.horizon)
        theta = np.random.default_rng(number).normal(size=built.policy.dim)
        direction = exact(oracle, theta, STEP, alpha=config.alpha, m_in=1, m_h=1, m_out=1)
        assert direction == pytest.approx(gradient_of_F([oracle], theta, 0.3), abs=1e-14)
        numeric = central_difference(lambda x, oracle=oracle: F([oracle], x, 0.3), theta)
        assert np.abs(direction - numeric).max() <= 5e-8
        without = first_order(oracle, theta, STEP, alpha=0.3, m_in=1, m_out=1)
        assert np.linalg.norm(direction - without) > 1e-3 * np.linalg.norm(direction)


@pytest.mark.parametrize("curvature", ESTIMATORS)
def test_the_exact_oracle_has_nothing_to_estimate(curvature):
    """Every estimator gives the same bytes there."""
    ends = [
        one_step("exact", "gridworld", "exact", curvature=name)[2].reply.up["theta"] for name in (curvature, "paper")
    ]
    assert ends[0].tobytes() == ends[1].tobytes()


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
    one, other = (final(small(population, method, oracle=oracle)) for method in ("exact", "first_order"))
    assert np.linalg.norm(one - other) > 1e-3 * np.linalg.norm(one)


@pytest.mark.parametrize(("population", "oracle"), SAMPLED)
def test_clipping_at_inf_changes_no_byte_and_at_0_gives_first_order(population, oracle):
    def end(method="exact", **settings):
        return one_step(method, population, oracle, **settings)[2].reply.up["theta"].tobytes()

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
    """What each keeps is what it reaches alone, from its own initialisation; nothing is sent."""
    three = train(small("navigation", "independent", n=3, oracle="autodiff"))
    metrics = [*three][-1]
    ends = [three.server.kept[number]["theta"] for number in range(3)]
    assert len({end.tobytes() for end in ends}) == 3
    assert not three.server.arrays
    assert metrics["floats_sent"] == 0
    population = three.config.build_population()
    for number in range(3):
        theta = population.initial(three.config.seed, number)
        agent = build_agent(three.config, number)
        for round_ in range(three.config.rounds):
            theta = agent.answer(0, round_, {}, {"theta": theta}).reply.kept["theta"]
        assert theta.tobytes() == ends[number].tobytes()


def test_from_scratch_begins_anew_for_each_seed_and_the_federation_does_not():
    """One theta^0 is shared by all seeds of a federation."""
    configs = [small("navigation", seed=seed) for seed in (0, 1)]
    shared = {train(config).server.theta.tobytes() for config in configs}
    own = {build_agent(config, number).own_theta().tobytes() for config in configs for number in (0, 1)}
    assert (len(shared), len(own)) == (1, 4)
