"""Online, against a server on this machine: what arrives, and every way in which it may not. Slow ones: ``-m slow``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from raypfrl import RunConfig, SettingsError
from raypfrl.cli import main
from raypfrl.tracking.names import run_id
from raypfrl.tracking.sync import sync
from tests.tracking.conftest import (
    CONFIG,
    begun,
    history,
    inspect,
    last_summary,
    metrics,
    row,
    segments,
    tell,
    wait_for,
)
from tests.tracking.loopback import KEY, Loopback

BOUND = 30.0  # seconds that closing may take at the very most: journal.END


def test_a_run_arrives_as_it_is(tmp_path: Path, server: Loopback, capfd: pytest.CaptureFixture[str]) -> None:
    """A key is configured, so this is online: init, history, summary; and then there is nothing left to sync."""
    id = tell(tmp_path, range(4))
    run = server.runs[id]
    assert server.rounds(id) == [0, 1, 2, 3]
    assert run["summary"]["status"] == "finished"
    assert run["summary"]["after/return"] == 0.25
    assert run["exit"] == 0
    assert (run["displayName"], run["jobType"]) == ("exact seed=0", "exact")
    assert run["groupName"].startswith("tiny exact ")
    defined = {
        metric.get("1") or metric["2"]: metric["6"] for metric in json.loads(run["config"])["_wandb"]["value"]["m"]
    }
    hidden = {name for name, flags in defined.items() if 2 in flags}  # the client's number for it
    assert hidden == {"round", "trajectories", "m_adapt_0/*", "m_adapt_exact/*"}  # no panel shows what another shows
    assert run["tags"] == ["tiny", "gridworld", "exact"]
    assert '"m_h"' in run["config"]
    seen = server.requests
    assert sync(tmp_path) == 0
    assert "1 of 1 runs are up" in capfd.readouterr().out
    assert server.requests == seen
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_the_sweeps_own_run_holds_table_results_and_figures(tmp_path: Path, server: Loopback) -> None:
    """As artifacts, committed; offline it holds the table, and a sync brings the rest."""
    for file in ("trials.csv", "evaluations.csv", "sweep.json", "report.html", "figures/curve.pdf"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(file)
    one = begun(tmp_path, mode="offline")
    one.record(CONFIG, metrics(0))
    one.end(CONFIG, row(0), tmp_path / "none")
    one.summarise([{"point": "exact", "seeds": 1, "after": 0.5}, {"point": "first_order", "alpha": "a"}], [CONFIG])
    one.close()
    assert not server.artifacts
    assert sync(tmp_path) == 0
    (summary,) = (run for run in server.runs.values() if run["jobType"] == "summary")
    assert summary["summary"]["status"] == "finished"
    assert summary["summary"]["points"]["nrows"] == 2
    kept = {name.removeprefix("tiny-"): (x["state"], x["files"]) for name, x in server.artifacts.items()}
    state, files = kept.pop("results")
    assert (state, set(files)) == ("COMMITTED", {"trials.csv", "evaluations.csv", "sweep.json"})
    assert all(text.decode() == name for name, text in files.items())
    state, files = kept.pop("figures")
    assert (state, set(files)) == ("COMMITTED", {"report.html", "figures/curve.pdf"})
    ((state, table),) = kept.values()
    assert state == "COMMITTED"
    assert json.loads(table["points.table.json"])["data"] == [["exact", 1, 0.5, None], ["first_order", None, None, "a"]]
    assert sync(tmp_path) == 0


def test_a_trial_that_goes_on_goes_on_in_its_run(tmp_path: Path, server: Loopback) -> None:
    """Begun offline, gone on online: the server has each round once, and no word of the interruption is left."""
    id = tell(tmp_path, range(3), None, mode="offline")
    assert not server.runs
    assert tell(tmp_path, range(2, 6)) == id
    assert server.rounds(id) == [0, 1, 2, 3, 4, 5]
    assert server.runs[id]["summary"]["status"] == "finished"
    assert server.runs[id]["tags"] == ["tiny", "gridworld", "exact"]


def test_sync_uploads_what_is_not_there_yet_and_nothing_twice(
    tmp_path: Path, server: Loopback, capfd: pytest.CaptureFixture[str]
) -> None:
    id = tell(tmp_path, range(3), None, mode="offline")
    assert main(["sync", str(tmp_path)]) == 0
    assert server.rounds(id) == [0, 1, 2]
    tell(tmp_path, range(3, 5), mode="offline")
    for segment in segments(tmp_path)[:1]:
        segment.write_bytes(segment.read_bytes()[:5])  # what a crash can leave
    assert sync(tmp_path) == 0
    told = capfd.readouterr()
    assert "1 of 1: exact seed=0" in told.out
    assert f"{segments(tmp_path)[0].parent.name}" in told.err
    assert "unreadable: skipped" in told.err
    seen = server.requests
    assert sync(tmp_path) == 0
    assert server.requests == seen
    assert server.rounds(id) == [0, 1, 2, 3, 4]
    assert server.runs[id]["summary"]["status"] == "finished"


def three_offline(folder: Path) -> list[RunConfig]:
    """The settings of three trials that ended offline in the folder."""
    configs = [CONFIG.model_copy(update={"seed": seed}) for seed in range(3)]
    one = begun(folder, *configs, mode="offline")
    for config in configs:
        one.record(config, metrics(0))
        one.end(config, row(0), folder / "none")
    one.close()
    return configs


@pytest.mark.parametrize(
    ("operation", "status", "why"),
    [
        ("RunResumeStatus", 409, "409"), ("file_stream", 403, "took 0 of 1 rows"),
        pytest.param("UpsertBucket", 404, "404", marks=pytest.mark.slow),
        pytest.param("RunResumeStatus", 500, "Failed to get resume status", marks=pytest.mark.slow),
        pytest.param("UpsertBucket", 409, "409", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_run_that_the_server_refuses_holds_up_no_other(
    tmp_path: Path, server: Loopback, capfd: pytest.CaptureFixture[str], operation: str, status: int, why: str
) -> None:
    """409: it was deleted there. It is named with the client's reason, and tried again with the next sync. A 500 the
    client tries again until its own deadline, and then it names what it asked for, and not always the status."""
    configs = three_offline(tmp_path)
    first, *others = (run_id("tiny", config.key()) for config in configs)
    server.refused[operation, first] = status
    assert sync(tmp_path) == 1
    told = capfd.readouterr().err
    assert f"1 of 3: exact seed=0 ({first}) is not up: " in told
    assert why in told
    assert [server.rounds(id) for id in others] == [[0], [0]]
    assert not server.runs.get(first, {}).get("history")
    server.refused.clear()
    assert sync(tmp_path) == 0
    assert "2 of 3 runs are up" in capfd.readouterr().out
    assert server.rounds(first) == [0]


@pytest.mark.slow
def test_a_sync_without_wandb_marks_still_doubles_nothing(tmp_path: Path, server: Loopback) -> None:
    """The marks only save time: what the server has, it says itself."""
    id = tell(tmp_path, range(3))
    for mark in tmp_path.rglob("*.synced"):
        mark.unlink()
    assert sync(tmp_path) == 0
    assert server.rounds(id) == [0, 1, 2]


def test_sync_wants_a_journal(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no journal"):
        sync(tmp_path)


def complete_offline(folder: Path, count: int) -> None:
    """One run in W&B's files with rounds 0 to count - 1."""
    items = [item["round"] for segment in segments(folder) for item in history(inspect(segment))]
    assert items == list(range(count))
    assert last_summary(inspect(segments(folder)[-1]))["status"] == "finished"


@pytest.mark.parametrize(
    "trouble",
    [
        401, pytest.param(429, marks=pytest.mark.slow), pytest.param(500, marks=pytest.mark.slow), "down",
        pytest.param("no key", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_trouble_at_the_start_means_offline_and_one_warning(
    tmp_path: Path,
    server: Loopback,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trouble: int | str,
) -> None:
    if trouble == "no key":
        monkeypatch.delenv("WANDB_API_KEY")
    elif trouble == "down":
        server.stop()
    else:
        assert isinstance(trouble, int)
        server.status = trouble
    tell(tmp_path, range(3), mode="online")
    complete_offline(tmp_path, 3)
    warned = capfd.readouterr().err
    assert warned.count("tracking: ") == warned.count("goes on offline") == 1
    assert str(trouble if isinstance(trouble, int) else {"down": "refused", "no key": "no key"}[trouble]) in warned
    assert not server.runs


def refuse(status: int) -> Callable[[Loopback], None]:
    return lambda server: setattr(server, "status", status)


def stall(server: Loopback) -> None:
    server.delay = 3600


def back_again(server: Loopback, folder: Path, rounds: int) -> None:
    """Once the server is back, a sync brings everything, each round once."""
    server.stop()
    server.status, server.delay = 200, 0.0
    server.start()
    assert sync(folder) == 0
    (id,) = server.runs
    assert server.rounds(id) == list(range(rounds))
    assert server.runs[id]["summary"]["status"] == "finished"


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(refuse(401), id="401"),
        pytest.param(refuse(429), id="429", marks=pytest.mark.slow),
        pytest.param(refuse(500), id="500", marks=pytest.mark.slow),
        pytest.param(Loopback.stop, id="down", marks=pytest.mark.slow),
        pytest.param(stall, id="no answer", marks=pytest.mark.slow),
    ],
)
def test_trouble_in_the_middle(
    tmp_path: Path, server: Loopback, capfd: pytest.CaptureFixture[str], happens: Callable[[Loopback], None]
) -> None:
    """The server has three rounds of an earlier start, and of this one no more than that it is there."""
    id = tell(tmp_path, range(3), None)
    upserts = server.runs[id]["upserts"]
    one = begun(tmp_path)
    one.record(CONFIG, metrics(3))
    wait_for(lambda: server.runs[id]["upserts"] > upserts)
    happens(server)
    one.record(CONFIG, metrics(4))
    one.end(CONFIG, row(4), tmp_path / "none")
    start = time.monotonic()
    one.close()
    assert time.monotonic() - start < BOUND
    warned = capfd.readouterr().err
    assert warned.count("tracking: ") == warned.count("goes on offline") == 1
    complete_offline(tmp_path, 5)
    back_again(server, tmp_path, 5)


@pytest.mark.slow
@pytest.mark.parametrize("happens", [refuse(401), refuse(500), Loopback.stop, stall])
def test_trouble_at_the_end(tmp_path: Path, server: Loopback, happens: Callable[[Loopback], None]) -> None:
    """W&B's first upload comes after 15 seconds; the rest of the rounds meet a server that takes no more."""
    one = begun(tmp_path)
    for round in range(3):
        one.record(CONFIG, metrics(round))
    wait_for(lambda: any(run["history"] for run in server.runs.values()))
    for round in range(3, 5):
        one.record(CONFIG, metrics(round))
    one.end(CONFIG, row(4), tmp_path / "none")
    happens(server)
    start = time.monotonic()
    one.close()
    assert time.monotonic() - start < BOUND
    complete_offline(tmp_path, 5)
    back_again(server, tmp_path, 5)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [1.5, 3600])
def test_a_slow_server_holds_nothing_up(tmp_path: Path, server: Loopback, delay: float) -> None:
    server.delay = delay
    one = begun(tmp_path)
    start = time.monotonic()
    for round in range(50):
        one.record(CONFIG, metrics(round))
    assert time.monotonic() - start < 1  # a line in a file each
    one.end(CONFIG, row(49), tmp_path / "none")
    one.close()
    assert time.monotonic() - start < BOUND
    complete_offline(tmp_path, 50)


@pytest.mark.slow
def test_a_server_that_goes_away_during_a_sync(
    tmp_path: Path, server: Loopback, capfd: pytest.CaptureFixture[str]
) -> None:
    """It says what is left, ends, and the same command goes on."""
    three_offline(tmp_path)
    server.refuse_after = 8
    assert sync(tmp_path) == 1
    told = capfd.readouterr()
    assert "are left, and the same command goes on" in told.err
    assert len(server.runs) < 3 or not all(run["history"] for run in server.runs.values())
    server.refuse_after = None
    server.status = 200
    assert sync(tmp_path) == 0
    assert [server.rounds(id) for id in server.runs] == [[0]] * 3
