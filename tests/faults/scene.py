"""The small sweep that every fault meets, and what is compared afterwards."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import strikes

from raypfrl import RunConfig
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.results import Results, unpack

# Agent 1 has an actor of its own, and a trial lasts three rounds, each of them evaluated.
SWEEP = Sweep(
    base={
        "population": "gridworld", "oracle": "fused", "n": 3, "rounds": 3, "tau": 2, "m_in": 3, "m_h": 4, "m_out": 2,
        "m_eval": 8, "evaluate": 1, "actors": 2,
    },
    grids=[{"method": ["exact", "first_order"]}],
    seeds=1,
)  # fmt: skip
PATIENCE = 10.0  # seconds of round_timeout where an agent hangs: a loaded machine may take some for a round
TIMED = ("seconds", "kernel_seconds", "evaluation_seconds")


def values(folder: Path) -> dict[str, Any]:
    """Everything that a sweep has found, byte for byte; the wall times apart."""
    rows = csv.DictReader((folder / "trials.csv").read_text().splitlines())
    trials = [{name: cell for name, cell in row.items() if name not in TIMED} for row in rows]
    states = {path.name: unpack(path.read_bytes()) for path in (folder / "checkpoints").iterdir()}
    return {
        "trials": trials,
        "evaluations": (folder / "evaluations.csv").read_text(),
        "states": {
            name: {key: array.tobytes() for key, array in state.items() if key not in TIMED}
            for name, state in states.items()
        },
    }


def plan(**settings: Any) -> list[RunConfig]:
    return SWEEP.with_settings(settings).trials()


def launched(folder: Path, configs: list[RunConfig] | None = None, **options: Any) -> int:
    """Run the sweep with everything that can be struck in its place; the exit status."""
    from raypfrl.sweeps import recorder, trial
    from raypfrl.sweeps.launch import launch

    before = trial.Trial, recorder.Recorder
    trial.Trial, recorder.Recorder = strikes.StruckTrial, strikes.StruckRecorder  # type: ignore[misc]
    try:
        return launch(SWEEP.swept(), configs or plan(), Results(folder, "faults"), **options)
    finally:
        trial.Trial, recorder.Recorder = before  # type: ignore[misc]
