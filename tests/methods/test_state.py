"""State travels: whatever happens to agents and servers between calls, every method has the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cases import PAIRS, Disturbed, few, home
from tiny import bytes_of, run, without_times

from raypfrl import RunConfig, Training
from raypfrl.federation import Call, InProcess
from raypfrl.methods import METHODS

STEPS = [("gridworld", "exact"), ("navigation", "shared_representation"), ("gridworld", "scaffold")]
WRAPPED = [
    *((pair, {"server_step": step, "beta_server": 0.5}) for step in ("momentum", "adam") for pair in STEPS[1:]),
    *((pair, {"compression": way, "compress_k": 3}) for way in ("top_k", "random_k") for pair in STEPS),
    (("gridworld", "gossip"), {"compression": "random_k", "compress_k": 5, "error_feedback": False}),
    (("gridworld", "fast_fedpg"), {"compression": "top_k", "compress_k": 3, "server_step": "adam"}),
    (("gridworld", "moreau"), {"penalty": "kl", "prox_steps": 1}),
    (("gridworld", "exact"), {"inner_steps": 2}),
]
CONFIGS = [few(*pair) for pair in PAIRS] + [few(*pair, **settings) for pair, settings in WRAPPED]
EXPECTED: dict[str, Any] = {}


def named(config: RunConfig) -> str:
    """What tells one of CONFIGS from the others."""
    wrapped = {config.compression, config.server_step} - {"none", "average"}
    return "-".join([config.population, config.method, *sorted(wrapped)])


@pytest.fixture(params=CONFIGS, ids=named)
def reference(request: pytest.FixtureRequest) -> tuple[RunConfig, Any]:
    """A run's settings, and what it gives undisturbed."""
    config: RunConfig = request.param
    if config.key() not in EXPECTED:
        EXPECTED[config.key()] = run(config)
    return config, EXPECTED[config.key()]


def test_the_bytes_do_not_depend_on_how_the_agents_work(reference: tuple[RunConfig, Any]) -> None:
    config, expected = reference
    assert run(config, Disturbed(config)) == expected
    assert expected[0] != bytes_of(Training(config).server), "nothing has moved, so nothing was tested"


def through_disk(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's way: nothing in it may need pickle."""
    file = io.BytesIO()
    np.savez(file, **state)  # type: ignore[arg-type]
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def test_killed_after_every_round(reference: tuple[RunConfig, Any]) -> None:
    """Each round in a process of its own, as it were."""
    config, (expected, rows) = reference
    state, log = None, []
    for _ in range(config.rounds + 1):
        training = Training(config, state=state)
        log.append(next(training))
        state = through_disk(training.state())
    assert bytes_of(training.server) == expected
    assert [without_times(metrics) for metrics in log] == rows


def test_what_agents_keep_is_not_counted(reference: tuple[RunConfig, Any]) -> None:
    """Floats: what went down and up, of all that took part in a round."""
    config, _ = reference
    seen = []

    class Counting(InProcess):
        def answers(self, phase: int, round: int, calls: Sequence[Call]) -> Any:
            answers = super().answers(phase, round, calls)
            for call, answer in zip(calls, answers, strict=True):
                seen.append(sum(x.size for x in (*call.down.values(), *answer.reply.up.values())))
            return answers

    training = Training(config, Counting(config))
    training.server.run_round()
    assert training.server.spent.floats_sent == sum(seen)


# --- state that is applied twice --------------------------------------------------------------------------------------


class Repeating(InProcess):
    """Every call is made twice, as after a lost answer; the second answer counts."""

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> Any:
        super().answers(phase, round, calls)
        return super().answers(phase, round, calls)


class Remembering(InProcess):
    """A wrong control: agents that remember what they keep, in the place of what travels."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._kept: dict[int, Any] = {}

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> Any:
        for _ in range(2):
            mine = [call._replace(kept=self._kept.get(call.agent, call.kept)) for call in calls]
            answers = super().answers(phase, round, mine)
            self._kept |= {call.agent: answer.reply.kept for call, answer in zip(calls, answers, strict=True)}
        return answers


LASTING = ["independent", "scaffold", "scaffold_exact", "scaffold_first_order", "mixing", "mixing_zeroth_order",
           "shared_representation", "fed_td", "fed_q", "fed_sarsa", "fed_td_rep"]  # fmt: skip
TRACKING = ["fast_fedpg", "fast_fedpg_exact"]


@pytest.mark.parametrize("method", [*LASTING, "fed_npg"])
def test_a_repeated_call_applies_state_once_and_one_that_remembers_is_found_out(method: str) -> None:
    config = few(home(method), method)
    expected = run(config)
    assert run(config, Repeating(config)) == expected
    assert run(config, Remembering(config)) != expected


def test_every_method_whose_agents_keep_something_from_round_to_round_is_tried() -> None:
    keeping = set()
    for population, method in PAIRS:
        if population == home(method):
            training = Training(few(population, method))
            training.server.run_round()
            if any(training.server.kept.values()):
                keeping.add(method)
    assert keeping == {*LASTING, *TRACKING, "fed_npg"}, "that of TRACKING is overwritten at the start of a round"


# --- an agent that is late --------------------------------------------------------------------------------------------


class Late(InProcess):
    """One agent's answer of one phase of one round is lost, as with min_agents."""

    def __init__(self, config: RunConfig, agent: int, round: int, phase: int) -> None:
        super().__init__(config)
        self._lost = (agent, round, phase)

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> Any:
        answers = super().answers(phase, round, calls)
        lost = [(call.agent, round, phase) == self._lost for call in calls]
        return [None if gone else answer for gone, answer in zip(lost, answers, strict=True)]


@pytest.mark.parametrize("method", [*LASTING, *TRACKING])
def test_who_is_late_keeps_what_it_kept_and_takes_no_part(method: str) -> None:
    """In the last phase: what it has answered before in that round is dropped with the rest."""
    phases = len(METHODS[method].phases)
    for phase in range(phases):
        config = few(home(method), method, cohort="all", rounds=3)
        agents = Late(config, agent=1, round=1, phase=phase)
        server = Training(config, agents).server
        server.run_round()
        before, others = server.kept[1], {i: server.kept[i] for i in (0, 2)}
        server.run_round()
        assert server.kept[1] is before
        assert all(server.kept[i] is not others[i] for i in others)
        assert server.missed == [(1, 1)]
        server.run_round()
        assert server.kept[1] is not before


def test_the_mean_of_the_control_variates_is_the_servers_whoever_is_late() -> None:
    """SCAFFOLD's invariant, to rounding: reply and state arrive together or not at all."""
    config = few("gridworld", "scaffold", rounds=6, cohort=2)
    server = Training(config, Late(config, agent=1, round=2, phase=0)).server
    for _ in range(config.rounds):
        server.run_round()
        zero = np.zeros_like(server.theta)
        own = [server.kept[i]["c_i"] if i in server.kept else zero for i in range(3)]
        assert np.abs(np.mean(own, axis=0) - server.arrays["c"]).max() < 1e-15
    assert np.abs(server.arrays["c"]).max() > 1e-2


# --- diagnostics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "scaffold", "hapg"])
def test_diagnostics_only_watch_around_compression_too(method: str) -> None:
    """And hold the lemmas to what they are about: a direction that is corrected on its way is not bounded by them."""
    config = few("gridworld", method, rounds=1, compression="top_k", compress_k=3)
    watched = Training(config.model_copy(update={"diagnostics": True}))
    assert [*watched][-1]["status"] == "finished"
    assert bytes_of(watched.server) == run(config)[0]
