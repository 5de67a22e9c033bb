"""The committed results can be had again: one trial of every sweep, run anew, gives the same bytes, or, where the last
bits are the CPU's, the same numbers."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own import offered

from analysis.frames import packed
from raypfrl import RunConfig, train
from raypfrl.sweeps.machine import cost
from raypfrl.sweeps.results import evaluation_rows
from raypfrl.sweeps.table import cell

RESULTS = Path(__file__).parent.parent / "analysis" / "results"
SWEEPS = sorted(path.parent for path in RESULTS.rglob("sweep.json"))


def test_the_papers_sweeps_are_committed() -> None:
    paper = {"personalization", "adaptation_step_size", "curvature_bottleneck", "few_shot", "local_steps"}
    assert paper <= {folder.name for folder in SWEEPS}


@pytest.mark.parametrize("folder", SWEEPS, ids=lambda folder: folder.relative_to(RESULTS).as_posix())
def test_a_trial_run_anew_has_the_same_bytes(folder: Path) -> None:
    """The cheapest trial; every number of every evaluation, as text where its bytes are promised."""
    about = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
    with offered(about["sweep"]):
        compare(folder, about["trials"])


def compare(folder: Path, planned: dict[str, dict[str, Any]]) -> None:
    """The cheapest of the planned trials beside what is committed of it."""
    key, config = min(((key, RunConfig(**settings)) for key, settings in planned.items()), key=lambda t: cost(t[1]))
    table = folder / "evaluations.csv"
    with table.open(encoding="utf-8") if table.is_file() else gzip.open(packed(table), "rt", encoding="utf-8") as file:
        committed = [row for row in csv.DictReader(file) if row["trial"] == key]
    kept = {row["round"] for row in committed}
    again = [
        {name: cell(value) for name, value in row.items()}
        for metrics in train(config)
        for row in evaluation_rows(key, metrics)
        if str(metrics["round"]) in kept
    ]
    if config.oracle == "fused" and config.population == "navigation":  # all of it has the same bytes on every CPU
        assert again == committed
        return
    # On another CPU NumPy's exp, BLAS and torch round the last bit otherwise. A fused theta keeps its bytes, and so
    # does its drift, but not its exact evaluation; the float64 of other oracles promises neither (docs/reliability.md).
    measured = ["return", "success", "final_distance", *(["drift"] if config.oracle != "fused" else [])]
    assert [others(row, measured) for row in again] == [others(row, measured) for row in committed]
    for name in measured:
        anew, was = ([float(row[name] or "nan") for row in rows] for rows in (again, committed))
        np.testing.assert_allclose(anew, was, rtol=1e-10, atol=1e-13, err_msg=name)


def others(row: dict[str, str], measured: list[str]) -> dict[str, str]:
    """What is no measured number, or an empty one."""
    return {name: text for name, text in row.items() if name not in measured or not text}
