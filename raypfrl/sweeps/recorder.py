"""The driver's side of a sweep: write results as they come."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.tune import Callback

from raypfrl.config import RunConfig
from raypfrl.sweeps.machine import timed
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.tensorboard import TensorBoard
from raypfrl.sweeps.terminal import Progress
from raypfrl.tracking import Tracker

OF_TUNE = ("round", "after/return", "done", "training_iteration", "pid", "node_ip", "trial_id")  # what it goes on with


class Recorder(Callback):
    """Tune's callback that writes the result files, tells the tracker and TensorBoard, and shows the progress."""

    def __init__(
        self,
        results: Results,
        configs: Sequence[RunConfig],
        labels: Mapping[str, str],
        tracker: Tracker,
        board: TensorBoard,
        unasked: int = 0,
    ) -> None:
        self.results, self.labels, self.tracker, self.board = results, labels, tracker, board
        self.configs = {config.key(): config for config in configs}
        self.progress = Progress(configs, labels, unasked)
        self.seconds: dict[str, float] = defaultdict(float)
        self.first_work = float("inf")  # when the first trial began to compute
        self._timed = False  # whether one trial has said how long evaluation takes
        self.broken: OSError | None = None  # why nothing can be written any more; Tune passes only a text on
        self._last: dict[str, dict[str, Any]] = {}  # the counts and outcomes of every running trial's last evaluation

    def expect(self, configs: Sequence[RunConfig], unasked: int) -> None:
        """More trials, that a search has asked for; so many are left to it."""
        self.configs |= {config.key(): config for config in configs}
        self.progress.expect(configs, unasked)

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks to disk: what only this process needs stays out."""
        return {}

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Rows, checkpoint, progress. Of the result Tune keeps what a scheduler looks at."""
        start = time.perf_counter()
        self.first_work = min(self.first_work, start - result["busy_seconds"])
        key, config = trial.trial_id, self.configs[trial.trial_id]
        metrics = result.copy()
        for name in result.keys() - set(OF_TUNE):
            del result[name]
        for line in metrics["log"]:
            self._say(key, line)
        if not self._timed and (said := timed(config, metrics)):
            self._timed = True
            self._say(key, said)
        self.tracker.record(config, metrics)  # first: it has every row that the results have
        with self._writing():
            self.results.record(key, config, metrics)
        self.board.record(key, metrics)
        self.seconds["busy"] += metrics["busy_seconds"]
        self._last[key] = {k: v for k, v in metrics.items() if k not in ("checkpoint", "evaluations", "log")}
        if metrics["status"] != "running":
            for name in ("kernel", "evaluation"):
                self.seconds[name] += metrics[f"{name}_seconds"]
            self._ended(key, metrics)
        self.progress.reached(key, metrics)
        self.seconds["recording"] += time.perf_counter() - start

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial's process died, and Tune starts it again: from the checkpoint that the driver has."""
        trial.restart(self.results.saved_state(trial.trial_id))
        self._say(trial.trial_id, f"{_cause(trial)} The trial goes on from its last evaluation.")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial whose processes died too often: its row says why, and the sweep goes on."""
        self._end(trial.trial_id, "failed", _cause(trial))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial that a scheduler stopped early has no last result of its own."""
        self._end(trial.trial_id, "stopped", "stopped early by the scheduler")

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Let Tune, whose own list this is, look at the trials that run and the last one, not at all that ever ran."""
        for trial in [trial for trial in trials[:-1] if trial.is_finished()]:
            trials.remove(trial)
            trial.forget()

    def close(self) -> None:
        """After the last trial: take the picture away, let the mirrors finish."""
        self.progress.close()
        self.board.close()
        self.tracker.close()

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

    def _end(self, key: str, status: str, message: str) -> None:
        """Write the row of a trial that Tune ended, if it has none."""
        if key in self.configs:
            ended = {**self._last.get(key, {}), "status": status, "message": message}
            with self._writing():
                self.results.end(key, self.configs[key], ended)
            self._ended(key, ended)

    def _ended(self, key: str, metrics: Mapping[str, Any]) -> None:
        config = self.configs.pop(key)
        self._last.pop(key, None)
        if row := self.results.row(key):
            self.tracker.end(config, row, self.results.checkpoint(key))
        self.board.end(key, config, metrics)
        self.progress.ended(key, metrics)


def _cause(trial: Any) -> str:
    """What Tune has just noted of an error, in one line: a lost process's first, a traceback's last."""
    noted = Path(trial.error_file).read_text(encoding="utf-8") if trial.error_file else ""
    last = noted.rpartition("Failure # ")[2]
    lines = [line.strip() for line in last.splitlines()[1:] if line.strip()]
    if "node has died" in last:
        return "Its node died."
    return lines[-1 if "ray::" in lines[0] else 0] if lines else "Its process ended."
