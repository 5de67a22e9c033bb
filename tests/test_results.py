"""The folder of results: who may write it, what is found again after a loss, what is refused, what older ones hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raypfrl import RunConfig, SettingsError, Training
from raypfrl.cli import main
from raypfrl.metrics import METRICS
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.machine import about
from raypfrl.sweeps.results import Results, opened, pack, unpack
from raypfrl.sweeps.resume import resume
from raypfrl.sweeps.single import run
from raypfrl.sweeps.table import Table
from raypfrl.text import message
from raypfrl.tracking import UNTRACKED

TINY = {"population": "gridworld", "oracle": "exact", "rounds": 3, "tau": 1, "evaluate": 1, "n": 2}


def test_a_checkpoint_holds_no_pickle(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack(pack({"theta": np.array([{}], dtype=object)}))


def test_the_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SettingsError, match="not empty"):
        Results(tmp_path, "tiny")
    (tmp_path / "sweep.json").write_text(json.dumps({"sweep": "other", "trials": {}}))
    with pytest.raises(SettingsError, match="holds the results of other"):
        Results(tmp_path, "tiny")


def test_what_a_scheduler_has_stopped_goes_on_without_it(tmp_path: Path) -> None:
    assert run(SHORT, tmp_path) == 0
    before = found(tmp_path)
    results = Results(tmp_path, f"run-{SHORT.key()}")
    results.trials.replace([{**results.trials.rows[0], "status": "stopped"}])
    results = opened(tmp_path)
    assert not results.left([SHORT], asha=True)
    assert results.left([SHORT]) == [SHORT]
    assert run(SHORT, tmp_path) == 0
    assert found(tmp_path) == before


# --- folders that were killed, cut, shared, damaged -------------------------------------------------------------------


SHORT = RunConfig(**{**TINY, "evaluate": 2}, method="exact", actors=0)  # evaluated after 0, 2 and 3 rounds


def found(folder: Path) -> tuple[str, list[dict[str, str]]]:
    results = Results(folder, f"run-{SHORT.key()}")
    return (folder / "evaluations.csv").read_text(), [{**row, "seconds": ""} for row in results.trials.rows]


CHECKPOINT = "checkpoints/" + SHORT.key() + ".npz"


@pytest.mark.parametrize(
    "lost",
    [
        lambda out: (out / "trials.csv").unlink(),  # as by a kill between the last checkpoint and the trial's row
        lambda out: (out / "evaluations.csv").unlink(),
        lambda out: (out / "metrics.csv").unlink(),
        lambda out: (out / CHECKPOINT).unlink(),
        lambda out: [(out / name).unlink() for name in ("trials.csv", "evaluations.csv")],
        lambda out: [(out / name).unlink() for name in ("trials.csv", CHECKPOINT)],
        lambda out: [(out / name).unlink() for name in ("metrics.csv", CHECKPOINT)],
        lambda out: cut(out / "evaluations.csv", 2),  # within the first evaluation
        lambda out: cut(out / "evaluations.csv", -1),  # within the last
        lambda out: cut(out / "metrics.csv", 1),
        lambda out: cut(out / "metrics.csv", -1),
        lambda out: (out / CHECKPOINT).write_bytes(earlier(out)),  # a copy from before the end
    ],
    ids=[
        "the row", "the evaluations", "the metrics", "the checkpoint", "both tables", "row and checkpoint",
        "metrics and checkpoint", "first rows", "last rows", "all but the header", "last metrics", "an old checkpoint",
    ],
)  # fmt: skip
def test_what_is_lost_is_found_again(tmp_path: Path, lost: Callable[[Path], object]) -> None:
    """What is missing is judged from every file that a finished trial owes, whichever it is."""
    assert run(SHORT, tmp_path) == 0
    before = found(tmp_path)
    assert len(before[0].splitlines()) == 1 + 3 * 4, "train and held out, m_adapt 0 and exact"
    lost(tmp_path)
    assert run(SHORT, tmp_path) == 0
    assert found(tmp_path) == before
    assert not opened(tmp_path).left([SHORT])
    assert run(SHORT, tmp_path) == 0
    assert found(tmp_path) == before


def cut(path: Path, lines: int) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))


def earlier(folder: Path) -> bytes:
    """The checkpoint after the second evaluation."""
    training = Training(SHORT)
    assert [next(training)["round"] for _ in range(2)] == [0, 2]
    return pack(training.state())


def test_what_is_not_run_now_is_left_as_it_is(tmp_path: Path) -> None:
    """Also where it is not whole: another command, with other seeds, may be the one to complete it."""
    sweep = Sweep(base={**SHORT.model_dump(exclude={"seed"}), "evaluate": 3}, seeds=2)
    results = Results(tmp_path, "tiny")
    results.begin(sweep.trials(), about(1))
    for config in sweep.trials():
        training = Training(config)
        for metrics in training:
            results.record(config.key(), config, {**metrics, "checkpoint": pack(training.state())})
    results.close()
    cut(tmp_path / "metrics.csv", 2)  # of the first trial's first evaluation
    rows = (tmp_path / "evaluations.csv").read_text()
    results = Results(tmp_path, "tiny")
    assert results.left(sweep.trials()) == sweep.trials()
    results.begin(sweep.trials([1]), about(1))
    results.close()
    kept = [row for row in rows.splitlines() if sweep.trials([1])[0].key() not in row]
    assert (tmp_path / "evaluations.csv").read_text().splitlines() == kept


@pytest.mark.parametrize("status", ["diverged", "stopped"])
@pytest.mark.parametrize("lost", [None, CHECKPOINT, "evaluations.csv", "metrics.csv"])
def test_what_ended_otherwise_owes_what_it_reached(tmp_path: Path, status: str, lost: str | None) -> None:
    results, training = Results(tmp_path, f"run-{SHORT.key()}"), Training(SHORT)
    results.begin([SHORT], about(1))
    for _ in range(2):
        results.record(SHORT.key(), SHORT, {**next(training), "checkpoint": pack(training.state())})
    results.end(SHORT.key(), SHORT, {"status": status, "message": "why"})
    results.close()
    if lost:
        (tmp_path / lost).unlink()
    assert (opened(tmp_path).left([SHORT], asha=True) == []) is (lost is None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trials.csv", "already finished"),
        ("evaluations.csv", "already finished"),
        ("metrics.csv", "already finished"),
        ("trials.csv changed", "another row of the same trial"),
        ("evaluations.csv changed", "another row of the same trial, round, split, m_adapt"),
    ],
)
def test_a_doubled_row_is_read_once_or_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    assert run(SHORT, tmp_path) == 0
    before = found(tmp_path)[1]
    path = tmp_path / name.split()[0]
    last = path.read_text().splitlines(keepends=True)[-1]
    with path.open("a") as file:
        file.write(last.replace("0.", "1.", 1) if "changed" in name else last)
    capsys.readouterr()
    assert main(["resume", str(tmp_path)]) == (2 if "changed" in name else 0)
    out, err = capsys.readouterr()
    (line,) = (out + err).splitlines()
    assert said in line
    if "changed" not in name:
        assert found(tmp_path)[1] == before


@pytest.mark.parametrize("text", ["caf\udce9", "two\nlines\r\n", "NUL \0", "m" * 1_000_000, 'a "quoted, thing"'])
def test_whatever_a_trial_says_is_one_line(tmp_path: Path, text: str) -> None:
    results = Results(tmp_path, f"run-{SHORT.key()}")
    results.begin([SHORT], about(1))
    results.end(SHORT.key(), SHORT, {"status": "failed", "message": text})
    results.log(text)
    results.close()
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == 2
    (row,) = opened(tmp_path).trials.rows
    assert row["message"] == message(text)
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 1


def test_a_loop_of_links_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For every command that takes a folder."""
    from analysis.__main__ import main as analysis

    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    loop = str(tmp_path / "a")
    commands = (
        ["resume", loop], ["rollout", loop], ["sync", loop], ["doctor", loop],
        ["run", "gridworld", "exact", "--out", loop],
    )  # fmt: skip
    for command in commands:
        assert main(command) == (1 if command[0] == "doctor" else 2), command
        out, err = capsys.readouterr()
        (line,) = [line for line in (out + err).splitlines() if loop in line]
        assert "link" in line
    assert analysis(["report", loop]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert loop in line


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    first = Results(tmp_path, f"run-{SHORT.key()}")
    first.begin([SHORT], {})
    with pytest.raises(SettingsError, match="another process is writing there"):
        run(SHORT, tmp_path)
    late = Results(tmp_path, f"run-{SHORT.key()}")
    training = Training(SHORT)
    first.record(SHORT.key(), SHORT, {**next(training), "checkpoint": pack(training.state())})
    first.close()
    with pytest.raises(SettingsError, match="another process has just written there"):
        late.begin([SHORT], {})
    late.close()
    assert run(SHORT, tmp_path) == 0


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("sweep.json", b"", "damaged"),
        ("sweep.json", b"[]", "damaged"),
        ("sweep.json", b"\xff{}", "damaged"),
        ("sweep.json", b'{"sweep": "tiny"}', "damaged"),
        ("sweep.json", b'{"sweep": "tiny", "trials": []}', "damaged"),
        ("trials.csv", b"\xff\n", "damaged"),
        ("evaluations.csv", b"only,two\n", "damaged (no column trial, round, split, m_adapt)"),
        ("evaluations.csv", b"HEADER\nabc,0\n", "damaged (line 2)"),
        ("evaluations.csv", b"HEADER\nabc,x,train,0,1,1,1,1,1,\n", "damaged (line 2)"),
        ("sweep.json", b'{"sweep": "tiny", "trials": {}, "how": null}', "damaged"),
        ("trials.csv", b"HEADER\n" + b"x" * 200_000 + b"\n", "damaged"),
        ("checkpoints/KEY.npz", b"", "damaged; delete it"),
        ("checkpoints/KEY.npz", b"junk", "damaged; delete it"),
        ("checkpoints/KEY.npz", pack({"round": 2}), "damaged; delete it"),
        (
            "checkpoints/KEY.npz",
            pack({"theta": np.full(100, np.nan), "round": 2, "drift": 0.0, "seconds": 1.0}),
            "damaged; delete it",
        ),
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, said: str
) -> None:
    assert run(SHORT, tmp_path) == 0
    path = tmp_path / name.replace("KEY", SHORT.key())
    data = data.replace(b"HEADER", path.read_bytes().splitlines()[0])
    path.write_bytes(data)
    if path.suffix == ".npz":
        (tmp_path / "trials.csv").unlink()
    capsys.readouterr()
    assert main(["resume", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert said in line
    assert path.read_bytes() == data


def test_a_letter_in_a_number_and_a_changed_setting_are_named(tmp_path: Path) -> None:
    """One byte of one cell, in every column of every table but those of free text."""
    assert run(SHORT, tmp_path) == 0
    tried = Counter[str]()
    for name in ("trials.csv", "evaluations.csv", "metrics.csv"):
        path = tmp_path / name
        whole = path.read_text()
        header, first, *rest = (line.split(",") for line in whole.splitlines())
        for place, column in enumerate(header):
            if column in ("message", "commit", "source") or not first[place]:
                continue
            for byte in "x_":
                changed = [*first[:place], byte + first[place][1:], *first[place + 1 :]]
                path.write_text("".join(",".join(line) + "\n" for line in (header, changed, *rest)))
                with pytest.raises(SettingsError, match="damaged") as told:
                    opened(tmp_path)
                assert str(path) in str(told.value)
                tried[name] += 1
        path.write_text(whole)
    assert not opened(tmp_path).left([SHORT])
    assert min(tried.values()) >= 12


def test_what_goes_wrong_before_a_run_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the folder has a row of it: nobody else's journal is told about it."""
    assert run(SHORT, tmp_path) == 0
    results = Results(tmp_path, f"run-{SHORT.key()}")
    results.trials.replace([{**results.trials.rows[0], "status": "failed"}])
    results.checkpoint(SHORT.key()).write_bytes(b"abc")
    capsys.readouterr()
    assert main(["resume", str(tmp_path), "--tracking", "offline"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_metrics_survive_a_kill_between_two_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = RunConfig(**{**SHORT.model_dump(), "diagnostics": True})
    assert run(watched, tmp_path / "whole") == 0
    written = Table.append

    def killed(table: Table, rows: Iterable[Any]) -> None:
        if table.path.name == "evaluations.csv" and len(table.rows) > 4:  # the third evaluation
            raise KeyboardInterrupt
        written(table, rows)

    monkeypatch.setattr(Table, "append", killed)
    assert run(watched, tmp_path / "cut") == 130
    monkeypatch.undo()
    assert run(watched, tmp_path / "cut") == 0
    whole, cut_off = (untimed(tmp_path / name) for name in ("whole", "cut"))
    assert cut_off == whole
    assert [row["round"] for row in whole] == ["0", "2", "3"]
    assert all(float(row["diagnostics/gradient_norm"]) > 0 for row in whole)
    assert [row["diagnostics/drift_ratio"] != "" for row in whole] == [False, True, True]


def test_a_new_metric_is_a_line_in_the_glossary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes to disk with no word elsewhere, and so does an outcome that is measured for every m_adapt."""
    monkeypatch.setitem(METRICS, "regret", "what it may be")
    results, metrics = Results(tmp_path, f"run-{SHORT.key()}"), next(Training(SHORT))
    results.begin([SHORT], about(1))
    rows = [{**row, "steps": 7} for row in metrics["evaluations"]]
    results.record(SHORT.key(), SHORT, {**metrics, "regret": 0.25, "unheard of": 1, "evaluations": rows})
    again = opened(tmp_path)
    assert again.metrics.rows[0]["regret"] == "0.25"
    assert "unheard of" not in again.metrics.columns
    assert not {"return", "after/return", "m_adapt_0/train/return", "drift"} & set(again.metrics.columns), "told once"
    assert [row["steps"] for row in again.evaluations.rows] == ["7"] * len(rows)


def untimed(folder: Path) -> list[dict[str, str]]:
    rows = Table(folder / "metrics.csv", ("trial", "round")).rows
    return [{name: cell for name, cell in row.items() if "seconds" not in name} for row in rows]


def test_a_file_in_the_folders_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "sub", tmp_path / ("x" * 300)):
        assert main(["run", "gridworld", "exact", "--actors", "0", "--out", str(out)]) == 2
        assert capsys.readouterr().err.endswith("; give a folder\n")


def test_a_sweep_may_be_called_as_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path / "out", "run-all")
    trials = Sweep(base={**TINY, "method": "exact"}, seeds=2).trials()
    results.begin(trials, {"swept": ["method"]})
    results.close()
    resumed: list[RunConfig] = []
    monkeypatch.setattr("raypfrl.sweeps.launch.launch", lambda swept, configs, *_, **__: resumed.extend(configs) or 0)
    assert resume(tmp_path / "out", None, False, UNTRACKED) == 0
    assert resumed == trials


def test_theta_is_a_finished_trials(tmp_path: Path) -> None:
    assert run(SHORT, tmp_path) == 0
    training = Training(SHORT)
    list(training)
    results = opened(tmp_path)
    assert results.theta(SHORT).tobytes() == training.server.theta.tobytes()
    alone = RunConfig(**{**SHORT.model_dump(), "method": "independent"})
    with pytest.raises(SettingsError, match=f"no theta of a finished trial {alone.key()}; `raypfrl resume"):
        results.theta(alone)
    assert run(alone, tmp_path / "alone") == 0
    with pytest.raises(SettingsError, match="share no theta"):
        opened(tmp_path / "alone").theta(alone)
