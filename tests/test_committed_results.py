"""The committed results can be had again: one trial of every sweep, run anew, gives the same bytes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from raypfrl import RunConfig, train
from raypfrl.sweeps.recorder import cost
from raypfrl.sweeps.results import EVALUATION_COLUMNS, _cell

RESULTS = Path(__file__).parent.parent / "analysis" / "results"
SWEEPS = sorted(path.parent for path in RESULTS.glob("*/sweep.json"))


def test_the_papers_sweeps_are_committed() -> None:
    paper = {"personalization", "adaptation_step_size", "curvature_bottleneck", "few_shot", "local_steps"}
    assert paper <= {folder.name for folder in SWEEPS}


@pytest.mark.parametrize("folder", SWEEPS, ids=lambda folder: folder.name)
def test_a_trial_run_anew_has_the_same_bytes(folder: Path) -> None:
    """The cheapest trial; every number of every evaluation, as text."""
    planned = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["trials"]
    key, config = min(((key, RunConfig(**settings)) for key, settings in planned.items()), key=lambda t: cost(t[1]))
    with (folder / "evaluations.csv").open(encoding="utf-8") as file:
        committed = [row for row in csv.DictReader(file) if row["trial"] == key]
    kept = {row["round"] for row in committed}
    again = [
        {name: _cell({**metrics, **row, "trial": key}.get(name)) for name in EVALUATION_COLUMNS}
        for metrics in train(config)
        for row in metrics["evaluations"]
        if str(metrics["round"]) in kept
    ]
    if config.population == "gridworld":  # theta has the same bytes everywhere; NumPy's exp and BLAS, which the exact
        again, committed = rounded(again), rounded(committed)  # evaluation uses, differ in the last bit between CPUs
    assert again == committed


def rounded(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The measured numbers to ten digits."""
    measured = ("return", "success", "final_distance")
    return [{**row, **{name: f"{float(row[name]):.10g}" for name in measured}} for row in rows]
