"""The driver's side of a sweep: write results as they come, and show how far it is."""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ray.tune import Callback

from raypfrl.config import RunConfig
from raypfrl.sweeps.results import Results


class Recorder(Callback):
    """Tune's callback that writes the result files and prints the progress line."""

    def __init__(self, results: Results, configs: Sequence[RunConfig], swept: Sequence[str]) -> None:
        self.results = results
        self.configs = {config.key(): config for config in configs}
        self.progress = Progress(configs)
        self.labels = {key: label(config, swept) for key, config in self.configs.items()}
        self.seconds: dict[str, float] = defaultdict(float)
        self.first_result: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks to disk: what only this process needs stays out."""
        return {}

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Rows, checkpoint, progress."""
        start = time.perf_counter()
        self.first_result = self.first_result or start
        key = trial.config["run"]["key"]
        self.results.record(key, self.configs[key], result)
        self.seconds["busy"] += result["busy_seconds"]
        if result["status"] != "running":
            for name in ("kernel", "evaluation"):
                self.seconds[name] += result[f"{name}_seconds"]
            self.progress.ended(key, self.labels[key], result)
        self.progress.reached(key, result["round"])
        self.seconds["recording"] += time.perf_counter() - start

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial whose processes died too often: its row says why, and the sweep goes on."""
        self._end(trial, "failed", _first_line(trial.get_error()))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial that a scheduler stopped early has no last result of its own."""
        self._end(trial, "stopped", "stopped early by the scheduler")

    def _end(self, trial: Any, status: str, message: str) -> None:
        key = trial.config["run"]["key"]
        ended = {row["trial"] for row in self.results.trials.rows}
        if key not in ended:
            self.results.end(key, self.configs[key], {**trial.last_result, "status": status, "message": message})
            self.progress.ended(key, self.labels[key], {"status": status, "message": message})


class Progress:
    """One line that is rewritten on a terminal; nothing where there is none."""

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        self._work = {config.key(): cost(config) for config in configs}
        self._rounds = {config.key(): config.rounds for config in configs}
        self._part = dict.fromkeys(self._work, 0.0)
        self._scores: dict[str, list[float]] = defaultdict(list)
        self._done, self._start = 0, time.perf_counter()
        self._live = sys.stderr.isatty()

    def ended(self, key: str, label: str, metrics: Mapping[str, Any]) -> None:
        """Count a trial; a message (why it diverged or failed) gets a line of its own."""
        self._done += 1
        self._rounds[key] = 0
        if metrics["status"] == "finished":
            self._scores[label].append(metrics["after/return"])
        elif metrics.get("message"):
            self._write(f"{label}: {metrics['status']}: {metrics['message']}\n")

    def reached(self, key: str, round: int) -> None:
        """Show how many trials of how many, the time left by the work that is left, and the running medians of the
        return after adaptation."""
        self._part[key] = round / self._rounds[key] if self._rounds[key] else 1.0
        if not self._live:
            return
        elapsed = time.perf_counter() - self._start
        share = sum(self._work[key] * part for key, part in self._part.items()) / sum(self._work.values())
        left = f", {_clock(elapsed / share - elapsed)} left" if share > 0.01 else ""
        medians = "  ".join(f"{label} {statistics.median(scores):.2f}" for label, scores in self._scores.items())
        width = shutil.get_terminal_size().columns - 1
        self._write(f"{self._done} of {len(self._work)} trials, {_clock(elapsed)}{left}  {medians}"[:width])

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


def _first_line(error: BaseException | None) -> str:
    cause = getattr(error, "cause", None) or error
    return next((line.strip() for line in str(cause).splitlines() if line.strip()), type(cause).__name__)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
