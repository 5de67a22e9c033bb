"""Agents, trials and drivers that can be struck at a given round, in real processes.

A strike is an order: a file ``<where>.<round>.<what>`` in the folder that STRIKES names. Whoever comes by first at that
place and round takes the file away and carries the order out, so it happens once, whatever is repeated afterwards;
an order of ``always-<what>`` stays. Nothing of this is known to the package.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import ray

from raypfrl import RunConfig
from raypfrl.federation import Call, Evaluation, Update
from raypfrl.federation.actors import AgentHost
from raypfrl.sweeps import recorder, trial
from raypfrl.sweeps.recorder import Recorder
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.trial import Trial

FOLDER = "STRIKES"
AGENT = 1  # the agent whose actor is struck


def order(folder: Path, *strikes: str) -> None:
    """Write down what shall happen: ``agent.2.kill`` and the like."""
    for old in folder.iterdir():
        old.unlink()
    for strike in strikes:
        (folder / strike).touch()


def strike(where: str, round: int) -> None:
    """Carry out the orders for this place and round."""
    for path in Path(os.environ[FOLDER]).glob(f"{where}.{round}.*"):
        what = path.name.split(".")[2]
        if not what.startswith("always-"):
            try:
                path.unlink()
            except FileNotFoundError:
                continue
        _carry_out(what.removeprefix("always-"))


def _carry_out(what: str) -> None:
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "node":  # a worker's parent is its node's raylet
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    elif what in ("hang", "cut"):  # who ordered a cut waits for the order to be gone
        time.sleep(3600)
    elif what == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    elif what == "group":  # as timeout, systemd and containers do
        os.killpg(0, signal.SIGTERM)
    elif what == "impatient":  # Ctrl-C, and again
        for _ in range(3):
            os.killpg(0, signal.SIGINT)
            time.sleep(0.1)
    elif what == "memory":
        hoard = [np.ones(2**24) for _ in range(64)]  # 128 MiB each
        time.sleep(60 + len(hoard))
    else:
        raise ValueError(what)


class StruckHost(AgentHost):
    """Struck when the work of a round is done and not yet sent: as far into a round as can be lost."""

    def answers(self, config: RunConfig, calls: list[Call], round: int, phase: int) -> list[Update]:
        updates = super().answers(config, calls, round, phase)
        if AGENT in [call.agent for call in calls]:
            strike("agent", round)
        return updates

    def evaluations(self, config: RunConfig, calls: list[Call], round: int) -> list[Evaluation]:
        evaluations = super().evaluations(config, calls, round)
        if AGENT in [call.agent for call in calls]:
            strike("evaluation", round)
        return evaluations


StruckActor: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(StruckHost)


class StruckTrial(Trial):
    """Struck between an evaluation and its report."""

    host = StruckActor

    def step(self) -> dict[str, Any]:
        metrics = super().step()
        strike("trial", metrics["round"])
        return metrics


class StruckRecorder(Recorder):
    """The driver, struck before and after it writes an evaluation down."""

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        strike("before", result["round"])
        super().on_trial_result(iteration, trials, trial, result)
        strike("after", result["round"])


def struck_end(self: Results, key: str, config: RunConfig, metrics: Mapping[str, Any]) -> None:
    """The driver, struck between a trial's last checkpoint and its row."""
    strike("row", metrics["round"])
    _end(self, key, config, metrics)


_end = Results.end


def main(arguments: Sequence[str]) -> NoReturn:
    """The command ``raypfrl`` with everything that can be struck in its place."""
    from raypfrl.cli import program

    trial.Trial, recorder.Recorder = StruckTrial, StruckRecorder  # type: ignore[misc]
    Results.end = struck_end  # type: ignore[method-assign]
    program(arguments)


if __name__ == "__main__":
    import strikes  # by this name, under which Ray's workers can import it too

    strikes.main(sys.argv[1:])
