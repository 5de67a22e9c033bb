"""A real sweep on Ray and Tune: W&B's files against the result files, also when the driver is stopped or killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raypfrl.tracking.journal import Journal
from tests.tracking.conftest import inspect, last_summary, segments, wait_for
from tests.tracking.loopback import Loopback
from tests.tracking.test_offline import logged, outcomes, table

STUDIES = Path(__file__).parents[2] / "tune_configs"
SWEEP = """
from raypfrl.sweeps import Sweep
SWEEP = Sweep(
    base={"population": "gridworld", "oracle": "exact", "n": 2, "tau": 1, "evaluate": 1, "rounds": %d},
    grids=[{"method": ["exact", "first_order"]}],
    seeds=2,
)
"""


def tiny(folder: Path, rounds: int) -> Path:
    file = folder / "tiny.py"
    file.write_text(SWEEP % rounds)
    return file


def start(folder: Path, sweep: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "raypfrl.cli", "sweep", str(sweep), "--out", str(folder / "out")]
    return subprocess.Popen(
        [*command, "--cpus", "2"], stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "RAY_ADDRESS": "local"},
    )  # fmt: skip


def finish(process: subprocess.Popen[str], seconds: float = 120.0) -> str:
    out, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, out
    return out


@pytest.mark.ray
def test_every_trial_is_a_run(tmp_path: Path) -> None:
    out = finish(start(tmp_path, tiny(tmp_path, 3)))
    folder = tmp_path / "out"
    assert len(segments(folder)) == 4 + 1
    assert logged(folder) == outcomes(table(folder / "evaluations.csv"))
    runs = [next(r["run"] for r in inspect(segment) if r["type"] == "run") for segment in segments(folder)]
    points = {f"{m} seed={s}" for m in ("exact", "first_order") for s in (0, 1)}
    assert {run["display_name"] for run in runs} == {*points, "tiny summary"}
    for method in ("exact", "first_order"):
        assert len({run["run_group"] for run in runs if run["job_type"] == method}) == 1, "its seeds together"
    assert len({run["run_group"] for run in runs}) == 3
    for command in ("raypfrl report ", "tensorboard --logdir ", "wandb leet ", "raypfrl sync "):
        assert f"\n  {command}{folder}" in out
    assert list((folder / "tune").rglob("events.out.tfevents.*"))
    assert 0 < json.loads((folder / "sweep.json").read_text())["starts"][0]["tracking"] < 30


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_is_stopped_or_killed_has_it_all_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "out"
    process = start(tmp_path, tiny(tmp_path, 100))
    wait_for(lambda: (folder / "evaluations.csv").exists() and len(table(folder / "evaluations.csv")) > 20, 90)
    process.send_signal(number)
    process.communicate(timeout=60)
    wait_for(lambda: len(list(Journal(folder / "wandb" / "closed.jsonl").new())) >= len(segments(folder)) > 0)
    assert outcomes(table(folder / "evaluations.csv")).items() <= logged(folder).items()
    finish(start(tmp_path, tiny(tmp_path, 100)))
    assert logged(folder) == outcomes(table(folder / "evaluations.csv"))
    assert len({last_summary(inspect(segment)).get("trial") for segment in segments(folder)} - {None}) == 4


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("study", ["tiny", "curvature_bottleneck"])
def test_an_online_sweep_shows_the_same_history(tmp_path: Path, server: Loopback, study: str) -> None:
    """The second is the whole curvature study, of 70 trials."""
    finish(start(tmp_path, tiny(tmp_path, 3) if study == "tiny" else STUDIES / f"{study}.py"), 800)
    told = outcomes(table(tmp_path / "out" / "evaluations.csv"))
    sent = {
        (id.removeprefix(f"{study}-"), item["round"], name): value
        for id, run in server.runs.items()
        for item in map(json.loads, run["history"].values())
        for name, value in item.items()
        if name.startswith("m_adapt_")
    }
    assert sent == told
    trials = [id for id, run in server.runs.items() if run["jobType"] != "summary"]
    assert len(trials) == len(table(tmp_path / "out" / "trials.csv")) == len(server.runs) - 1
    assert all(sorted(set(server.rounds(id))) == server.rounds(id) for id in trials)
    assert {artifact["state"] for artifact in server.artifacts.values()} == {"COMMITTED"}
    assert all(run["summary"]["status"] == "finished" for run in server.runs.values())
    assert logged(tmp_path / "out") == told
