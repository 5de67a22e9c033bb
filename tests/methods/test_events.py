"""The event clock: who arrives when, what a late change does, and the same bytes whatever happens."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cases import Disturbed
from test_state import through_disk
from tiny import bytes_of, run, small, without_times

from raypfrl import AgentError, RunConfig, SettingsError, Training
from raypfrl.federation import Call, InProcess
from raypfrl.methods import METHODS
from raypfrl.populations.quadratic import TRAIN

TIMES = (1.0, 2.0, 5.0)
FIT = [name for name, method in METHODS.items() if len(method.phases) == 1 and not method.everyone]
BLOCKS = {"shared_representation"}  # asks the policy for a body and a head
TRAJECTORIES = {"sg_mrl"}
CHAINS = {"qavg", "pavg", "fed_td", "fed_q", "fed_sarsa", "fed_td_rep"}  # ask for a finite MDP without a horizon


def at_their_own_speed(method: str, **settings: Any) -> RunConfig:
    """Three agents of a population that fits the method, none of them as fast as another; the fastest twice at work
    before the slowest answers."""
    table = method in TRAJECTORIES | CHAINS
    population = "navigation" if method in BLOCKS else "gridworld" if table else "quadratic"
    sizes = {"n": 3, "rounds": 7, "evaluate": 1, "oracle": "auto" if population == "navigation" else "exact"}
    if method in CHAINS:
        sizes |= {"oracle": "continuing"}
    if method in TRAJECTORIES:
        sizes |= {"oracle": "auto", "m_in": 3, "m_out": 3, "horizon": 4}
    if method == "svrpg":
        sizes |= {"tau": 2}
    return small(population, method, **{**sizes, "clock": "events", "task_times": TIMES, **settings})


def test_by_time_T_the_sum_of_what_each_can_do_has_arrived() -> None:
    server: Any = Training(
        RunConfig(population="quadratic", method="exact", clock="events", task_times=(1, 2.5, 7))
    ).server
    arrivals = []
    for _ in range(60):
        server.run_round()
        arrivals.append(server.time)
    assert arrivals == sorted(arrivals)
    for T in range(1, 36):
        assert sum(time <= T for time in arrivals) == T // 1 + int(T // 2.5) + T // 7


def test_a_run_is_the_algorithm_written_out() -> None:
    """Stale changes on what the server has now, by a heap of events: theta + beta_s (theta_i - what i was sent)."""
    a, c = np.array(TRAIN).T
    beta, beta_s = 0.1, 0.4
    theta, heap = 0.0, [(t, i, 0.0) for i, t in enumerate(TIMES)]
    expected = []
    for _ in range(40):
        time, i, sent = heapq.heappop(heap)
        theta += beta_s * beta * a[i] * (c[i] - sent)
        heapq.heappush(heap, (time + TIMES[i], i, theta))
        expected.append(theta)
    config = at_their_own_speed("fedavg_pg", tau=1, beta=beta, beta_server=beta_s, rounds=40)
    server, found = Training(config).server, []
    for _ in range(40):
        server.run_round()
        found.append(server.theta[0])
    assert found == pytest.approx(expected, abs=1e-14)
    waiting = at_their_own_speed("fedavg_pg", tau=1, beta=beta, beta_server=beta_s, rounds=40, task_times=(1,))
    other = Training(waiting).server
    for _ in range(40):
        other.run_round()
    assert abs(other.theta[0] - expected[-1]) > 1e-4, "who is how fast matters"


@pytest.mark.parametrize("method", FIT)
def test_one_agent_has_no_delay_and_the_bytes_of_rounds(method: str) -> None:
    settings = {"n": 1, "rounds": 3, "task_times": (3.0,)}
    events = Training(at_their_own_speed(method, **settings))
    rounds = Training(at_their_own_speed(method, **{**settings, "clock": "rounds", "task_times": (1.0,)}))
    last = [list(training)[-1] for training in (events, rounds)]
    assert bytes_of(events.server) == bytes_of(rounds.server)
    assert (last[0]["time"], last[0]["delay"]) == (9.0, 0.0)
    assert "time" not in last[1]


@pytest.mark.parametrize("method", FIT)
def test_the_bytes_do_not_depend_on_how_agents_work_or_on_kills(method: str) -> None:
    config = at_their_own_speed(method)
    expected, rows = run(config)
    assert run(config, Disturbed(config)) == (expected, rows)
    state, log = None, []
    for _ in range(config.rounds + 1):
        training = Training(config, state=state)
        log.append(without_times(next(training)))
        state = through_disk(training.state())
    assert bytes_of(training.server) == expected
    assert log == rows
    assert rows[-1]["delay"] > 0
    assert expected != bytes_of(Training(config).server), "nothing has moved, so nothing was tested"


def test_a_compressed_change_is_applied_late_too() -> None:
    config = at_their_own_speed("fedavg_pg", compression="top_k", compress_k=1)
    plain = at_their_own_speed("fedavg_pg")
    assert run(config)[0][0] == run(plain)[0][0], "one entry of one is all of it"


class Falling(InProcess):
    """Agent 2, the slowest, cannot answer."""

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> Any:
        if any(call.agent == 2 for call in calls):
            raise AgentError("agent 2 has fallen")
        return super().answers(phase, round, calls)


def test_an_agent_that_fails_ends_the_run_when_it_would_have_arrived() -> None:
    """And not when somebody else's answer was needed, whoever was asked with it."""
    config = at_their_own_speed("exact")
    server: Any = Training(config, Falling(config)).server
    for _ in range(7):
        server.run_round()
    with pytest.raises(AgentError, match="agent 2 has fallen"):
        server.run_round()
    assert (server.time, server.round) == (5.0, 7), "1 2 3 4 5 of one, 2 4 of the other; then 5 of the third"
    reference: Any = Training(config).server
    for _ in range(7):
        reference.run_round()
    assert bytes_of(server) == bytes_of(reference)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"task_times": (1, 2)}, "task_times has 2 times for 3 agents that learn; give one for all, or one for each"),
        ({"clock": "rounds"}, "task_times is for clock = events; leave it out"),
        ({"task_times": (1, 0, 2)}, "greater than 0"),
        ({"cohort": 2}, "clock = events waits for nobody: leave out cohort and min_agents"),
        ({"method": "gossip"}, "clock = events: gossip needs every agent in every round; take a method of one phase"),
        ({"method": "fast_fedpg"}, "clock = events: fast_fedpg goes to every agent more than once a round"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(settings: Any, says: str) -> None:
    given = {"population": "quadratic", "method": "exact", "clock": "events", "task_times": TIMES, **settings}
    with pytest.raises(SettingsError, match=says) as refused:
        RunConfig(**given)
    assert "\n" not in str(refused.value)
