"""Event files for TensorBoard, one folder a trial: a mirror for looking at a sweep as it runs."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from raypfrl.config import EXECUTION, RunConfig
from raypfrl.metrics import tracked

MOST = 1000  # trials of a sweep: TensorBoard shows no more, and every trial is a folder and a file
FLUSHED = 30  # seconds after which what is written can be seen
LONGEST = 120  # characters of a folder's name


class TensorBoard:
    """The event files of one start of a sweep. ``names``: of the trials, by key. None are written for more than
    ``MOST`` trials, nor on a disk that takes them no more: the results come all the same."""

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        self._folder, self._names, self._off = folder, names, len(names) > MOST
        self._files: dict[str, Any] = {}
        self._flushed = time.time()

    def record(self, key: str, metrics: Mapping[str, Any]) -> None:
        """One evaluation of a trial, at its round."""
        if self._off:
            return
        from tensorboardX.proto.summary_pb2 import Summary

        numbers = {name: value for name, value in tracked(metrics).items() if isinstance(value, int | float)}
        values = [Summary.Value(tag=name, simple_value=v) for name, v in numbers.items() if math.isfinite(v)]
        with contextlib.suppress(OSError):
            self._write(key, [Summary(value=values)], metrics["round"])

    def end(self, key: str, config: RunConfig, metrics: Mapping[str, Any]) -> None:
        """A trial's last word: its settings with its outcome, for the table of hyperparameters."""
        if self._off:
            return
        from tensorboardX.summary import hparams

        with contextlib.suppress(OSError):
            every = config.model_dump(mode="json", exclude=EXECUTION)
            settings = {k: v if isinstance(v, int | float) else str(v) for k, v in every.items()}
            outcome = {k: v for k, v in metrics.items() if k.endswith("/return") and math.isfinite(v)}
            self._write(key, hparams(settings, outcome), 0)
            self._files.pop(key).close()

    def close(self) -> None:
        """End the files of the trials that have not."""
        with contextlib.suppress(OSError):
            for file in self._files.values():
                file.close()

    def _write(self, key: str, summaries: Iterable[Any], round: int) -> None:
        """Add to a trial's file. (tensorboardX's own SummaryWriter has a thread and a queue a trial.)"""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event

        if key not in self._files:
            folder = self._folder / name_of_folder(self._names[key], key)
            folder.mkdir(parents=True, exist_ok=True)
            self._files[key] = EventsWriter(str(folder / "events"))
        now = time.time()
        for summary in summaries:
            self._files[key].write_event(Event(summary=summary, step=round, wall_time=now))
        if now > self._flushed + FLUSHED:
            self._flushed = now
            for file in self._files.values():
                file.flush()


def name_of_folder(name: str, key: str) -> str:
    """A trial's folder: at most ``LONGEST`` characters, whatever is swept; if that cuts, the key tells them apart."""
    plain = re.sub(r"[^\w.,=()\[\]'+-]", "-", name, flags=re.ASCII)
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - len(key) - 1]}-{key}"
