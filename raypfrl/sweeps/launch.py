"""Run a sweep on Ray: check, say what will happen, start, record, say what happened."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raypfrl.config import RunConfig
from raypfrl.exits import FAILED, INTERRUPTED, terminable
from raypfrl.sweeps.cluster import cluster_address, connected
from raypfrl.sweeps.machine import Layout, about, announced, check_compiler, cost, cpus_here, layout
from raypfrl.sweeps.nodes import check
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.search import Search
from raypfrl.sweeps.source import source
from raypfrl.sweeps.sweep import label
from raypfrl.sweeps.tensorboard import TensorBoard
from raypfrl.sweeps.terminal import Point, points_of, show, where
from raypfrl.tracking import UNTRACKED, Tracker, Tracking

if TYPE_CHECKING:
    from raypfrl.sweeps.recorder import Recorder

_TUNE = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # results.py writes the rows, once
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C is heard here
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that diverged or failed ends without being judged
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",  # Tune's record of the sweep is read by nobody
    "TUNE_MAX_PENDING_TRIALS_PG": "200",  # so that a growing cluster sees what is wanted
}


def launch(swept: Sequence[str], configs: Sequence[RunConfig], results: Results, **how: Any) -> int:
    """Run the trials that are missing, longest first; the exit status. ``how``: what else a ``Launch`` takes.

    Raises SettingsError before anything is started or written.
    """
    for name, value in _TUNE.items():
        os.environ.setdefault(name, value)  # before Ray starts: its workers read some of them too
    with terminable():
        return Launch(swept, configs, results, **how).run()


@dataclass
class Launch:
    """One start of a sweep.

    strategy: of the placement groups, PACK or SPREAD. own_disk: see ``nodes.check``. allow_mixed: go on where other
    source has computed what is there. search: what asks for more trials when ``configs`` have ended.
    """

    swept: Sequence[str]
    configs: Sequence[RunConfig]
    results: Results
    cpus: int | None = None
    asha: bool = False
    strategy: str = "PACK"
    own_disk: bool = False
    allow_mixed: bool = False
    tracking: Tracking = UNTRACKED
    search: Search | None = None
    begun: float = field(default_factory=time.perf_counter, init=False)

    def __post_init__(self) -> None:
        """Label the trials, and find those that are left."""
        self.labels, self.names = dict[str, str](), dict[str, str]()
        self._label(self.configs)
        self.left = self.results.left(self.configs, asha=self.asha)

    def _label(self, configs: Sequence[RunConfig]) -> None:
        for config in configs:
            self.labels[config.key()] = label(config, self.swept)
            self.names[config.key()] = f"{self.labels[config.key()]} seed={config.seed}"

    def run(self) -> int:
        """Check, say, start, record, say."""
        self.check()
        print(f"{len(self.left) + self.unasked} of {len(self.configs) + self.unasked} trials left", flush=True)
        with contextlib.ExitStack() as to_the_last_word:
            if self.left:
                with connected(self.cpus) as available, contextlib.closing(self.results):
                    placed = self.place(available)
                    over = to_the_last_word.enter_context(_heard())
                    with self.recording(placed) as recorder:
                        self.start(placed, recorder, over)
                        while self.search and not over.is_set() and self.grow(self.search, recorder):
                            self.start(placed, recorder, over)
                    self.results.sort(list(self.labels))
            return self.say()

    def check(self) -> None:
        """Raise SettingsError now, not after Ray's start, for what cannot be placed on this machine, or does not go
        with what is there."""
        if said := self.results.agree(source(), self.left, mixed=self.allow_mixed):
            print(said)
        check_compiler(self.left)
        if self.left and not cluster_address():
            layout(self.left, self.cpus or cpus_here())
            if (self.cpus or 0) > cpus_here():
                why = f"--cpus {self.cpus}: this process may use {cpus_here()}; trials will wait for each other"
                print(why, file=sys.stderr)

    def place(self, available: int) -> Layout:
        """Divide the CPUs, look at the nodes, take the folder, and say so."""
        placed = layout(self.left, available)
        nodes = check(self.results.folder, own_disk=self.own_disk)
        print(f"{placed}{f', on {nodes} nodes' * (nodes > 1)}", flush=True)
        if said := announced(self.left):
            print(said, flush=True)
        how = {"asha": self.asha, "strategy": self.strategy, **self.left[0].execution()}
        if self.search:
            how["search"] = True
        self.results.begin(self.configs, {"swept": list(self.swept), "how": how, **about(available)}, self.left)
        return placed

    @contextlib.contextmanager
    def recording(self, placed: Layout) -> Iterator[Recorder]:
        """What writes the results and their mirrors; at the end, where the time went."""
        from raypfrl.sweeps.recorder import Recorder

        tracker = Tracker(self.results.folder, self.results.name, self.tracking, self.results.about)
        starts = self.results.folder / "tune"
        board = TensorBoard(starts / str(1 + len(list(starts.iterdir()) if starts.exists() else [])), self.names)
        recorder = Recorder(self.results, self.left, self.labels, tracker.start(self.labels), board, self.unasked)
        try:
            yield recorder
            if not self.missing():
                tracker.summarise(self.points(), self.configs)
        finally:
            recorder.close()
            self.results.note({"starts": [*self.results.about.get("starts", []), split(recorder, placed, self.begun)]})

    def start(self, placed: Layout, recorder: Recorder, over: threading.Event) -> None:
        """Let Tune run the trials that are left, until all have ended or it is ``over``."""
        from ray import tune
        from ray.tune import TuneError
        from ray.tune.schedulers import ASHAScheduler

        from raypfrl.sweeps.plan import Plan, Until
        from raypfrl.sweeps.trial import Trial

        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # the recorder says it in one line
        growing = bool(cluster_address()) and self.cpus is None  # to the nodes that will join, too
        longest_first = sorted(self.left, key=cost, reverse=True)  # so that no long trial is left alone at the end
        plan = Plan(longest_first, None if growing else placed.at_once, self.results.saved_state, over)
        longest = max(config.rounds for config in self.left)
        asha = ASHAScheduler(time_attr="round", metric="after/return", mode="max", max_t=longest)
        bundles = [{"CPU": 0.0 if placed.actors else 1.0}, *[{"CPU": 1.0}] * placed.actors]
        with tempfile.TemporaryDirectory(prefix="raypfrl-tune-") as storage:
            tuner = tune.Tuner(
                tune.with_resources(
                    tune.with_parameters(Trial, actors=placed.actors),
                    tune.PlacementGroupFactory(bundles, strategy=self.strategy),
                ),
                tune_config=tune.TuneConfig(search_alg=plan, reuse_actors=True, scheduler=asha if self.asha else None),
                run_config=tune.RunConfig(
                    name="sweep",
                    storage_path=storage,
                    stop=Until(over),
                    callbacks=[recorder],
                    checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
                    verbose=0,
                ),
            )
            try:
                tuner.fit()
            except TuneError:
                if recorder.broken is None:
                    raise
                raise recorder.broken from None

    def grow(self, search: Search, recorder: Recorder) -> bool:
        """Take the next trials of a search; whether there are any."""
        self.left = search.grow(self.results)
        if self.left:
            self.configs = [*self.configs, *self.left]
            self._label(self.left)
            recorder.expect(self.left, search.unasked)
            self.results.plan(self.left, {})
        return bool(self.left)

    @property
    def unasked(self) -> int:
        """How many trials a search has yet to ask for."""
        return self.search.unasked if self.search else 0

    def points(self) -> list[Point]:
        """The last table."""
        return points_of(self.results, self.configs, self.labels, self.swept)

    def missing(self) -> int:
        """How many trials have not ended."""
        return self.unasked + sum(self.results.row(key) is None for key in self.labels)

    def say(self) -> int:
        """The table, what is left, where it all is; the exit status."""
        show(self.points())
        status = {row["trial"]: row["status"] for row in self.results.trials.rows}
        if missing := self.missing():
            left = f"{missing} of {len(self.configs) + self.unasked} trials left"
            print(f"stopped with {left}; the same command goes on from their checkpoints")
        print(where(self.results.folder), flush=True)
        return INTERRUPTED if missing else FAILED if "failed" in (status[key] for key in self.labels) else 0


def split(recorder: Recorder, placed: Layout, start: float) -> dict[str, float]:
    """Where the wall time of a start went; ``tune`` is the rest, idle processes included. ``tracking`` (but for its
    end) and ``recording`` run beside the trials."""
    spent, side_by_side = recorder.seconds, max(placed.actors, 1)
    wall = time.perf_counter() - start
    parts = {
        "start": min(recorder.first_work, time.perf_counter()) - start,
        "kernels": spent["kernel"] / side_by_side / placed.at_once,
        "evaluation": spent["evaluation"] / side_by_side / placed.at_once,
        "federation": (spent["busy"] - (spent["kernel"] + spent["evaluation"]) / side_by_side) / placed.at_once,
        "tracking": recorder.tracker.seconds,
    }
    parts = {**parts, "tune": max(0.0, wall - sum(parts.values())), "recording": spent["recording"], "wall": wall}
    return {name: round(seconds, 3) for name, seconds in parts.items()}


@contextlib.contextmanager
def _heard() -> Iterator[threading.Event]:
    """From here on a Ctrl-C ends the sweep in order and sets the event, and another one waits for that, to the last
    word."""
    over = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: over.set())
    try:
        yield over
    finally:
        signal.signal(signal.SIGINT, before)
