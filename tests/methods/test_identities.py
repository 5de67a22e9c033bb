"""Where two methods are one: to the byte where the numbers are the same, else to rounding."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from cases import arrays_after, few
from tiny import central_difference, small

from raypfrl import RunConfig
from raypfrl.methods import METHODS, WRAPPERS
from raypfrl.methods.gossip import weights
from raypfrl.methods.per_fedavg_pg import exact, first_order
from raypfrl.methods.scaffold import scaffold
from raypfrl.methods.shared_representation import blocks_of
from raypfrl.oracles import ORACLES
from raypfrl.streams import LocalStep

STEP = LocalStep(seed=0, agent=0, round=3, step=1)
BOTH = pytest.mark.parametrize("population", ["gridworld", "navigation"])


def theta_of(config: RunConfig) -> bytes:
    return arrays_after(config).server.theta.tobytes()


@BOTH
def test_mixing_that_does_not_mix_is_fedavg_pg(population: str) -> None:
    """At a = 0 the shared model never hears of the own one."""
    mixed = few(population, "mixing", own_share=0, beta_share=0)
    assert theta_of(mixed) == theta_of(few(population, "fedavg_pg"))
    assert theta_of(mixed.model_copy(update={"own_share": 0.5})) == theta_of(mixed), "v_i and a_i never leave"
    zeroth = [few(population, name) for name in ("mixing_zeroth_order", "zeroth_order")]
    assert theta_of(zeroth[0]) == theta_of(zeroth[1])


def test_mixing_all_its_own_is_learning_alone_from_the_shared_theta_0() -> None:
    """At a = 1 the own model takes tau steps a round along gradients at itself: on the exact oracle these are the
    steps of one agent's FedAvg."""
    settings = {"oracle": "exact", "cohort": "all", "tau": 3}
    server = arrays_after(few("gridworld", "mixing", own_share=1, beta_own=0.3, beta_share=0, **settings)).server
    alone = arrays_after(few("gridworld", "fedavg_pg", n=1, beta=0.3, **settings)).server.theta
    assert server.kept[0]["v_i"].tobytes() == alone.tobytes()
    assert server.kept[0]["v_i"].tobytes() != server.kept[1]["v_i"].tobytes()


@BOTH
def test_compressing_to_all_entries_is_no_compression(population: str) -> None:
    d = few(population, "exact").build_population().policy.dim
    for method in ("exact", "scaffold", "fast_fedpg"):
        whole = few(population, method)
        for way in ("top_k", "random_k"):
            for k in (d, d + 5):
                assert theta_of(few(population, method, compression=way, compress_k=k)) == theta_of(whole)
    assert theta_of(few(population, "exact", compression="top_k", compress_k=d - 1)) != theta_of(whole)


@pytest.mark.parametrize("method", METHODS)
def test_by_default_nothing_is_put_around_a_method(method: str) -> None:
    """The average is no step of its own, and no compression no wrapper."""
    for wrapper in WRAPPERS:
        assert wrapper(METHODS[method]) is METHODS[method]


@BOTH
def test_momentum_that_remembers_nothing_is_the_average(population: str) -> None:
    plain = arrays_after(few(population, "exact")).server.theta
    forgetful = arrays_after(few(population, "exact", server_step="momentum", server_decay=0)).server.theta
    assert forgetful == pytest.approx(plain, abs=1e-13)
    assert np.abs(plain).max() > 1e-3


@pytest.mark.parametrize("population", ["gridworld", "navigation"])
def test_a_single_agent_has_no_drift_to_correct(population: str) -> None:
    """n = 1: c = c_i, and what they are does not matter but for rounding."""
    theta = arrays_after(few(population, "fedavg_pg", n=1, cohort="all")).server.theta
    corrected = arrays_after(few(population, "scaffold", n=1, cohort="all")).server.theta
    assert corrected == pytest.approx(theta, abs=1e-12)
    assert np.abs(theta).max() > 1e-3


def test_scaffolds_first_round_is_fedavg() -> None:
    """All variates are 0."""
    pair = [theta_of(few("navigation", method, rounds=1)) for method in ("scaffold", "fedavg_pg")]
    assert pair[0] == pair[1]


def test_gossip_with_all_keeps_every_row_at_fedavg() -> None:
    """A star's W is the average; a ring's rows differ."""
    settings = {"n": 5, "cohort": "all", "oracle": "exact", "rounds": 4}
    rows = arrays_after(few("gridworld", "gossip", topology="star", **settings | {"cohort": "all"})).server.arrays[
        "theta_i"
    ]
    theta = arrays_after(few("gridworld", "fedavg_pg", **settings)).server.theta
    assert rows.shape == (5, 100)
    assert all(row.tobytes() == rows[0].tobytes() for row in rows)
    assert rows[0] == pytest.approx(theta, abs=1e-14)
    ring = arrays_after(few("gridworld", "gossip", topology="ring", **settings)).server.arrays["theta_i"]
    assert np.ptp(ring, axis=0).max() > 1e-3
    assert np.ptp(ring, axis=0).max() < 1


@pytest.mark.parametrize("topology", ["star", "ring"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_gossips_weights_are_symmetric_and_doubly_stochastic(topology: str, n: int) -> None:
    """So the mean over the agents is left as it is, and differences shrink."""
    W = weights(topology, n)
    assert W.tobytes() == W.T.copy().tobytes()
    assert W.sum(axis=0) == pytest.approx(np.ones(n))
    assert np.sort(np.abs(np.linalg.eigvalsh(W)))[:-1].max(initial=0) < 1 - 1e-3
    neighbours = n if topology == "star" else min(n, 3)
    assert ((W > 0).sum(axis=1) == neighbours).all()


# --- nu inner steps ---------------------------------------------------------------------------------------------------

GRID = small("gridworld", horizon=5).build_population()
ORACLE: Any = ORACLES["exact"](GRID.train[0], GRID.policy, GRID.gamma, GRID.horizon)
ALPHA = 0.7


def V(nu: int, theta: Any) -> Any:
    """J(theta^nu), theta^{j+1} = theta^j + alpha grad J(theta^j)."""
    for _ in range(nu):
        theta = theta + ALPHA * ORACLE.policy_gradient(theta)
    return ORACLE.objective(theta)


def test_exact_with_nu_steps_is_the_gradient_of_what_nu_exact_steps_are_worth() -> None:
    """By finite differences; the first order is not, and one step's gradient is not two steps'."""
    theta = np.random.default_rng(0).normal(size=100)
    batches = {"alpha": ALPHA, "m_in": 1, "m_out": 1}
    directions = [exact(ORACLE, theta, STEP, m_h=1, inner_steps=nu, **batches) for nu in (1, 2, 3)]
    for nu, direction in enumerate(directions, start=1):
        numeric = central_difference(partial(V, nu), theta)
        assert np.abs(direction - numeric).max() < 5e-8
        without = first_order(ORACLE, theta, STEP, inner_steps=nu, **batches)
        assert np.linalg.norm(without - numeric) > 1e-3 * np.linalg.norm(numeric)
    assert np.linalg.norm(directions[0] - directions[1]) > 1e-2 * np.linalg.norm(directions[0])


@BOTH
@pytest.mark.parametrize("method", ["exact", "first_order"])
def test_one_inner_step_is_the_papers_method(population: str, method: str) -> None:
    """To the byte and by its key; and each of two steps draws batches of its own."""
    plain = few(population, method)
    one = few(population, method, inner_steps=1)
    assert theta_of(one) == theta_of(plain)
    assert one.key() == plain.key() != few(population, method, inner_steps=2).key()


def test_scaffold_takes_any_direction() -> None:
    """A line makes a method: SCAFFOLD along exact at alpha = 0 and no curvature is SCAFFOLD along g_out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "scaffold_of_my_own", scaffold(first_order, ""))
        assert theta_of(few("navigation", "scaffold_of_my_own")) == theta_of(few("navigation", "scaffold_first_order"))


# --- a shared body ----------------------------------------------------------------------------------------------------


def test_only_the_body_is_shared_and_a_head_is_fitted_for_whom_was_never_seen() -> None:
    config = few("navigation", "shared_representation", rounds=2, tau_head=2, beta_head=0.3)
    training = arrays_after(config)
    population, server = config.build_population(), training.server
    blocks = blocks_of(population.policy)
    assert server.arrays["body"].size + next(iter(server.kept.values()))["head"].size == population.policy.dim
    per_round = 2 * server.arrays["body"].size * config.cohort
    assert server.spent.floats_sent == config.rounds * per_round
    first = population.initial()
    assert server.arrays["body"].tobytes() != first[blocks["body"]].tobytes()
    agent = server.agents._agent(3)  # type: ignore[attr-defined]
    own = agent.method.join(agent, server.arrays)
    as_it_is, fitted = (agent.method.personalise(agent, server.arrays, own, m) for m in (0, 50))
    assert as_it_is[blocks["head"]].tobytes() == first[blocks["head"]].tobytes()
    assert fitted[blocks["body"]].tobytes() == as_it_is[blocks["body"]].tobytes() == server.arrays["body"].tobytes()
    assert np.abs(fitted[blocks["head"]] - as_it_is[blocks["head"]]).max() > 1e-3


def test_without_steps_of_the_head_a_round_is_fedavgs_on_the_body() -> None:
    """Its body's path is FedAvg's with the head held fixed: the same gradients, the head's entries left out."""
    shared = few("navigation", "shared_representation", rounds=1, tau=1, tau_head=0, cohort="all")
    fedavg = few("navigation", "fedavg_pg", rounds=1, tau=1, cohort="all")
    body = blocks_of(shared.build_population().policy)["body"]
    assert arrays_after(shared).server.arrays["body"].tobytes() == arrays_after(fedavg).server.theta[body].tobytes()
