"""The result files of a sweep, or of one run: the truth that everything else mirrors.

    trials.csv       one row a trial that ended
    evaluations.csv  one row an evaluation, split and m_adapt
    metrics.csv      one row an evaluation: every other metric of the glossary
    checkpoints/     one file a trial, theta and the counts after its last evaluation: arrays and numbers only
    log.txt          what went wrong on the way (lost processes and nodes), and what was done about it
    sweep.json       what was asked for, with what, where, and how long it took

Only the driver writes. A table grows by whole lines, a file is replaced in one step. A folder that another version has
begun goes on: its columns stay, and new ones join them. Every row names the ``source`` that computed it.
"""

from __future__ import annotations

import io
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from raypfrl.config import RunConfig
from raypfrl.federation.train import splits
from raypfrl.metrics import tracked
from raypfrl.policies import Vector
from raypfrl.settings import SettingsError, resolved
from raypfrl.sweeps.table import PART, Row, Table, cell, damaged, write
from raypfrl.text import message, pasted, printable

OUTCOMES = (
    "before/return", "after/return", "before/success", "after/success", "trajectories", "env_steps", "floats_sent",
    "seconds",
)  # fmt: skip
CODE = ("commit", "source")
SPLITS = ("train", "held_out")
ENDED = ("finished", "diverged", "stopped")  # a failed trial is tried again
UNKNOWN = "unknown"  # the source of what was computed before rows named it
DIAGNOSTICS = "diagnostics.csv"  # in folders from before metrics.csv: trial, round, metric, value


class Results:
    """One folder of results. Opening it writes nothing; ``begin`` does, after everything has been checked.

    Raises SettingsError where the folder holds something else, or files that are damaged.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = resolved(folder), name
        self.about = _about(self.folder)
        if self.about and self.about["sweep"] != name:
            raise SettingsError(f"{folder} holds the results of {self.about['sweep']}; choose another --out")
        if not self.about and self.folder.exists() and any(p.name[0] != "." for p in self.folder.iterdir()):
            raise SettingsError(f"{folder} is not empty and holds no sweep.json; choose another --out")
        self.trials = Table(self.folder / "trials.csv", ("trial",))
        self.evaluations = Table(self.folder / "evaluations.csv", ("trial", "round", "split", "m_adapt"))
        self.metrics = Table(self.folder / "metrics.csv", ("trial", "round"))
        if "source" not in self.about and not self.metrics.path.exists():
            self.metrics.rows = self._first_metrics()
        if self.trials.rows and (lacking := {"status", "round"} - set(self.trials.columns)):
            raise damaged(self.trials.path, f"no column {', '.join(sorted(lacking))}")
        self._check()
        self._index()
        self._lock = FileLock(self.folder / ".lock")

    def _check(self) -> None:
        """Raise SettingsError for a row of no planned trial, and for cells that cannot be: settings that are not the
        trial's, words and no numbers. (A number that has become another one cannot be seen.)"""
        planned = self.about.get("trials", {})
        settings = {key: {name: (cell(value),) for name, value in given.items()} for key, given in planned.items()}
        for row in self.trials.rows:
            words = settings.get(row["trial"], {}) | {"trial": settings, "status": (*ENDED, "failed")}
            self.trials.check(row, OUTCOMES, words)
        for row in self.evaluations.rows:
            m_adapt = [cell(m) for m in planned.get(row["trial"], {}).get("m_adapt", ())]
            words = {"trial": settings, "split": SPLITS, "m_adapt": m_adapt}
            self.evaluations.check(row, row.keys() - {*words, "missed"}, words)
        for row in self.metrics.rows:
            self.metrics.check(row, row.keys() - {"trial", "source"}, {"trial": settings})

    def _index(self) -> None:
        """What is looked up once a trial, or once an evaluation."""
        self._rows = {row["trial"]: row for row in self.trials.rows}
        self._evaluated = defaultdict[str, Counter[int]](Counter)  # trial -> round -> rows
        for row in self.evaluations.rows:
            self._evaluated[row["trial"]][int(row["round"])] += 1
        self._measured = {(row["trial"], int(row["round"])) for row in self.metrics.rows}
        self._sources = defaultdict[str, dict[str, None]](dict)  # trial -> those of its evaluations
        for row in self.metrics.rows:
            self._sources[row["trial"]][row.get("source") or UNKNOWN] = None

    def _first_metrics(self) -> list[dict[str, str]]:
        """A row for each evaluation of a folder from before metrics.csv, with what it has of diagnostics."""
        places = ((row["trial"], row["round"]) for row in self.evaluations.rows)
        rows = {place: dict(zip(("trial", "round"), place, strict=True)) for place in places}
        for row in Table(self.folder / DIAGNOSTICS, ("trial", "round", "metric")).rows:
            if (row["trial"], row["round"]) in rows:
                rows[row["trial"], row["round"]][row["metric"]] = row["value"]
        return list(rows.values())

    def row(self, key: str) -> dict[str, str] | None:
        """A trial's row, if it has ended or failed."""
        return self._rows.get(key)

    def left(self, configs: Sequence[RunConfig], *, asha: bool = False) -> list[RunConfig]:
        """The trials that need more work: not ended, or not all there that they owe: their rows in every table, and
        their checkpoint. Those that a scheduler has stopped have ended only for ``asha``.

        Raises SettingsError for a damaged checkpoint.
        """
        return [config for config in configs if not self._ended(config, asha=asha)]

    def _ended(self, config: RunConfig, *, asha: bool) -> bool:
        row = self._rows.get(config.key())
        if row is None or row["status"] not in ENDED or (row["status"] == "stopped" and not asha):
            return False
        reached = int(row["round"] or 0)
        if row["status"] == "finished" and reached == config.rounds and self._is_a_table_alone(row):
            return self._evaluated.get(config.key(), Counter())[reached] == _rows_an_evaluation(config)
        state = self._state(config.key())
        if state is None or int(state["round"]) != reached:
            return False
        if row["status"] == "finished":
            return reached == config.rounds and self._whole(config, reached)
        return self._whole(config, reached - (row["status"] == "diverged"))  # which may be in its last evaluation

    def _is_a_table_alone(self, row: Row) -> bool:
        """Whether a trial of the first version, whose rows name no source, is kept without its checkpoint, as the
        committed results are."""
        return not row.get("source") and not self.checkpoint(row["trial"]).exists()

    def _whole(self, config: RunConfig, rounds: int) -> bool:
        """Whether every evaluation of the first ``rounds`` rounds is there with all its rows."""
        key, due = config.key(), _rows_an_evaluation(config)
        found = self._evaluated.get(key, Counter())
        return all(
            found[k] == due and (key, k) in self._measured for k in range(rounds + 1) if config.evaluated_after(k)
        )

    def agree(self, source: str, left: Sequence[RunConfig], *, mixed: bool) -> str:
        """What there is to say of numbers in the folder that other source than ``source`` has computed; empty where
        there are none. Raises SettingsError where such numbers and new ones would come together, unless ``mixed``."""
        named = {name: row.get("commit", "") for row in self.trials.rows for name in row.get("source", "").split()}
        named |= {name: named.get(name, "") for names in self._sources.values() for name in names}
        named = {name: commit for name, commit in named.items() if name not in (source, UNKNOWN)}
        if not named:
            return ""
        others = ", ".join(name + (f" of commit {commit[:10]}" if commit else "") for name, commit in named.items())
        said = f"{self.folder}: computed by other source than this ({others}; this is {source})"
        if left and not mixed:
            raise SettingsError(
                f"{said}; go back to that source, give another --out, or --allow-mixed to have both in one table"
            )
        return f"{said}; column source of trials.csv names each row's"

    def begin(self, configs: Sequence[RunConfig], about: Row, left: Sequence[RunConfig] | None = None) -> None:
        """Take the folder, write down what is going to be run, and forget of the trials that are ``left`` (by default
        all that are) what they cannot go on from.

        Raises SettingsError where another process has the folder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take()
        for left_behind in self.folder.rglob(f".*{PART}"):
            left_behind.unlink()
        if self.metrics.rows and not self.metrics.path.exists():
            self.metrics.widen(self.metrics.rows)
            self.metrics.replace(self.metrics.rows)
        (self.folder / DIAGNOSTICS).unlink(missing_ok=True)
        self._forget(self.left(configs) if left is None else left)
        self.plan(configs, {"sweep": self.name, **about})

    def plan(self, configs: Sequence[RunConfig], about: Row) -> None:
        """Write down what is going to be run."""
        planned = {config.key(): config.identity() for config in configs}
        swept = about.get("swept", self.about.get("swept", ()))
        self.trials.widen(_trial_row(config.key(), config.described(swept), {}) for config in configs)
        self.note({**about, "trials": {**self.about.get("trials", {}), **planned}})

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
        if any(table.changed() for table in (self.trials, self.evaluations, self.metrics)):
            raise SettingsError(f"{self.folder}: another process has just written there; give the command again")

    def _forget(self, left: Sequence[RunConfig]) -> None:
        """Of the trials that are left, drop the row, and the evaluations that come after the checkpoint; all of them,
        and the checkpoint, where one before it is not whole: these start anew."""
        due, there = {config.key() for config in left}, set[tuple[str, int]]()
        for config in left:
            if (state := self._state(config.key())) is None:
                continue
            if self._whole(config, reached := int(state["round"])):
                there |= {(config.key(), k) for k in self._evaluated.get(config.key(), ()) if k <= reached}
            else:
                self.checkpoint(config.key()).unlink()
        if not due.isdisjoint(self._rows):
            self.trials.replace([row for row in self.trials.rows if row["trial"] not in due])
        for table in (self.evaluations, self.metrics):
            kept = [row for row in table.rows if row["trial"] not in due or (row["trial"], int(row["round"])) in there]
            if len(kept) < len(table.rows):
                table.replace(kept)
        self._index()

    def note(self, about: Row) -> None:
        """Add to sweep.json."""
        self.about.update(about)
        write(self.folder / "sweep.json", (json.dumps(self.about, indent=1) + "\n").encode())

    def record(self, key: str, config: RunConfig, metrics: Row) -> None:
        """One evaluation of a trial: its rows (once, whatever is repeated after a crash) and its checkpoint; and the
        trial's own row if that was the last."""
        k = metrics["round"]
        if k not in self._evaluated[key] and metrics["evaluations"]:
            rows = evaluation_rows(key, metrics)
            told = {name for row in rows for name in row}
            others = {name: value for name, value in tracked(metrics).items() if name.rpartition("/")[2] not in told}
            self.metrics.append([{"trial": key, "round": k, "source": self.about.get("source"), **others}])
            self.evaluations.append(rows)  # last: it says what is there
            self._evaluated[key][k] = len(rows)
            self._measured.add((key, k))
            self._sources[key][self.about.get("source") or UNKNOWN] = None
        if checkpoint := metrics.get("checkpoint"):
            (self.folder / "checkpoints").mkdir(exist_ok=True)
            write(self.checkpoint(key), checkpoint)
        if metrics["status"] != "running":
            self.end(key, config, metrics)

    def end(self, key: str, config: RunConfig, metrics: Row) -> None:
        """The trial's row: finished, diverged, stopped or failed."""
        before = self._rows.get(key)
        if before is not None and before["status"] in ENDED:
            return
        if before is not None:
            self.trials.replace([row for row in self.trials.rows if row is not before])
        last = max(self._evaluated[key], default=None)
        by = {**self._sources[key], self.about.get("source") or UNKNOWN: None}
        code = {"commit": self.about.get("git_commit"), "source": " ".join(by)}
        settings = config.described(self.about.get("swept", ()))
        self.trials.append([_trial_row(key, settings, {"round": last, **metrics, **code})])
        self._rows[key] = self.trials.rows[-1]

    def log(self, line: str) -> None:
        """Add a line to log.txt: what went wrong on the way, and what was done about it."""
        with (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(line)}\n")

    def checkpoint(self, key: str) -> Path:
        """Where a trial's checkpoint is."""
        return self.folder / "checkpoints" / f"{key}.npz"

    def saved_state(self, key: str) -> bytes | None:
        """The checkpoint of a trial that was begun, as bytes for ``unpack``. Raises SettingsError for a damaged one."""
        return None if self._state(key) is None else self.checkpoint(key).read_bytes()

    def _state(self, key: str) -> dict[str, Any] | None:
        path = self.checkpoint(key)
        if not path.exists():
            return None
        try:
            state = unpack(path.read_bytes())
            sound = {"round", "drift", "seconds"} <= state.keys() and all(
                np.isfinite(array).all() for array in state.values() if array.ndim
            )
        except OSError:
            raise
        except Exception:  # zipfile and NumPy raise whatever the flipped bit suggests
            sound = False
        if not sound:
            raise SettingsError(f"{path}: damaged; delete it, and its trial starts anew, with the same numbers")
        return state

    def theta(self, config: RunConfig) -> Vector:
        """The theta of a finished trial. Raises SettingsError where there is none."""
        row, state = self.row(config.key()), self._state(config.key())
        if row is None or row["status"] != "finished" or state is None:
            again = f"`raypfrl resume {pasted(self.folder)}` runs it"
            raise SettingsError(f"{self.folder}: no theta of a finished trial {config.key()}; {again}")
        theta: Vector | None = state.get("theta")
        if theta is None:
            raise SettingsError(f"{self.folder}: the agents of trial {config.key()} share no theta; choose another")
        return theta

    def sort(self, order: Sequence[str]) -> None:
        """Put the tables in the order of the plan, whoever finished first; other trials stay in front."""
        place = {key: number for number, key in enumerate(order)}
        for table in (self.trials, self.evaluations, self.metrics):
            rows = sorted(
                table.rows,
                key=lambda row: (place[row["trial"]], int(row["round"] or 0)) if row["trial"] in place else (-1, 0),
            )
            if any(row is not other for row, other in zip(rows, table.rows, strict=True)):
                table.replace(rows)


def evaluation_rows(key: str, metrics: Row) -> list[dict[str, Any]]:
    """The rows of one evaluation of a trial, as in evaluations.csv."""
    place = {"trial": key, "round": metrics["round"]}
    shared = {name: metrics[name] for name in ("trajectories", "drift", "missed")}
    return [{**place, **row, **shared} for row in metrics["evaluations"]]


def _trial_row(key: str, settings: Row, metrics: Row) -> dict[str, Any]:
    outcomes = {name: metrics.get(name) for name in ("status", "round", *OUTCOMES)}
    said = {"message": message(str(metrics.get("message") or "")), **{name: metrics.get(name) for name in CODE}}
    return {"trial": key, **settings, **outcomes, **said}


def opened(folder: Path) -> Results:
    """The results in ``folder``, whatever they are of. Raises SettingsError where there are none."""
    about = _about(resolved(folder))
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
        raise damaged(path, error) from None
    return dict(about)


def _rows_an_evaluation(config: RunConfig) -> int:
    return len(splits(config)) * len(config.m_adapt)


def pack(state: Row) -> bytes:
    """A run's state as the bytes of an .npz file."""
    file = io.BytesIO()
    np.savez(file, **state)
    return file.getvalue()


def unpack(data: bytes) -> dict[str, Any]:
    """The state again. Nothing is unpickled, so a file from elsewhere can do no harm."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
