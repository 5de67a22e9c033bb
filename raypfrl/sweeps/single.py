"""One run from the command line: with its results on disk, resumable, in process or on Ray actors."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from raypfrl.config import RunConfig, SettingsError
from raypfrl.exits import FAILED, INTERRUPTED, heard_in_time, terminable
from raypfrl.federation.server import Agents
from raypfrl.federation.train import InProcess, Training
from raypfrl.oracles import AgentError
from raypfrl.sweeps.machine import about, announced, check_compiler, cpus_here, timed
from raypfrl.sweeps.results import ENDED, Results, pack, unpack
from raypfrl.sweeps.source import source
from raypfrl.sweeps.terminal import where
from raypfrl.text import pasted
from raypfrl.tracking import UNTRACKED, Tracker, Tracking


def run(config: RunConfig, folder: Path, tracking: Tracking = UNTRACKED, *, allow_mixed: bool = False) -> int:
    """Run ``config``, or go on where it stopped, and write its results to ``folder``; gives the exit status.

    As for a sweep, that is ``FAILED`` for what failed and is tried again; a run that diverged has ended with a result.
    Raises SettingsError before anything is written.
    """
    results, key = Results(folder, f"run-{config.key()}"), config.key()
    left = results.left([config])
    if said := results.agree(source(), left, mixed=allow_mixed):
        print(said)
    if not left and (row := results.row(key)):
        print(f"already {row['status']}; results in {pasted(folder)}")
        return 0
    if config.actors != "auto" and config.actors > len(config.agents()):
        raise SettingsError(f"actors = {config.actors}: there are {len(config.agents())} agents to host; lower it")
    check_compiler([config])
    if said := announced([config]):
        print(said, flush=True)
    metrics: Mapping[str, Any] = {"status": "failed"}
    try:
        with agents_of(config, results) as agents, contextlib.closing(results):
            results.begin([config], {"how": config.execution(), **about(cpus_here())})
            with _tracked(config, results, tracking) as tracker:
                state = results.saved_state(key)
                try:
                    training = Training(config, agents, unpack(state) if state else None)
                    for metrics in training:
                        tracker.record(config, metrics)  # first: it has every row that the results have
                        results.record(key, config, {**metrics, "checkpoint": pack(training.state())})
                        print(_line(metrics), flush=True)
                        if said := timed(config, metrics):
                            print(said, flush=True)
                except AgentError as error:
                    results.end(key, config, {"status": "failed", "message": str(error)})
                    print(f"failed: {error}")
    except KeyboardInterrupt:
        print(f"\ninterrupted; the same command goes on from the last evaluation; results in {pasted(folder)}")
        return INTERRUPTED
    print(f"theta in {pasted(results.checkpoint(key))}, {where(results.folder)}")
    return 0 if metrics["status"] in ENDED else FAILED


@contextlib.contextmanager
def _tracked(config: RunConfig, results: Results, tracking: Tracking) -> Iterator[Tracker]:
    """The run's tracker, told at the end what the run's row says, if there is one."""
    tracker = Tracker(results.folder, "run", tracking, results.about)
    tracker.start({config.key(): config.method})
    try:
        yield tracker
    finally:
        if row := results.row(config.key()):
            tracker.end(config, row, results.checkpoint(config.key()))
        tracker.close()


@contextlib.contextmanager
def agents_of(config: RunConfig, results: Results) -> Iterator[Agents]:
    """The agents of one run, in process (``actors`` = 0) or on actors that share this machine's CPUs."""
    if config.actors == 0:
        with terminable(), heard_in_time():
            yield InProcess(config)
        return
    import ray

    from raypfrl.federation.actors import AgentActor, OnActors
    from raypfrl.sweeps.cluster import connected

    with connected(None) as cpus:
        count = min(cpus, config.cohort) if config.actors == "auto" else config.actors
        start = AgentActor.options(num_cpus=min(1.0, cpus / count)).remote

        def say(line: str) -> None:
            print(line, flush=True)
            results.log(line)

        actors = [start() for _ in range(count)]
        yield OnActors(config, actors, start, say)
        for actor in actors:
            ray.kill(actor)


def _line(metrics: Mapping[str, Any]) -> str:
    if message := metrics.get("message"):
        return f"round {metrics['round']}: {metrics['status']}: {message}"
    shown = {name: metrics.get(name, math.nan) for name in ("before/return", "after/return", "after/success")}
    known = {name: value for name, value in shown.items() if not math.isnan(value)}  # not every population has a goal
    told = [f"round {metrics['round']}", *(f"{name} {value:.3f}" for name, value in known.items())]
    if metrics["env_steps"]:  # training's, in seconds of computing: those of several actors are added up
        told.append(f"{metrics['env_steps'] / metrics['kernel_seconds']:.3g} environment steps a second")
    return "  ".join(told)
