"""The driver's side of a sweep: write results as they come, and show how far it is."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.tune import Callback

from raypfrl.config import RunConfig
from raypfrl.sweeps.results import Results
from raypfrl.tracking import Tracker

EVERY = 30.0  # seconds between two lines of progress where there is no terminal


class Recorder(Callback):
    """Tune's callback that writes the result files, tells the tracker, and prints the progress line."""

    def __init__(self, results: Results, configs: Sequence[RunConfig], swept: Sequence[str], tracker: Tracker) -> None:
        self.results, self.tracker = results, tracker
        self.configs = {config.key(): config for config in configs}
        self.progress = Progress(configs)
        self.labels = {key: label(config, swept) for key, config in self.configs.items()}
        self.seconds: dict[str, float] = defaultdict(float)
        self.first_work = float("inf")  # when the first trial began to compute
        self.broken: OSError | None = None  # why nothing can be written any more; Tune passes only a text on

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks to disk: what only this process needs stays out."""
        return {}

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Rows, checkpoint, progress."""
        start = time.perf_counter()
        self.first_work = min(self.first_work, start - result["busy_seconds"])
        key = trial.config["run"]["key"]
        for line in result["log"]:
            self._say(key, line)
        self.tracker.record(self.configs[key], result)  # first: it has every row that the results have
        with self._writing():
            self.results.record(key, self.configs[key], result)
        self.seconds["busy"] += result["busy_seconds"]
        if result["status"] != "running":
            for name in ("kernel", "evaluation"):
                self.seconds[name] += result[f"{name}_seconds"]
            self._ended(key, result)
        self.progress.reached(key, result["round"])
        self.seconds["recording"] += time.perf_counter() - start

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial's process died, and Tune starts it again: from the checkpoint that the driver has."""
        key = trial.config["run"]["key"]
        trial.config["run"]["state"] = self.results.saved_state(key)
        self._say(key, f"{_cause(trial)} The trial goes on from its last evaluation.")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial whose processes died too often: its row says why, and the sweep goes on."""
        self._end(trial, "failed", _cause(trial))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial that a scheduler stopped early has no last result of its own."""
        self._end(trial, "stopped", "stopped early by the scheduler")

    def _say(self, key: str, line: str) -> None:
        """What happened to a trial, to log.txt and to the terminal."""
        line = f"{self.labels[key]} seed={self.configs[key].seed}: {line}"
        self.progress.tell(line)
        with self._writing():
            self.results.log(line)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.broken = error
            raise

    def _end(self, trial: Any, status: str, message: str) -> None:
        key = trial.config["run"]["key"]
        ended = {row["trial"] for row in self.results.trials.rows}
        if key not in ended:
            with self._writing():
                self.results.end(key, self.configs[key], {**trial.last_result, "status": status, "message": message})
            self._ended(key, {"status": status, "message": message})

    def _ended(self, key: str, result: Mapping[str, Any]) -> None:
        self.tracker.end(self.configs[key], self.results.trials.rows[-1], self.results.checkpoint(key))
        self.progress.ended(key, self.labels[key], result)


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line every ``EVERY`` seconds."""

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        self._work = {config.key(): cost(config) for config in configs}
        self._rounds = {config.key(): config.rounds for config in configs}
        self._part = dict.fromkeys(self._work, 0.0)
        self._scores: dict[str, list[float]] = defaultdict(list)
        self._done, self._start, self._told = 0, time.perf_counter(), time.perf_counter()
        self._first: tuple[float, float] | None = None  # when the first evaluation came, and the share done by then
        self._live = sys.stderr.isatty()

    def ended(self, key: str, label: str, metrics: Mapping[str, Any]) -> None:
        """Count a trial; a message (why it diverged or failed) gets a line of its own."""
        self._done += 1
        self._rounds[key] = 0
        if metrics["status"] == "finished":
            self._scores[label].append(metrics["after/return"])
        elif metrics.get("message"):
            self.tell(f"{label}: {metrics['status']}: {metrics['message']}")

    def reached(self, key: str, round: int) -> None:
        """Show how many trials of how many, the time left by the work that is left, and the running medians of the
        return after adaptation."""
        self._part[key] = round / self._rounds[key] if self._rounds[key] else 1.0
        share = sum(self._work[key] * part for key, part in self._part.items()) / sum(self._work.values())
        now = time.perf_counter()
        self._first = self._first or (now, share)
        if not self._live and now - self._told < EVERY:
            return
        self._told = now
        begun, before = self._first
        left = f", {_clock((now - begun) * (1 - share) / (share - before))} left" if share > before + 0.01 else ""
        medians = "  ".join(f"{label} {statistics.median(scores):.2f}" for label, scores in self._scores.items())
        line = f"{self._done} of {len(self._work)} trials, {_clock(now - self._start)}{left}  {medians}"
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._write(line if len(line) <= width else f"{line[: width - 1]}…")
        else:
            self.tell(line)

    def tell(self, line: str) -> None:
        """A line of its own."""
        self._write(f"{line}\n")

    def close(self) -> None:
        """End the line."""
        if self._live:
            sys.stderr.write("\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\033[K{text}" if self._live else text)
        sys.stderr.flush()


def cost(config: RunConfig) -> int:
    """A trial's environment steps of training, which tell its length beforehand."""
    batch: int = sum(size for name, size in config.method_settings().items() if name.startswith("m_"))
    return config.rounds * config.tau * config.cohort * batch * (config.horizon + 1)


def label(config: RunConfig, swept: Sequence[str]) -> str:
    """What tells a trial's curve from the others of its sweep: ``exact m_h=100``."""
    parts = [f"{name}={getattr(config, name):g}" if isinstance(getattr(config, name), float) else
             f"{name}={getattr(config, name)}" for name in swept if name != "method"]  # fmt: skip
    return " ".join([config.method, *parts])


def _cause(trial: Any) -> str:
    """What Tune noted of a trial's last error, in one line: a lost process's first, a traceback's last."""
    noted = Path(trial.error_file).read_text(encoding="utf-8") if trial.error_file else ""
    lines = [line.strip() for line in noted.rpartition("Failure # ")[2].splitlines()[1:] if line.strip()]
    if "node has died" in noted:
        return "Its node died."
    return lines[-1 if "ray::" in lines[0] else 0] if lines else "Its process ended."


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
