"""Weights & Biases: every trial is a run. Nothing here can stop a trial, change a result, or hold a sweep up.

All of this happens in a process of its own (``python -m raypfrl.tracking.writer``), the only one that imports wandb. It
follows the journal that the driver writes, and outlives the driver by as long as it takes to write the last lines.
Where W&B raises, hangs, or loses its server, it starts anew, offline, from the journal.
"""

from __future__ import annotations

import contextlib
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

from raypfrl.tracking.journal import OFFLINE, ONLINE, Event, Journal, command, journal_of, say
from raypfrl.tracking.server import CHECK, Trouble, api_key, check_server, deadline

INIT, FINISH = 20.0, 20.0  # seconds online for the begin of a run, and for its end, while trials run
LAST_UPLOADS = 10.0  # seconds after the last trial, in which everything must be up; what is not is written offline
LOCAL = 60.0  # seconds offline for either: a busy machine is slow, and nobody waits for it
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
                self._end(run, event["summary"], event["files"])

    def interrupt(self, run: Run) -> None:
        """Close a run that has not ended; it can go on another time."""
        if run.handle is not None:
            self._end(run, {"status": "interrupted"}, [])

    def _opened(self, begin: Event) -> Any:
        for left in self._into.glob(f"wandb/*run-*-{begin['run']}"):
            if left.name not in self._segments:  # an earlier writer did not get to its end; all of it comes again
                shutil.rmtree(left, ignore_errors=True)
        with self._bounded(self._init, "wandb.init"):
            import wandb

            mode: Literal["online", "offline"] = "online" if self._online else "offline"
            handle = wandb.init(
                project=begin["project"], id=begin["run"], group=begin["group"], job_type=begin["job_type"],
                name=begin["name"], tags=begin["tags"], config=begin["config"], dir=str(self._into),
                mode=mode, resume="allow", reinit="create_new",
                settings=self._settings(begin["commit"]),
            )  # fmt: skip
            for axis in ("round", "trajectories"):
                handle.define_metric(axis)
            handle.define_metric("*", step_metric="round")
        return handle

    def _settings(self, commit: str | None) -> Any:
        """Scalars and nothing else: no console, code, packages, machine; and no wait without an end."""
        import wandb

        chosen: dict[str, Any] = {
            "console": "off", "silent": True, "show_errors": False, "show_warnings": False, "disable_code": True,
            "disable_git": True, "disable_job_creation": True, "x_disable_meta": True, "x_disable_machine_info": True,
            "x_disable_stats": True, "x_save_requirements": False, "host": "-", "git_commit": commit, "symlink": False,
            "init_timeout": self._init / 3, "finish_timeout": self._finish, "finish_timeout_raises": True,
            "x_transaction_log_flush_interval": FLUSH,
        }  # fmt: skip
        known = wandb.Settings.model_fields  # not every version has them all
        return wandb.Settings(**{name: value for name, value in chosen.items() if name in known})

    def _end(self, run: Run, summary: Event, files: Sequence[str]) -> None:
        handle, run.handle = run.handle, None
        segment, id = Path(handle.dir).parent, run.begin["run"]
        with self._bounded(self._finish, "the upload of a run"):
            handle.summary.update({name: value for name, value in summary.items() if value is not None})
            if summary["status"] != "finished":
                handle.tags = (*run.begin["tags"], summary["status"])
            for file in files:
                handle.save(str(self._folder / file), base_path=str(self._folder), policy="now")
            handle.finish(exit_code=0 if summary["status"] in ("finished", "stopped") else 1)
        if self._online:
            check_server(self._remaining(CHECK))  # it may have refused what it was sent
            for sent in {segment, *self._folder.glob(f"wandb/*run-*-{id}")}:
                (sent / f"run-{id}.wandb.synced").touch()  # W&B's own mark
        if self._into == self._folder:
            self._segments.add(segment.name)
            with self._closed.open("ab", buffering=0) as closed:
                line = {"run": id, "events": run.written, "segment": segment.name}
                closed.write(json.dumps(line).encode() + b"\n")

    def _remaining(self, seconds: float) -> float:
        return max(0.001, min(seconds, self._over_at - time.monotonic()))

    @contextlib.contextmanager
    def _bounded(self, seconds: float, what: str) -> Iterator[None]:
        """Whatever goes wrong inside is Trouble, and so is taking longer."""
        try:
            with deadline(self._remaining(seconds), what):
                yield
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise Trouble(f"{what}: {lines[0]}" if what not in lines[0] else lines[0]) from error


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
        if online:
            say(f"{trouble}; goes on offline, and `raypfrl sync {folder}` uploads later")
            os.environ.pop("WANDB_SERVICE", None)  # W&B's process that still tries to upload
            again = command("writer", folder, OFFLINE)
            os.execv(again[0], again)
        say(f"no W&B files from here on: {trouble}; results are complete, and `raypfrl sync {folder}` uploads them")
        return 1
    return 0


def run_alone(work: Callable[[], int]) -> NoReturn:
    """The frame of a process that imports wandb. Its own hooks at exit would wait for as long as a server is away."""
    for name in ("WANDB_MODE", "WANDB_SERVICE"):  # decided here
        os.environ.pop(name, None)
    os.environ.update(WANDB_SILENT="true", WANDB_ERROR_REPORTING=os.environ.get("WANDB_ERROR_REPORTING", "false"))
    try:
        status = work()
    except KeyboardInterrupt:
        status = 130
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: None)  # what ends the driver ends the journal, and then this
    run_alone(lambda: main(Path(sys.argv[1]), sys.argv[2]))
