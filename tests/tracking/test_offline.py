"""W&B's own files, read back with W&B's own tool, against the result files: after an end, a Ctrl-C, a kill."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from raypfrl.cli import main
from raypfrl.metrics import BY_M_ADAPT
from raypfrl.tracking import journal, writer
from raypfrl.tracking.journal import Journal
from raypfrl.tracking.server import Trouble
from raypfrl.tracking.writer import Writer
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

RUN = ["run", "gridworld", "exact", "--actors", "0", "--set", "oracle=exact", "--set", "n=2", "--set", "tau=1"]
QUICK = [*RUN, "--set", "rounds=3", "--set", "evaluate=1"]
LONG = [*RUN, "--set", "rounds=3000", "--set", "evaluate=5"]  # minutes, were it not stopped


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def outcomes(evaluations: list[dict[str, str]]) -> dict[tuple[str, int, str], float]:
    """By trial, round and metric, the numbers of evaluations.csv under the names that the tracker gives them."""
    found = {}
    for line in evaluations:
        for outcome in ("return", "success", "final_distance"):
            name = BY_M_ADAPT.format(outcome=outcome, m_adapt=line["m_adapt"], split=line["split"])
            found[line["trial"], int(line["round"]), name] = float(line[outcome])
    return found


def logged(folder: Path) -> dict[tuple[str, int, str], float]:
    """The same from W&B's files; no round may be there twice."""
    found: dict[tuple[str, int, str], float] = {}
    for segment in segments(folder):
        records = inspect(segment)
        trial = next(r["run"]["config"]["update"].get("trial") for r in records if r["type"] == "run")
        if trial is None:  # the sweep's own
            continue
        for item in history(records):
            new = {(trial, item["round"], name): v for name, v in item.items() if name.startswith("m_adapt_")}
            assert not set(new) & set(found), "a round is there twice"
            found |= new
    return found


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Callable[[int], None]]:
    """Run LONG in a process of its own into ``tmp_path``/out until some rounds are there, then send it a signal."""
    processes: list[subprocess.Popen[bytes]] = []

    def stop(number: int) -> None:
        command = [sys.executable, "-m", "raypfrl.cli", *LONG, "--out", str(tmp_path / "out")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        processes.append(process)
        closed = tmp_path / "out" / "wandb" / "closed.jsonl"
        before = len(list(Journal(closed).new()))
        evaluations = tmp_path / "out" / "evaluations.csv"
        rounds = len(table(evaluations)) if evaluations.exists() else 0
        wait_for(lambda: len(segments(tmp_path / "out")) > before and len(table(evaluations)) > rounds + 8)
        process.send_signal(number)
        process.wait(60)
        wait_for(lambda: len(list(Journal(closed).new())) > before)  # the writer outlives a killed driver

    yield stop
    for process in processes:
        process.kill()


def test_files_hold_every_evaluation_and_the_trials_row(tmp_path: Path) -> None:
    assert main([*QUICK, "--out", str(tmp_path / "out")]) == 0
    (segment,) = segments(tmp_path / "out")
    assert segment.parent.name.startswith("offline-run-")
    assert logged(tmp_path / "out") == outcomes(table(tmp_path / "out" / "evaluations.csv"))
    records = inspect(segment)
    config = next(record["run"]["config"]["update"] for record in records if record["type"] == "run")
    summary = last_summary(records)
    (trial,) = table(tmp_path / "out" / "trials.csv")
    for name, cell in trial.items():
        if name in CONFIG.identity():
            assert name in config
        elif cell and name not in ("trial", "status", "commit", "source"):
            assert summary[name] == float(cell)
        else:
            assert summary.get(name, "") == cell
    assert next(record["exit"] for record in records if record["type"] == "exit")["exit_code"] == 0
    public = subprocess.run(
        [Path(sys.executable).with_name("wandb"), "leet", "inspect", "--json", segment],
        capture_output=True,
        text=True,
        check=True,
    )
    assert records == [json.loads(line) for line in public.stdout.splitlines()]
    assert not [
        path for path in segment.parent.glob("files/**/*") if path.is_file()
    ]  # no theta, code, packages, machine
    steps = [(r["metric"].get("name", "*"), r["metric"].get("step_metric")) for r in records if r["type"] == "metric"]
    assert steps == [("round", None), ("trajectories", None), *[("*", "round")] * 3]
    hidden = [r["metric"].get("glob_name", r["metric"].get("name")) for r in records if r["type"] == "metric"
              and r["metric"]["options"].get("hidden")]  # fmt: skip
    assert hidden == ["round", "trajectories", "m_adapt_0/*", "m_adapt_exact/*"]


def test_a_run_that_diverged_says_so(tmp_path: Path) -> None:
    tell(tmp_path, (0, 1), "diverged")
    records = inspect(segments(tmp_path)[0])
    assert last_summary(records)["status"] == "diverged"
    assert last_summary(records)["message"] == "why"
    assert [record["run"]["tags"][-1] for record in records if record["type"] == "run"][-1] == "diverged"
    assert next(record["exit"] for record in records if record["type"] == "exit")["exit_code"] == 1


@pytest.mark.parametrize(("cut", "status"), [(0, "finished"), (1, "interrupted")])
def test_a_kill_between_the_row_and_the_journals_last_line_leaves_no_run_open(
    tmp_path: Path, cut: int, status: str
) -> None:
    """The writer outlives the driver, and finds the trial's row. A row that is cut off is none."""
    one = begun(tmp_path)
    one.record(CONFIG, metrics(0))
    told = row(0)
    text = ",".join(told) + "\n" + ",".join(told.values())
    (tmp_path / "trials.csv").write_text(text.rsplit(",", cut)[0] + "\n" * (not cut))
    one.close()
    summary = last_summary(inspect(segments(tmp_path)[0]))
    assert summary["status"] == status
    assert summary.get("after/return") == (0.25 if status == "finished" else metrics(0)["after/return"])


def test_after_ctrl_c_nothing_is_missing(tmp_path: Path, stopped: Callable[[int], None]) -> None:
    stopped(signal.SIGINT)
    assert logged(tmp_path / "out") == outcomes(table(tmp_path / "out" / "evaluations.csv"))
    assert last_summary(inspect(segments(tmp_path / "out")[-1]))["status"] == "interrupted"


def test_after_a_kill_nothing_is_missing_and_the_rest_follows(tmp_path: Path, stopped: Callable[[int], None]) -> None:
    """The second start goes on with the run of the first, and every round is there once over both files."""
    stopped(signal.SIGKILL)
    told, found = outcomes(table(tmp_path / "out" / "evaluations.csv")), logged(tmp_path / "out")
    assert told.items() <= found.items()
    assert len({round for _, round, _ in found} - {round for _, round, _ in told}) <= 1  # killed between the two
    stopped(signal.SIGINT)
    assert len(segments(tmp_path / "out")) == 2
    assert logged(tmp_path / "out") == outcomes(table(tmp_path / "out" / "evaluations.csv"))


@pytest.mark.slow
def test_after_a_kill_of_the_writer_too_the_next_start_writes_it_all_again(tmp_path: Path) -> None:
    """The file that was open may be cut; nothing is lost or doubled after the next start."""
    one = begun(tmp_path)
    for round in range(3):
        one.record(CONFIG, metrics(round))
    wait_for(lambda: segments(tmp_path))
    assert one._process is not None
    one._process.kill()
    one.close()
    tell(tmp_path, (3, 4))
    (segment,) = segments(tmp_path)
    assert [item["round"] for item in history(inspect(segment))] == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_flushed_row_survives_a_kill_of_everything(tmp_path: Path) -> None:
    """The stated interval is a second; a row, W&B's writer and W&B's process, all killed three seconds later."""
    one = begun(tmp_path)
    one.record(CONFIG, metrics(0))
    wait_for(lambda: segments(tmp_path) and segments(tmp_path)[0].stat().st_size > 7)
    time.sleep(3)
    assert one._process is not None
    one._process.kill()
    one.close()
    assert [item["round"] for item in history(inspect(segments(tmp_path)[0]))] == [0]


@pytest.mark.slow
def test_a_failed_trial_that_is_tried_again_goes_on_in_its_run(tmp_path: Path) -> None:
    id = tell(tmp_path, (0, 1), "failed")
    assert tell(tmp_path, (2, 3), "finished") == id
    files = [inspect(segment) for segment in segments(tmp_path)]
    assert [[item["round"] for item in history(records)] for records in files] == [[0, 1], [2, 3]]
    assert [last_summary(records)["status"] for records in files] == ["failed", "finished"]


@pytest.mark.slow
def test_many_runs_side_by_side(tmp_path: Path) -> None:
    configs = [CONFIG.model_copy(update={"seed": seed}) for seed in range(8)]
    one = begun(tmp_path, *configs)
    for round in range(3):
        for config in configs:
            one.record(config, metrics(round))
    for config in configs:
        one.end(config, row(2), tmp_path / "none")
    one.close()
    assert len(segments(tmp_path)) == 8
    assert all(len(history(inspect(segment))) == 3 for segment in segments(tmp_path)[:2])


def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, init: str) -> None:
    """A wandb whose init does what ``init`` says, in the place of W&B's."""
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "wandb.py").write_text(
        f"import time\nclass Settings:\n    model_fields = {{}}\ndef init(**_):\n    {init}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stub"))


@pytest.mark.parametrize(
    "init",
    [
        "raise OSError('no room')",
        pytest.param("raise SystemExit(3)", marks=pytest.mark.slow),
        "time.sleep(3600)",
    ],
)
def test_a_wandb_that_raises_or_hangs_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], init: str
) -> None:
    stub(tmp_path, monkeypatch, init)
    monkeypatch.setattr(journal, "END", 2.0)  # 30 s in earnest
    start = time.monotonic()
    assert main([*QUICK, "--out", str(tmp_path / "out")]) == 0
    assert time.monotonic() - start < 600  # not an hour, however busy the machine is
    assert len(table(tmp_path / "out" / "trials.csv")) == 1
    if "sleep" in init:
        assert "did not end within 2 s" in capfd.readouterr().err
    elif "OSError" in init:
        assert "no W&B files from here on: wandb.init: no room" in capfd.readouterr().err
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.setattr(journal, "END", 30.0)
    tell(tmp_path / "out", (4,))  # whatever comes next finds the journal, and writes everything
    assert {len(history(inspect(segment))) for segment in segments(tmp_path / "out")} == {4, 1}


def test_an_import_of_wandb_is_not_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it can take longer than a begin may, and what is imported by half stays so in its process."""

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "wandb":
                raise ImportError("it is not there")

    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    monkeypatch.setattr(writer, "deadline", lambda *_: pytest.fail("there was a deadline"))
    with pytest.raises(Trouble, match="import wandb: it is not there"):
        Writer(tmp_path, online=True)._opened({"run": "x"})


def test_results_are_the_same_with_tracking_off_and_on_and_offline_keeps_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Loopback
) -> None:
    """With a key and a server there: no byte of the results changes, none goes out, and the key is written nowhere."""
    for mode in ("off", "offline"):
        monkeypatch.setenv("WANDB_MODE", mode if mode == "offline" else "online")
        options = ["--tracking", "off"] if mode == "off" else []
        assert main([*QUICK, "--out", str(tmp_path / mode), *options]) == 0
    off, on = tmp_path / "off", tmp_path / "offline"
    assert not (off / "wandb").exists()
    assert len(segments(on)) == 1
    assert (off / "evaluations.csv").read_bytes() == (on / "evaluations.csv").read_bytes()
    rows = [[line | {"seconds": ""} for line in table(folder / "trials.csv")] for folder in (off, on)]
    assert rows[0] == rows[1]
    assert server.requests == 0  # neither a run nor W&B's reports about itself
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.mark.slow
def test_theta_goes_along_when_asked(tmp_path: Path) -> None:
    assert main([*QUICK, "--out", str(tmp_path / "out"), "--log-theta"]) == 0
    (theta,) = (path for path in tmp_path.glob("out/wandb/*/files/**/*") if path.is_file())
    assert theta.read_bytes() == next(tmp_path.glob("out/checkpoints/*.npz")).read_bytes()
