"""Lost, late and fatal processes under a running driver: the same bytes, a line in the log, bounded time."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from scene import PATIENCE, SWEEP, launched, plan, values
from strikes import order

from raypfrl import RunConfig, SettingsError

pytestmark = pytest.mark.usefixtures("two_cpus")


@pytest.fixture(scope="module")
def quiet(two_cpus: None, orders: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the sweep gives when nothing happens."""
    order(orders)
    folder = tmp_path_factory.mktemp("quiet") / "sweep"
    assert launched(folder) == 0
    assert not (folder / "log.txt").exists()
    return values(folder)


TRIAL_DIED = "The actor died unexpectedly before finishing this task. The trial goes on from its last evaluation."


def replaced(round: int, why: str = "their process died") -> str:
    return f"agents 0, 1, round {round}: {why}; actor 0 replaced, called again"


@pytest.mark.parametrize(
    ("strikes", "said"),
    [
        (["agent.1.kill"], [replaced(1)]),
        (["agent.1.hang"], [replaced(1, "no answer within round_timeout = 10 s")]),
        (["trial.2.kill"], [TRIAL_DIED]),
        pytest.param(
            ["evaluation.0.kill", "trial.1.kill", "agent.1.kill", "evaluation.2.kill", "trial.3.kill"],
            [replaced(0), TRIAL_DIED, replaced(1), replaced(2), TRIAL_DIED],
            marks=pytest.mark.slow,
        ),
        pytest.param(  # what a trial has not told yet is lost with it
            ["agent.0.kill", "evaluation.1.kill", "trial.1.kill"], [TRIAL_DIED], marks=pytest.mark.slow
        ),
    ],
    ids=lambda value: "-".join(value) if "." in value[0] and " " not in value[0] else "",
)
def test_a_lost_process_changes_nothing(
    quiet: dict[str, Any], orders: Path, tmp_path: Path, strikes: list[str], said: list[str]
) -> None:
    order(orders, *strikes)
    hangs = any(strike.endswith("hang") for strike in strikes)
    assert launched(tmp_path / "sweep", plan(round_timeout=PATIENCE) if hangs else plan()) == 0
    assert not list(orders.iterdir()), "a strike did not happen"
    assert values(tmp_path / "sweep") == quiet
    log = (tmp_path / "sweep" / "log.txt").read_text()
    assert [line.partition(" seed=0: ")[2] for line in log.splitlines()] == said


def test_an_agent_that_always_kills_its_process_fails_its_trial_and_no_other(
    quiet: dict[str, Any], orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order(orders, "agent.3.always-kill")  # round 3 exists in the longer trial only
    longer = RunConfig(**{**plan()[0].model_dump(), "rounds": 4})
    assert launched(tmp_path / "sweep", [longer, *plan()]) == 1
    found = values(tmp_path / "sweep")
    assert found["trials"][0]["status"] == "failed"
    assert found["trials"][0]["message"] == "agents 0, 1, round 3: their process died, 3 times out of 3"
    assert found["trials"][1:] == quiet["trials"]

    order(orders)  # the cause is removed: the same command repeats the failed trial from its last evaluation
    assert launched(tmp_path / "sweep", [longer, *plan()]) == 0
    assert [row["status"] for row in values(tmp_path / "sweep")["trials"]] == ["finished"] * 3


def test_min_agents_averages_those_who_answered_and_says_who_did_not(orders: Path, tmp_path: Path) -> None:
    settings = {**SWEEP.base, "method": "exact", "min_agents": 1, "round_timeout": PATIENCE}
    order(orders, "agent.1.hang")
    partial = RunConfig(**settings)
    assert launched(tmp_path / "sweep", [partial]) == 0
    found = values(tmp_path / "sweep")
    assert [row["min_agents"] for row in found["trials"]] == ["1"]
    rows = csv.DictReader(found["evaluations"].splitlines())
    missed = sorted({tuple(map(int, who.split(":"))) for row in rows for who in row["missed"].split()})
    assert {(1, 0), (1, 1)} <= set(missed)  # on a machine that is very busy others may be late too
    assert "left out" in (tmp_path / "sweep" / "log.txt").read_text()

    # The same by hand, in this process: the server averages those who were not left out.
    from raypfrl.federation import InProcess, Server

    whole = RunConfig(**{**settings, "min_agents": 0})

    class WithoutTheMissed(InProcess):
        def answers(self, phase: int, round: int, calls: Any) -> Any:
            updates = super().answers(phase, round, calls)
            return [
                None if (round, call.agent) in missed else update for call, update in zip(calls, updates, strict=True)
            ]

    server = Server(whole, WithoutTheMissed(whole))
    for _ in range(3):
        server.run_round()
    assert found["states"][f"{partial.key()}.npz"]["theta"] == server.theta.tobytes()
    assert server.missed == missed


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"min_agents": 4}, "min_agents = 4 is above the 3 agents of a round; lower it"),
        ({"min_agents": 1, "actors": 0}, "min_agents needs actors"),
        ({"round_timeout": 0}, "round_timeout = 0"),
    ],
)
def test_partial_participation_that_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        RunConfig(**{**SWEEP.base, "method": "exact", **settings})


def test_the_settings_that_change_results_are_the_trials_name() -> None:
    base = {**SWEEP.base, "method": "exact"}
    key = RunConfig(**base).key()
    assert RunConfig(**{**base, "round_timeout": 1.0}).key() == key
    assert RunConfig(**{**base, "min_agents": 3}).key() == key  # all three: nobody can be left out
    partial = RunConfig(**{**base, "min_agents": 2})
    assert partial.key() != key
    assert RunConfig(**{**base, "min_agents": 2, "round_timeout": 1.0}).key() != partial.key()
