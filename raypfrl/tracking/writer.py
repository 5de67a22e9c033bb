"""Weights & Biases: every trial is a run. Nothing here can stop a trial, change a result, or hold a sweep up.

All of this happens in a process of its own (``python -m raypfrl.tracking.writer``), the only one that imports wandb. It
follows the journal that the driver writes, and outlives the driver by as long as it takes to write the last lines.
Where W&B raises, hangs, or loses its server, it starts anew, offline, from the journal.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from raypfrl.exits import speak
from raypfrl.metrics import BY_M_ADAPT, mirrored
from raypfrl.text import pasted
from raypfrl.tracking.journal import OFFLINE, ONLINE, Event, Journal, command, journal_of, number, say
from raypfrl.tracking.names import fitted
from raypfrl.tracking.server import CHECK, Trouble, api_key, check_server, deadline, lines_of
from raypfrl.tracking.sweep_run import DRAW, log_files, log_table

INIT, FINISH = 20.0, 20.0  # seconds online for the begin of a run, and for its end, while trials run
LAST_UPLOADS = 10.0  # seconds after the last trial, in which everything must be up; what is not is written offline
LOCAL = 60.0  # seconds offline for either: a busy machine is slow, and nobody waits for it
# Of W&B's variables those that name the server, the key and the place of its files. What sweeps, launch and notebooks
# leave there (WANDB_RUN_ID, WANDB_SWEEP_ID, ...) would make one run of many.
INHERITED = {
    "WANDB_API_KEY", "WANDB_APP_URL", "WANDB_BASE_URL", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_CREDENTIALS_FILE",
    "WANDB_DATA_DIR", "WANDB_ENTITY", "WANDB_ERROR_REPORTING", "WANDB_HTTP_PROXY", "WANDB_HTTPS_PROXY",
    "WANDB_IDENTITY_TOKEN_FILE", "WANDB_INSECURE_DISABLE_SSL", "WANDB_X_EXTRA_HTTP_HEADERS",
}  # fmt: skip
FLUSH = 1.0  # seconds after which a row is in W&B's file, whatever is killed


@dataclass
class Run:
    """A run in the journal, and how many of its events are written, to begin with: held by files that are closed."""

    written: int
    events: list[Event] = field(default_factory=list)
    handle: Any = None

    @property
    def begin(self) -> Event:
        return self.events[0]


class Writer:
    """Turns the events of a journal into W&B runs: files under ``into``/wandb, and online the same to a server.

    Raises Trouble.
    """

    def __init__(self, folder: Path, online: bool, *, into: Path | None = None, finish: float = FINISH) -> None:
        self._folder, self._into, self._online = folder, into or folder, online
        self._init, self._finish = (INIT, finish) if online else (LOCAL, LOCAL)
        self._closed = folder / "wandb" / "closed.jsonl"  # one line a file that is complete: run, events, segment
        closed = list(Journal(self._closed).cut().new())
        self._segments = {line["segment"] for line in closed}
        self._latest = {line["run"]: (line["events"], line["segment"]) for line in closed}
        self._journal = Journal(journal_of(folder))
        self.runs: dict[str, Run] = {}
        self._over_at = float("inf")

    def is_up(self, run: Run) -> bool:
        """Whether everything of a run is with the server, as far as W&B's marks in the folder tell."""
        events, segment = self._latest.get(run.begin["run"], (0, ""))
        return events == len(run.events) and any((self._folder / "wandb" / segment).glob("*.synced"))

    def read(self) -> None:
        """Take what is new in the journal."""
        for event in self._journal.new():
            held = self._latest.get(event["run"], (0, ""))[0] if self._into == self._folder else 0
            self.runs.setdefault(event["run"], Run(held)).events.append(event)

    def follow(self) -> None:
        """Write what comes until standard input ends: the driver is done, or dead."""
        over = False
        while not over:
            over = bool(select.select([sys.stdin], [], [], 0.1)[0])
            if over and self._online:
                self._over_at = time.monotonic() + LAST_UPLOADS
            self.read()
            for run in self.runs.values():
                self.write(run)
        for run in self.runs.values():
            self.interrupt(run)

    def write(self, run: Run) -> None:
        """All events of one run that are not written yet. A run that goes on online is begun anew: the server says what
        it has."""
        while run.written < len(run.events):
            if run.handle is None:
                run.handle = self._opened(run.begin)
                run.written = 0 if self._online else run.written
            event = run.events[run.written]
            run.written += 1
            if event["event"] == "row":
                with self._bounded(self._finish, "a row"):
                    _log(run.handle, event["row"])
            elif event["event"] == "end" and run.written == len(run.events):  # else it failed, and was tried again
                self._end(run, event)

    def interrupt(self, run: Run) -> None:
        """Close a run that has not ended; it can go on another time. A driver that was killed between a trial's row and
        the journal's last line has ended it all the same."""
        if run.handle is not None:
            self._end(run, {"summary": self._row_of(run) or {"status": "interrupted"}, "files": []})

    def _row_of(self, run: Run) -> Event | None:
        """What trials.csv says of a run's trial, as a summary; None where it has no whole row."""
        told, trial = run.begin["config"], None
        with contextlib.suppress(OSError, ValueError, csv.Error):
            with (self._folder / "trials.csv").open(newline="", encoding="utf-8") as file:
                rows = [row for row in csv.DictReader(file) if None not in row.values()]
            trial = next((row for row in rows if row["trial"] == told.get("trial")), None)
        return trial and {name: number(name, cell) for name, cell in trial.items() if name not in told}

    def _opened(self, begin: Event) -> Any:
        for left in self._into.glob(f"wandb/*run-*-{begin['run']}"):
            if left.name not in self._segments:  # an earlier writer did not get to its end; all of it comes again
                shutil.rmtree(left, ignore_errors=True)
        with _as_trouble("import wandb"):  # not cut off, however busy the machine is: it would be left imported by half
            import wandb
        with self._bounded(self._init, "wandb.init"):
            mode: Literal["online", "offline"] = "online" if self._online else "offline"
            names: dict[str, Any] = {
                name: fitted(name, begin[name]) for name in ("project", "group", "job_type", "name")
            }
            handle = wandb.init(
                **names, id=begin["run"], tags=_tags(begin), config=begin["config"], dir=str(self._into),
                mode=mode, resume="allow", reinit="create_new",
                settings=self._settings(begin["commit"]),
            )  # fmt: skip
            if "trial" in begin["config"]:
                _define(handle, begin["config"]["m_adapt"])
        return handle

    def _settings(self, commit: str | None) -> Any:
        """Scalars and nothing else: no console, code, packages, machine; and no wait without an end."""
        import wandb

        chosen: dict[str, Any] = {
            "console": "off", "silent": True, "show_errors": False, "show_warnings": False, "disable_code": True,
            "disable_git": True, "disable_job_creation": True, "x_disable_meta": True, "x_disable_machine_info": True,
            "x_disable_stats": True, "x_save_requirements": False, "host": "-", "git_commit": commit, "symlink": False,
            "sagemaker_disable": True,
            "init_timeout": self._init / 3, "finish_timeout": self._finish, "finish_timeout_raises": True,
            "x_transaction_log_flush_interval": FLUSH,
        }  # fmt: skip
        known = wandb.Settings.model_fields  # not every version has them all
        return wandb.Settings(**{name: value for name, value in chosen.items() if name in known})

    def _end(self, run: Run, end: Event) -> None:
        handle, run.handle = run.handle, None
        segment, id, summary = Path(handle.dir).parent, run.begin["run"], end["summary"]
        with self._bounded(self._finish, "the upload of a run"):
            if "table" in end:
                os.environ.setdefault(
                    "WANDB_DATA_DIR", str(self._into / "wandb")
                )  # W&B copies files there, not to HOME
                log_table(handle, end["table"])
                if self._online:
                    spare = self._remaining(2 * DRAW) / 2
                    log_files(handle, self._folder, run.begin["config"]["sweep"], spare)
            handle.summary.update({name: value for name, value in summary.items() if value is not None})
            if summary["status"] != "finished":
                handle.tags = (*_tags(run.begin), summary["status"])
            for file in end["files"]:
                handle.save(str(self._folder / file), base_path=str(self._folder), policy="now")
            handle.finish(exit_code=0 if summary["status"] in ("finished", "stopped") else 1)
        if self._online and self._arrived(handle.entity, run):
            for sent in {segment, *self._folder.glob(f"wandb/*run-*-{id}")}:
                (sent / f"run-{id}.wandb.synced").touch()  # W&B's own mark
        if self._into == self._folder:
            self._segments.add(segment.name)
            with self._closed.open("ab", buffering=0) as closed:
                line = {"run": id, "events": run.written, "segment": segment.name}
                closed.write(json.dumps(line).encode() + b"\n")

    def _arrived(self, entity: str, run: Run) -> bool:
        """Whether the server has all rows: W&B ends a run in peace whose rows were refused. It may have to think, and
        for that only a sync has time: there, less is Trouble."""
        due = len({event["row"]["round"] for event in run.events if event["event"] == "row"})
        project, syncs = fitted("project", run.begin["project"]), self._into != self._folder
        for pause in (0.1, 0.5, 2.0, 0.0) if syncs else (0.0,):
            there = lines_of(entity, project, run.begin["run"], self._remaining(CHECK))
            if there is None or there >= due:
                return True
            time.sleep(pause)
        if syncs:
            raise Trouble(f"the server took {there} of {due} rows")
        return False

    def _remaining(self, seconds: float) -> float:
        return max(0.001, min(seconds, self._over_at - time.monotonic()))

    @contextlib.contextmanager
    def _bounded(self, seconds: float, what: str) -> Iterator[None]:
        """Whatever goes wrong inside is Trouble, and so is taking longer."""
        with _as_trouble(what), deadline(self._remaining(seconds), what):
            yield


@contextlib.contextmanager
def _as_trouble(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise Trouble(f"{what}: {lines[0]}" if what not in lines[0] else lines[0]) from error


def _define(handle: Any, m_adapt: Sequence[int | str]) -> None:
    """Rounds are the x axis of every metric; and no automatic panel shows what another one shows."""
    for axis in ("round", "trajectories"):
        handle.define_metric(axis, hidden=True)
    handle.define_metric("*", step_metric="round")
    for one in mirrored(m_adapt):
        every = BY_M_ADAPT.partition("/")[0].format(m_adapt=one)
        handle.define_metric(f"{every}/*", step_metric="round", hidden=True)


def _tags(begin: Event) -> list[str]:
    return list(dict.fromkeys(fitted("tag", tag) for tag in begin["tags"]))


def _log(handle: Any, row: Event) -> None:
    """A round below the run's step is with the server already."""
    if row["round"] >= handle.step:
        handle.log(row, step=row["round"], commit=True)


def main(folder: Path, mode: str) -> int:
    """Follow the journal of a folder: online, offline, or where no mode is named by the key that is configured."""
    online = mode != OFFLINE
    try:
        if online:
            online = mode == ONLINE or api_key() is not None
        if online:
            check_server()
        Writer(folder, online).follow()
    except Exception as trouble:  # whatever it is, nobody but W&B's files has to suffer from it
        upload = f"`raypfrl sync {pasted(folder)}`"
        if online:
            say(f"{trouble}; goes on offline, and {upload} uploads later")
            os.environ.pop("WANDB_SERVICE", None)  # W&B's process that still tries to upload
            again = command("writer", folder, OFFLINE)
            os.dup2(sys.stderr.fileno(), 2)
            os.execv(again[0], again)
        say(f"no W&B files from here on: {trouble}; results are complete, and {upload} uploads them")
        return 1
    return 0


def run_alone(work: Callable[[], int]) -> NoReturn:
    """The frame of a process that imports wandb. Its own hooks at exit would wait for as long as a server is away."""
    for name in [name for name in os.environ if name.startswith("WANDB_") and name not in INHERITED]:
        del os.environ[name]
    os.environ.update(WANDB_SILENT="true", WANDB_ERROR_REPORTING=os.environ.get("WANDB_ERROR_REPORTING", "false"))
    sys.stderr = os.fdopen(os.dup(2), "w", encoding=sys.stderr.encoding)  # for this package; W&B's own processes,
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # of which it says what matters, say nothing
    speak()
    try:
        status = work()
    except KeyboardInterrupt:
        status = 130
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: None)  # what ends the driver ends the journal, and then this
    run_alone(lambda: main(Path(sys.argv[1]), sys.argv[2]))
