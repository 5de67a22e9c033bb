"""The driver's side of tracking: a journal of what W&B shall show. It never waits while trials run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from raypfrl.config import RunConfig
from raypfrl.metrics import tracked
from raypfrl.settings import SettingsError, did_you_mean
from raypfrl.text import pasted
from raypfrl.tracking.names import run_id

PROJECT = "raypfrl"
END = 30.0  # seconds that the driver waits for the writer after the last trial; it needs less than one
OFFLINE, ONLINE, OFF = ("offline", "online", "off")
_WANDB_MODES = {"dryrun": OFFLINE, "run": ONLINE, "shared": ONLINE, "disabled": OFF}

Event = dict[str, Any]


class Tracking(NamedTuple):
    """What was asked for. mode None: what WANDB_MODE says, else online where a key is configured, else offline."""

    mode: str | None = None
    project: str | None = None
    log_theta: bool = False

    def resolved(self) -> str | None:
        """offline, online, off; None where the configured key decides. Raises SettingsError for another mode."""
        named = self.mode or os.environ.get("WANDB_MODE") or None
        mode = _WANDB_MODES.get(named, named) if named else None
        if mode not in (None, OFFLINE, ONLINE, OFF):
            known = (OFFLINE, ONLINE, *_WANDB_MODES)
            raise SettingsError(f"WANDB_MODE: {did_you_mean('mode', named, known)}")
        return mode


UNTRACKED = Tracking(OFF)


class Tracker:
    """The driver's side: one line in the journal for every begin, row and end of a run, each round once."""

    def __init__(self, folder: Path, sweep: str, tracking: Tracking, code: Mapping[str, Any]) -> None:
        self._folder, self._sweep, self._tracking, self._code = folder, sweep, tracking, code
        self._labels: Mapping[str, str] = {}
        self.seconds = 0.0
        self._told = set[tuple[str, int | None]]()  # (run, round) of every row; (run, None) of every begin
        self._off = tracking.resolved() == OFF
        self._process: subprocess.Popen[bytes] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks to disk: what only this process needs stays out."""
        return {}

    def start(self, labels: Mapping[str, str]) -> Self:
        """Open the journal, and start the writer. ``labels``: what tells a trial's point from the others, by key."""
        self._labels = labels
        if not self._off:
            with self._harmless():
                self._open()
        return self

    def _open(self) -> None:
        journal = journal_of(self._folder)
        journal.parent.mkdir(exist_ok=True)
        for event in Journal(journal).cut().new():
            self._told.add((event["run"], event["row"]["round"] if event["event"] == "row" else None))
        self._process = subprocess.Popen(
            command("writer", self._folder, self._tracking.resolved() or ""),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def record(self, config: RunConfig, metrics: Mapping[str, Any]) -> None:
        """One evaluation of a run."""
        with self._timed():
            run = self._begun(config)
            if (run, metrics["round"]) not in self._told:
                self._told.add((run, metrics["round"]))
                self._write({"event": "row", "run": run, "row": tracked(metrics)})

    def end(self, config: RunConfig, row: Mapping[str, str], theta: Path) -> None:
        """A run's last word: its row of trials.csv, without the settings, which are in the run's config."""
        with self._timed():
            settings = config.described(self._swept)
            summary = {name: number(name, cell) for name, cell in row.items() if name not in settings}
            files = [str(theta.relative_to(self._folder))] if self._tracking.log_theta and theta.exists() else []
            self._write({"event": "end", "run": self._begun(config), "summary": summary, "files": files})

    def summarise(self, points: Sequence[Mapping[str, Any]], configs: Sequence[RunConfig]) -> None:
        """The sweep's own run, after its last trial: its final table, one row a point. The writer adds the result files
        and the figures."""
        with self._timed():
            run = run_id(self._sweep, f"summary-{_digest(*sorted({_point(config) for config in configs}))}")
            title, shared = f"{self._sweep} summary", {"sweep": self._sweep}
            self._begin(run, title, title, "summary", ["summary"], shared)
            done = {"event": "end", "run": run, "summary": {"status": "finished"}, "files": []}
            self._write({**done, "table": [dict(point) for point in points]})

    def close(self) -> None:
        """Let the writer finish, for at most ``END`` seconds."""
        if self._process is None or self._process.stdin is None:
            return
        with self._timed():
            self._process.stdin.close()
            try:
                self._process.wait(END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                upload = f"`raypfrl sync {pasted(self._folder)}`"
                say(f"W&B did not end within {END:g} s, and was left; {upload} uploads everything")

    def _begun(self, config: RunConfig) -> str:
        run, label = run_id(self._sweep, config.key()), self._labels[config.key()]
        shared = {"sweep": self._sweep, "trial": config.key(), "point": label, **config.described(self._swept)}
        group = f"{self._sweep} {label} {_digest(_point(config))}"
        tags = [config.population, config.method]
        self._begin(run, f"{label} seed={config.seed}", group, config.method, tags, shared)
        return run

    @property
    def _swept(self) -> Sequence[str]:
        swept: Sequence[str] = self._code.get("swept", ())
        return swept

    def _begin(
        self, run: str, name: str, group: str, job_type: str, tags: Sequence[str], config: Mapping[str, Any]
    ) -> None:
        if (run, None) not in self._told:
            self._told.add((run, None))
            self._write(
                {
                    "event": "begin",
                    "run": run,
                    "project": self._tracking.project or os.environ.get("WANDB_PROJECT") or PROJECT,
                    "group": group,
                    "job_type": job_type,
                    "name": name,
                    "tags": [self._sweep, *tags],
                    "config": {"sweep": self._sweep, "source": self._code.get("source"), **config},
                    "commit": self._code.get("git_commit"),
                }
            )

    def _write(self, event: Event) -> None:
        if not self._off:
            with self._harmless(), journal_of(self._folder).open("ab", buffering=0) as journal:
                journal.write(json.dumps(event, default=float).encode() + b"\n")

    @contextlib.contextmanager
    def _harmless(self) -> Iterator[None]:
        """The results come without a journal too."""
        try:
            yield
        except OSError as error:
            self._off = True
            say(f"{error}; no W&B from here on")

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start


def journal_of(folder: Path) -> Path:
    """Where the journal of a folder of results is."""
    return folder / "wandb" / "journal.jsonl"


def say(text: str) -> None:
    """One line to the user, beside a progress line."""
    sys.stderr.write(f"{chr(13) + chr(27) + '[K' if sys.stderr.isatty() else ''}tracking: {text}\n")
    sys.stderr.flush()


def _point(config: RunConfig) -> str:
    """All settings but the seed, as text."""
    return json.dumps(config.identity() | {"seed": None}, sort_keys=True)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def number(name: str, cell: str) -> str | float | None:
    """A cell of trials.csv as W&B gets it; None for an empty one."""
    if name in ("trial", "status", "message", "commit", "source"):
        return cell
    try:
        return float(cell) if cell else None
    except ValueError:  # a column of words
        return cell


def command(module: str, folder: Path, *arguments: str) -> list[str]:
    """How a module of this package is run in a process of its own."""
    return [sys.executable, "-m", f"{__package__}.{module}", str(folder), *arguments]


def _event(line: bytes) -> Event | None:
    """What a line says; None for a damaged one."""
    try:
        event = json.loads(line)
        needed = {"begin": "config", "row": "row", "end": "summary"}.get(event.get("event"), "segment")
        return event if event["run"] and (needed != "row" or event["row"]["round"] >= 0) and needed in event else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


class Journal:
    """Reads the lines of a journal that are whole and sound, each once."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def cut(self) -> Self:
        """Drop a last line that a crash has cut off."""
        if self._path.exists():
            data = self._path.read_bytes()
            if not data.endswith(b"\n"):
                os.truncate(self._path, data.rfind(b"\n") + 1)
        return self

    def new(self) -> Iterator[Event]:
        """What has come since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                if event := _event(line):
                    yield event
