"""Run a sweep on Ray: check, say what will happen, start, record, say what happened."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ray import tune
from ray.tune import TuneError
from ray.tune.logger import TBXLoggerCallback
from ray.tune.schedulers import ASHAScheduler

from raypfrl.config import RunConfig
from raypfrl.exits import FAILED, INTERRUPTED
from raypfrl.sweeps.cluster import cluster_address, connected
from raypfrl.sweeps.machine import Layout, about, cpus_here, layout
from raypfrl.sweeps.nodes import check
from raypfrl.sweeps.recorder import Recorder, cost, label
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.summary import summary, where
from raypfrl.sweeps.trial import Trial
from raypfrl.tracking import UNTRACKED, Tracker, Tracking

RESTARTS = 5  # how often a trial's own process is started again before the trial counts as failed


class _Run(dict[str, Any]):
    """What a trial is told. Tune copies the whole grid once for each of its trials, in depth: not what is in here."""

    def __deepcopy__(self, memo: object) -> _Run:
        return self


def launch(
    swept: Sequence[str],
    configs: Sequence[RunConfig],
    results: Results,
    *,
    cpus: int | None = None,
    asha: bool = False,
    strategy: str = "PACK",
    own_disk: bool = False,
    tracking: Tracking = UNTRACKED,
) -> int:
    """Run the trials that are missing, longest first; the exit status.

    strategy: of the placement groups, PACK or SPREAD. own_disk: see ``nodes.check``.

    Raises SettingsError before anything is started or written.
    """
    left = results.left(configs, asha=asha)
    if left and not cluster_address():
        layout(left, cpus or cpus_here())  # what cannot be placed fails now, not after Ray's start
        if (cpus or 0) > cpus_here():
            print(
                f"--cpus {cpus}: this process may use {cpus_here()}; trials will wait for each other", file=sys.stderr
            )
    print(f"{len(left)} of {len(configs)} trials left", flush=True)
    if left:
        start = time.perf_counter()
        with connected(cpus) as available, contextlib.closing(results):
            placed = layout(left, available)
            nodes = check(results.folder, own_disk=own_disk)
            growing = bool(cluster_address()) and cpus is None  # to the nodes that will join, too
            print(f"{placed}{f', on {nodes} nodes' * (nodes > 1)}", flush=True)
            how = {"asha": asha, "strategy": strategy, **left[0].execution()}
            results.begin(configs, {"swept": list(swept), "how": how, **about(available)}, left)
            names = {config.key(): f"{label(config, swept)} seed={config.seed}" for config in configs}
            tracker = Tracker(results.folder, results.name, tracking, results.about["git_commit"])
            recorder = Recorder(results, left, swept, tracker.start(configs, names))
            _run(results, left, names, placed, recorder, start, asha=asha, strategy=strategy, growing=growing)
            results.sort([config.key() for config in configs])
    print(summary(results, configs, {config.key(): label(config, swept) for config in configs}))
    status = {row["trial"]: row["status"] for row in results.trials.rows}
    missing = sum(config.key() not in status for config in configs)
    if missing:
        print(f"stopped with {missing} of {len(configs)} trials left; the same command goes on from their checkpoints")
    print(where(results.folder))
    return INTERRUPTED if missing else FAILED if "failed" in (status[config.key()] for config in configs) else 0


def _run(
    results: Results,
    configs: Sequence[RunConfig],
    names: Mapping[str, str],
    placed: Layout,
    recorder: Recorder,
    start: float,
    *,
    asha: bool,
    strategy: str,
    growing: bool,
) -> None:
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # the recorder says it in one line
    trainable = tune.with_parameters(Trial, actors=placed.actors)
    bundles = [{"CPU": 0.0 if placed.actors else 1.0}, *[{"CPU": 1.0}] * placed.actors]
    longest_first = sorted(configs, key=cost, reverse=True)  # so that no long trial is left alone at the end
    runs = [
        _Run({"key": key, "settings": config.model_dump(mode="json"), "state": results.saved_state(key)})
        for key, config in ((config.key(), config) for config in longest_first)
    ]
    storage = results.folder / "tune"
    tuner = tune.Tuner(
        tune.with_resources(trainable, tune.PlacementGroupFactory(bundles, strategy=strategy)),
        param_space={"run": tune.grid_search(runs)},
        tune_config=tune.TuneConfig(
            reuse_actors=True,
            max_concurrent_trials=None if growing else placed.at_once,
            scheduler=_asha(configs) if asha else None,
            trial_name_creator=lambda trial: trial.config["run"]["key"],
            trial_dirname_creator=lambda trial: names[trial.config["run"]["key"]].replace(" ", "-"),
        ),
        run_config=tune.RunConfig(
            name=str(sum(1 for _ in storage.iterdir()) + 1 if storage.exists() else 1),
            storage_path=str(storage),
            callbacks=[recorder, TBXLoggerCallback()],  # type: ignore[no-untyped-call]
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=RESTARTS),
            verbose=0,
        ),
    )
    try:
        tuner.fit()
    except TuneError:
        if recorder.broken is None:
            raise
        raise recorder.broken from None
    finally:
        recorder.progress.close()
        recorder.tracker.close()
        _note_seconds(results, recorder, placed, start)


def _note_seconds(results: Results, recorder: Recorder, placed: Layout, start: float) -> None:
    """Where the wall time of this start went; ``tune`` is the rest, idle processes included. ``tracking`` (but for its
    end) and ``recording`` run beside the trials."""
    spent, side_by_side = recorder.seconds, max(placed.actors, 1)
    wall = time.perf_counter() - start
    split = {
        "start": min(recorder.first_work, time.perf_counter()) - start,
        "kernels": spent["kernel"] / side_by_side / placed.at_once,
        "evaluation": spent["evaluation"] / side_by_side / placed.at_once,
        "federation": (spent["busy"] - (spent["kernel"] + spent["evaluation"]) / side_by_side) / placed.at_once,
        "tracking": recorder.tracker.seconds,
    }
    split = {**split, "tune": max(0.0, wall - sum(split.values())), "recording": spent["recording"], "wall": wall}
    earlier = results.about.get("starts", [])
    results.note({"starts": [*earlier, {name: round(seconds, 3) for name, seconds in split.items()}]})


def _asha(configs: Sequence[RunConfig]) -> ASHAScheduler:
    return ASHAScheduler(
        time_attr="round", metric="after/return", mode="max", max_t=max(config.rounds for config in configs)
    )
