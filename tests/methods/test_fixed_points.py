"""Every method ends where its theory says, on J_i = -a_i (w - c_i)^2 / 2 without noise: at a weighted mean of the c_i,
whose weights tell the methods apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import arrays_after

from raypfrl import RunConfig
from raypfrl.methods import METHODS
from raypfrl.populations.quadratic import TRAIN

a, c = np.array(TRAIN).T
TAU, ALPHA, BETA, LAM = 10, 0.2, 0.3, 3.0


def average() -> Any:
    """FedAvg at tau = 1, and whatever corrects its drift."""
    return a


def local() -> Any:
    """FedAvg with tau local steps."""
    return 1 - (1 - BETA * a) ** TAU


def meta() -> Any:
    """The stationary points of F."""
    return a * (1 - ALPHA * a) ** 2


def half() -> Any:
    """Those that the first order finds in their place."""
    return a * (1 - ALPHA * a)


def envelope() -> Any:
    """Those of the sum of the Moreau envelopes."""
    return a * LAM / (a + LAM)


PROX = {"lam": LAM, "prox_steps": 25, "prox_beta": 0.22, "tau": 1}
ENDS: dict[str, tuple[Callable[[], Any], int, dict[str, Any]]] = {  # weights, floats a round and agent, settings
    "exact": (meta, 2, {"tau": 1}),
    "first_order": (half, 2, {"tau": 1}),
    "fedavg_pg": (local, 2, {}),
    "hessian_free": (meta, 2, {"tau": 1, "delta": 0.7}),
    "scaffold": (average, 4, {}),
    "scaffold_exact": (meta, 4, {}),
    "scaffold_first_order": (half, 4, {}),
    "fast_fedpg": (average, 4, {}),
    "fast_fedpg_exact": (meta, 4, {}),
    "moreau": (envelope, 2, PROX),
    "mixing": (local, 2, {}),
    "mixing_zeroth_order": (local, 2, {}),
    "zeroth_order": (local, 2, {}),
    "hapg": (local, 2, {}),
    "svrpg": (local, 2, {}),
    "maml_lqr": (meta, 3, {"tau": 1}),
    "maml_lqr_first_order": (half, 3, {"tau": 1}),
}
ELSEWHERE = {  # where each agent has an end of its own, and what has none here
    "independent": "test_independent_agents_end_at_their_own_optima",
    "afedpg": "its steps are of one length; tests/methods/test_afedpg.py",
    "gossip": "test_gossip_with_all_is_fedavg_in_every_row",
    "shared_representation": "a scalar has no body and head; tests/methods/test_identities.py",
    "sg_mrl": "it needs trajectories; tests/methods/test_sg_mrl.py",
    **dict.fromkeys(
        ("fed_npg", "qavg", "pavg", "fed_td", "fed_q", "fed_sarsa", "fed_td_rep"),
        "they need a finite MDP; tests/methods/test_chains.py",
    ),
}


def run(method: str, **settings: Any) -> Any:
    quiet = {"oracle": "exact", "tau": TAU, "beta": BETA, "rounds": 110, "m_adapt": (0,)}
    given = {**quiet, **({"alpha": ALPHA} if "alpha" in METHODS[method].settings else {}), **settings}
    return arrays_after(RunConfig(population="quadratic", method=method, **given)).server


@pytest.mark.parametrize("method", ENDS)
def test_every_method_ends_where_its_theory_says(method: str) -> None:
    weights, floats, settings = ENDS[method]
    server = run(method, **settings)
    assert server.theta == pytest.approx([np.average(c, weights=weights())], abs=1e-9)
    answers = method.startswith("maml_lqr")  # one float: whether the step can be taken
    assert server.spent.floats_sent == (floats + answers) * 3 * server.round, "counted from the messages"


def test_no_method_is_left_out_and_no_two_ends_are_near() -> None:
    assert {*ENDS, *ELSEWHERE} == {*METHODS}
    places = [np.average(c, weights=weights()) for weights in (average, local, meta, half, envelope)]
    assert np.diff(np.sort(places)).min() > 1e-3


@pytest.mark.parametrize(
    ("weights", "value"), [(average, 0.028571), (meta, -0.010765), (half, 0.004082), (envelope, 0.016216)]
)
def test_the_numbers_themselves(weights: Callable[[], Any], value: float) -> None:
    """As they were worked out by hand."""
    assert np.average(c, weights=weights()) == pytest.approx(value, abs=5e-7)


def test_independent_agents_end_at_their_own_optima() -> None:
    server = run("independent")
    assert [server.kept[i]["theta"][0] for i in range(3)] == pytest.approx(c, abs=1e-9)
    assert server.spent.floats_sent == 0


@pytest.mark.parametrize("method", ["mixing", "mixing_zeroth_order"])
def test_a_mixture_ends_at_its_agents_own_optimum(method: str) -> None:
    """a_i v_i + (1 - a_i) w with w at its end: the own model makes up for what the shared one lacks."""
    server = run(method, beta_own=1.0, tau=1, rounds=150)
    mixtures = [0.5 * server.kept[i]["v_i"] + 0.5 * server.theta for i in range(3)]
    assert np.concatenate(mixtures) == pytest.approx(c, abs=1e-6)


def test_gossip_with_all_is_fedavg_in_every_row() -> None:
    rows = run("gossip", topology="star").arrays["theta_i"]
    assert rows.shape == (3, 1)
    assert np.ptp(rows) == 0
    assert rows[0] == pytest.approx([np.average(c, weights=local())], abs=1e-9)


@pytest.mark.parametrize("method", ["scaffold", "scaffold_exact", "fast_fedpg", "fast_fedpg_exact"])
def test_what_corrects_the_drift_does_not_depend_on_tau(method: str) -> None:
    """And FedAvg does."""
    one, many = (run(method, tau=tau, rounds=200 // tau).theta for tau in (1, 5))
    assert one == pytest.approx(many, abs=1e-9)
    plain = [run("fedavg_pg", tau=tau).theta[0] for tau in (1, 5)]
    assert abs(plain[0] - plain[1]) > 5e-3


@pytest.mark.parametrize(("lam", "weights"), [(1e7, a), (1e-7, np.ones(3))])
def test_moreaus_limits(lam: float, weights: Any) -> None:
    """lambda to infinity: FedAvg at tau = 1. To 0: every agent's own optimum counts the same, and that is where the
    agent itself then acts."""
    large = lam > 1
    settings = {"lam": lam, "prox_steps": 5 if large else 60, "prox_beta": 1 / (lam + 2) if large else 0.4, "tau": 1}
    server = run("moreau", beta=0.3 if large else 0.3 / lam, rounds=40, **settings)
    assert server.theta == pytest.approx([np.average(c, weights=weights)], abs=1e-5)


@pytest.mark.parametrize("step", ["momentum", "adam"])
def test_another_servers_step_moves_no_fixed_point(step: str) -> None:
    """Where the mean change is 0 momentum stays; adam's size of a step does not shrink with it, so it comes near."""
    settings = {"momentum": {"server_decay": 0.3}, "adam": {"beta_server": 0.01, "server_floor": 0.1}}[step]
    server = run("exact", tau=1, rounds={"momentum": 60, "adam": 1000}[step], server_step=step, **settings)
    assert server.theta == pytest.approx([np.average(c, weights=meta())], abs=1e-6)
