"""The result files of a sweep, or of one run: the truth that everything else mirrors.

    trials.csv       one row a trial that ended
    evaluations.csv  one row an evaluation, split and m_adapt
    diagnostics.csv  one row an evaluation and diagnostic, of trials with diagnostics
    checkpoints/     one file a trial, theta and the counts after its last evaluation: arrays and numbers only
    log.txt          what went wrong on the way (lost processes and nodes), and what was done about it
    sweep.json       what was asked for, with what, where, and how long it took

Only the driver writes. A table grows by whole lines, a file is replaced in one step.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from raypfrl.config import EXECUTION, RunConfig, SettingsError
from raypfrl.federation.train import splits

Row = Mapping[str, Any]

SETTINGS = tuple(name for name in RunConfig.model_fields if name not in EXECUTION)
OUTCOMES = (
    "before/return", "after/return", "before/success", "after/success", "trajectories", "env_steps", "floats_sent",
    "seconds",
)  # fmt: skip
TRIAL_COLUMNS = ("trial", *SETTINGS, "status", "round", *OUTCOMES, "message")
EVALUATION_COLUMNS = (
    "trial", "round", "split", "m_adapt", "return", "success", "final_distance", "trajectories", "drift",
    "missed",
)  # fmt: skip
DIAGNOSTIC_COLUMNS = ("trial", "round", "metric", "value")
PART = ".part"  # of a file that is being written; one that stays behind was a killed driver's
ENDED = ("finished", "diverged", "stopped")  # a failed trial is tried again
Evaluated = tuple[str, int]  # trial, round


class Table:
    """A CSV file that grows by whole lines. A line cut off by a crash is not read, and dropped before the next one is
    written: opening the file writes nothing."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns, self._cut_off = path, tuple(columns), False
        self.rows: list[dict[str, str]] = self._read() if path.exists() else []

    def append(self, rows: Iterable[Row]) -> None:
        """Write the rows' lines with one call."""
        if self._cut_off:
            self.replace(self.rows)
        cells = [{name: _cell(row.get(name)) for name in self.columns} for row in rows]
        size = self.path.stat().st_size if self.path.exists() else 0
        header = "" if size else self._line(self.columns)
        text = header + "".join(self._line(row.values()) for row in cells)
        try:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                file.write(text)
        except OSError:  # a full disk takes half a line
            os.truncate(self.path, size)
            raise
        self.rows += cells

    def replace(self, rows: list[dict[str, str]]) -> None:
        """Put ``rows`` in place of all rows, in one step."""
        self.rows, self._cut_off = rows, False
        lines = [self._line(self.columns), *(self._line(row[name] for name in self.columns) for row in rows)]
        write(self.path, "".join(lines).encode())

    def _read(self) -> list[dict[str, str]]:
        try:
            text = self.path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            lines = list(csv.reader(io.StringIO(whole)))
        except (UnicodeDecodeError, csv.Error) as error:
            raise _damaged(self.path, error) from None
        if lines and tuple(lines[0]) != self.columns:
            differ = ", ".join(sorted(set(lines[0]) ^ set(self.columns))) or "in another order"
            raise SettingsError(
                f"{self.path}: written by a raypfrl with other columns ({differ}); run the sweep into another --out "
                "(`python -m analysis` still reads this folder)"
            )
        for number, cells in enumerate(lines[1:], 2):
            rounds = [cell for name, cell in zip(self.columns, cells, strict=False) if name == "round"]
            if len(cells) != len(self.columns) or not all(cell.isdecimal() or not cell for cell in rounds):
                raise _damaged(self.path, f"line {number}")
        self._cut_off = whole != text
        return [dict(zip(self.columns, cells, strict=True)) for cells in lines[1:]]

    @staticmethod
    def _line(cells: Iterable[Any]) -> str:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(list(cells))
        return line.getvalue()


class Results:
    """One folder of results. Opening it writes nothing; ``begin`` does, after everything has been checked.

    Raises SettingsError where the folder holds something else, or files that are damaged.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder.resolve(), name
        self.about = _about(self.folder)
        if self.about and self.about["sweep"] != name:
            raise SettingsError(f"{folder} holds the results of {self.about['sweep']}; choose another --out")
        if not self.about and self.folder.exists() and any(p.name[0] != "." for p in self.folder.iterdir()):
            raise SettingsError(f"{folder} is not empty and holds no sweep.json; choose another --out")
        self.trials = Table(self.folder / "trials.csv", TRIAL_COLUMNS)
        self.evaluations = Table(self.folder / "evaluations.csv", EVALUATION_COLUMNS)
        self.diagnostics = Table(self.folder / "diagnostics.csv", DIAGNOSTIC_COLUMNS)
        self._told = {(row["trial"], int(row["round"])) for row in self.evaluations.rows}
        self._lock = FileLock(self.folder / ".lock")

    def left(self, configs: Sequence[RunConfig], *, asha: bool = False) -> list[RunConfig]:
        """The trials that need more work: not ended, or finished and not all there. Those that a scheduler has stopped
        have ended only for ``asha``."""
        rows, counted = {row["trial"]: row for row in self.trials.rows}, self._counted()
        return [
            config
            for config in configs
            if (row := rows.get(config.key())) is None
            or row["status"] not in ENDED
            or (row["status"] == "stopped" and not asha)
            or (row["status"] == "finished" and not _whole(config, config.rounds, counted))
        ]

    def begin(self, configs: Sequence[RunConfig], about: Row, left: Sequence[RunConfig] | None = None) -> None:
        """Take the folder, write down what is going to be run, and forget of the trials that are ``left`` (by default
        all that are) what they cannot go on from.

        Raises SettingsError where another process has the folder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take()
        for left_behind in self.folder.rglob(f".*{PART}"):
            left_behind.unlink()
        self._forget(self.left(configs) if left is None else left)
        trials = {**self.about.get("trials", {}), **{config.key(): config.identity() for config in configs}}
        self.note({"sweep": self.name, **about, "trials": trials})

    def close(self) -> None:
        """Let other processes have the folder."""
        self._lock.release()

    def _take(self) -> None:
        """Be the only one that writes here, until ``close`` or this process's end."""
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise SettingsError(
                f"{self.folder}: another process is writing there; wait for its end, or choose another --out"
            ) from None
        except NotImplementedError:  # a file system without locks
            return
        now = [Table(table.path, table.columns).rows for table in (self.trials, self.evaluations)]
        if now != [self.trials.rows, self.evaluations.rows]:
            raise SettingsError(f"{self.folder}: another process has just written there; give the command again")

    def _forget(self, left: Sequence[RunConfig]) -> None:
        """Drop the rows of trials that failed, of evaluations that were cut off, and of trials that lack an evaluation
        before their checkpoint: these start anew."""
        counted, anew = self._counted(), set[str]()
        due = {config.key(): _rows_an_evaluation(config) for config in left}
        cut = {place for place, count in counted.items() if count != due.get(place[0], count)}
        for config in left:
            state = self.saved_state(config.key())
            if state is not None and not _whole(config, int(unpack(state)["round"]), counted):
                anew.add(config.key())
                self.checkpoint(config.key()).unlink()
        if any(row["trial"] in due for row in self.trials.rows):
            self.trials.replace([row for row in self.trials.rows if row["trial"] not in due])
        there = {place for place in counted if place not in cut and place[0] not in anew}
        for table in (self.evaluations, self.diagnostics):
            kept = [row for row in table.rows if (row["trial"], int(row["round"])) in there]
            if len(kept) < len(table.rows):
                table.replace(kept)
        self._told = {(row["trial"], int(row["round"])) for row in self.evaluations.rows}

    def _counted(self) -> Counter[Evaluated]:
        return Counter((row["trial"], int(row["round"])) for row in self.evaluations.rows)

    def note(self, about: Row) -> None:
        """Add to sweep.json."""
        self.about.update(about)
        write(self.folder / "sweep.json", (json.dumps(self.about, indent=1) + "\n").encode())

    def record(self, key: str, config: RunConfig, metrics: Row) -> None:
        """One evaluation of a trial: its rows (once, whatever is repeated after a crash) and its checkpoint; and the
        trial's own row if that was the last."""
        if (key, metrics["round"]) not in self._told and metrics["evaluations"]:
            self._told.add((key, metrics["round"]))
            shared = {"trial": key, **{name: metrics[name] for name in ("round", "trajectories", "drift", "missed")}}
            if found := [name for name in metrics if name.startswith("diagnostics/")]:
                place = {"trial": key, "round": metrics["round"]}
                self.diagnostics.append({**place, "metric": name, "value": metrics[name]} for name in found)
            self.evaluations.append({**shared, **row} for row in metrics["evaluations"])  # last: it says what is there
        if checkpoint := metrics.get("checkpoint"):
            (self.folder / "checkpoints").mkdir(exist_ok=True)
            write(self.checkpoint(key), checkpoint)
        if metrics["status"] != "running":
            self.end(key, config, metrics)

    def end(self, key: str, config: RunConfig, metrics: Row) -> None:
        """The trial's row: finished, diverged, stopped or failed."""
        if key not in {row["trial"] for row in self.trials.rows if row["status"] in ENDED}:
            last = next((row for row in reversed(self.evaluations.rows) if row["trial"] == key), {})
            self.trials.append([{"trial": key, **config.identity(), "round": last.get("round"), **metrics}])

    def log(self, line: str) -> None:
        """Add a line to log.txt: what went wrong on the way, and what was done about it."""
        with (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")

    def checkpoint(self, key: str) -> Path:
        """Where a trial's checkpoint is."""
        return self.folder / "checkpoints" / f"{key}.npz"

    def saved_state(self, key: str) -> bytes | None:
        """The checkpoint of a trial that was begun, as bytes for ``unpack``. Raises SettingsError for a damaged one."""
        path = self.checkpoint(key)
        if not path.exists():
            return None
        data = path.read_bytes()
        try:
            state = unpack(data)
            sound = {"round", "drift", "seconds"} <= state.keys() and bool(np.isfinite(state["theta"]).all())
        except Exception:  # zipfile and NumPy raise whatever the flipped bit suggests
            sound = False
        if not sound:
            raise SettingsError(f"{path}: damaged; delete it, and its trial starts anew, with the same numbers")
        return data

    def sort(self, order: Sequence[str]) -> None:
        """Put the tables in the order of the plan, whoever finished first; other trials stay in front."""
        place = {key: number for number, key in enumerate(order)}
        for table in (self.trials, self.evaluations, *([self.diagnostics] if self.diagnostics.rows else [])):
            table.replace(
                sorted(
                    table.rows,
                    key=lambda row: (place[row["trial"]], int(row["round"] or 0)) if row["trial"] in place else (-1, 0),
                )
            )


def opened(folder: Path) -> Results:
    """The results in ``folder``, whatever they are of. Raises SettingsError where there are none."""
    about = _about(folder.resolve())
    if not about:
        raise SettingsError(f"{folder}: no sweep.json there; give the folder that a sweep or run named")
    return Results(folder, about["sweep"])


def _about(folder: Path) -> dict[str, Any]:
    """sweep.json; empty where there is none."""
    path = folder / "sweep.json"
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(about["sweep"], str) or not all(isinstance(x, dict) for x in about["trials"].values()):
            raise TypeError("not what a sweep writes")
        if not isinstance(about.get("how", {}), dict) or not isinstance(about.get("swept", []), list):
            raise TypeError("not what a sweep writes")
    except FileNotFoundError:
        return {}
    except OSError as error:  # a file in the folder's place, a name that is too long
        raise SettingsError(f"{folder}: {error.strerror}; give a folder") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from None
    return dict(about)


def _damaged(path: Path, why: object) -> SettingsError:
    return SettingsError(f"{path}: damaged ({why}); bring back a copy, or run anew into another --out")


def _rows_an_evaluation(config: RunConfig) -> int:
    return len(splits(config)) * len(config.m_adapt)


def _whole(config: RunConfig, rounds: int, counted: Mapping[Evaluated, int]) -> bool:
    """Whether every evaluation of the first ``rounds`` rounds is there with all its rows."""
    key, due = config.key(), _rows_an_evaluation(config)
    return all(counted.get((key, k), 0) == due for k in range(rounds + 1) if config.evaluated_after(k))


def pack(state: Row) -> bytes:
    """A run's state as the bytes of an .npz file."""
    file = io.BytesIO()
    np.savez(file, **state)
    return file.getvalue()


def unpack(data: bytes) -> dict[str, Any]:
    """The state again. Nothing is unpickled, so a file from elsewhere can do no harm."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def write(path: Path, data: bytes) -> None:
    """Replace a file in one step: it is the old one or the new one, never half."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=PART)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _cell(value: Any) -> str:
    """None is empty; a sequence is its entries separated by spaces; a float is written so that it reads back equal."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return " ".join(str(entry) for entry in value)
    return repr(float(value)) if isinstance(value, float) else str(value)
