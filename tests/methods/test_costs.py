"""What a round of every method costs an agent, in trajectories and in floats, and what it keeps, written out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cases import PAIRS, few

from raypfrl import RunConfig, Training
from raypfrl.methods import METHODS


def whole(c: RunConfig) -> int:
    """The exact method's budget of a local step."""
    return int(c.m_in + c.m_h + c.m_out)


COSTS: dict[str, Callable[[RunConfig], int]] = {
    "exact": lambda c: c.tau * (c.inner_steps * (c.m_in + c.m_h) + c.m_out),
    "first_order": lambda c: c.tau * (c.inner_steps * c.m_in + c.m_out),
    "fedavg_pg": lambda c: c.tau * whole(c),
    "independent": lambda c: c.tau * whole(c),
    "gossip": lambda c: c.tau * whole(c),
    "hessian_free": lambda c: c.tau * (c.m_in + c.m_out + 2 * c.m_h),
    "sg_mrl": lambda c: c.tau * (c.inner_steps * c.m_in + c.m_out + c.m_baseline),
    "scaffold": lambda c: c.tau * whole(c),
    "scaffold_exact": lambda c: c.tau * whole(c),
    "scaffold_first_order": lambda c: c.tau * (c.m_in + c.m_out),
    "fast_fedpg": lambda c: (c.tau + 1) * whole(c),
    "fast_fedpg_exact": lambda c: (c.tau + 1) * whole(c),
    "moreau": lambda c: c.tau * c.prox_steps * c.m_in,
    "mixing": lambda c: c.tau * 2 * whole(c),
    "mixing_zeroth_order": lambda c: c.tau * 2 * c.pairs * 2 * c.m_in,
    "zeroth_order": lambda c: c.tau * c.pairs * 2 * c.m_in,
    "shared_representation": lambda c: (c.tau_head + c.tau) * whole(c),
    "hapg": lambda c: c.m_in + (c.tau - 1) * c.m_h,
    "maml_lqr": lambda c: c.tau * whole(c) + 3 * c.m_in,
    "maml_lqr_first_order": lambda c: c.tau * (c.m_in + c.m_out) + 3 * c.m_in,
    "afedpg": lambda c: c.tau * c.m_in,
    "svrpg": lambda c: c.m_in + c.tau * c.m_out,
    **dict.fromkeys(("fed_npg", "qavg", "pavg", "fed_td", "fed_q", "fed_sarsa", "fed_td_rep"), lambda c: 0),
}
TRANSITIONS: dict[str, Callable[[RunConfig], int]] = {
    **dict.fromkeys(("fed_td", "fed_q", "fed_sarsa"), lambda c: c.tau),
    "fed_td_rep": lambda c: c.tau + c.tau_head,
}


def test_no_method_is_left_out() -> None:
    assert {*COSTS} == {*METHODS}


@pytest.mark.parametrize(("population", "method"), PAIRS)
def test_every_method_pays_for_the_batches_that_it_draws(population: str, method: str) -> None:
    """Each trajectory once, and what is asked of a batch again is free; nothing where nothing is sampled."""
    config = few(population, method, rounds=1, **({} if method == "fed_npg" else {"tau": 3}))
    server = Training(config).server
    server.run_round()
    due = 0 if config.oracle == "exact" else COSTS[method](config) * config.cohort
    assert server.spent.trajectories == due
    moves = TRANSITIONS[method](config) * config.cohort if method in TRANSITIONS else 0
    assert server.spent.env_steps == due * (config.horizon + 1) + moves


@pytest.mark.parametrize("method", ["exact", "first_order", "sg_mrl"])
def test_every_inner_step_has_its_own_batches_and_its_price(method: str) -> None:
    config = few("gridworld", method, rounds=1, tau=1, inner_steps=3)
    server = Training(config).server
    server.run_round()
    assert server.spent.trajectories == COSTS[method](config) * config.cohort


@pytest.mark.parametrize(("method", "trajectories"), [("exact", 189), ("first_order", 125), ("fedavg_pg", 189)])
def test_budgets_in_numbers(method: str, trajectories: int) -> None:
    config = few("gridworld", method, rounds=1, tau=1, m_in=63, m_h=64, m_out=62)
    assert COSTS[method](config) == trajectories
