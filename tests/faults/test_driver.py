"""The driver itself: killed, told to end, without room on its disk; then ``raypfrl resume``."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scene import SWEEP, launched, plan, values
from strikes import order

from raypfrl.federation import train
from raypfrl.sweeps.results import Results, pack

HERE = Path(__file__).parent
SECONDS = 120  # bounded: a driver that hangs fails its test


def command(orders: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``raypfrl`` in a process of its own, with everything that can be struck in its place."""
    environment = {**os.environ, "PYTHONPATH": str(HERE), "WANDB_MODE": "disabled"}
    return subprocess.run(
        [sys.executable, str(HERE / "strikes.py"), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    file = tmp_path / "small.py"
    sweep = f"Sweep(base={SWEEP.base}, grids={SWEEP.grids}, seeds=1)"
    file.write_text(f"from raypfrl.sweeps import Sweep\n\nSWEEP = {sweep}\n")
    return file


@pytest.fixture(scope="module")
def quiet(orders: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The sweep undisturbed, one process after the other in this one: no actor, no driver to lose."""
    folder = tmp_path_factory.mktemp("quiet") / "sweep"
    results = Results(folder, "quiet")
    results.begin(plan(), {})
    for config in plan():
        training = train(config)
        for metrics in training:
            results.record(config.key(), config, {**metrics, "checkpoint": pack(training.state())})
    return values(folder)


@pytest.mark.parametrize(
    ("strike", "status"),
    [
        ("before.2.kill", -signal.SIGKILL),
        pytest.param("after.2.kill", -signal.SIGKILL, marks=pytest.mark.slow),
        ("after.1.term", 130),
    ],
)
def test_a_driver_that_ends_early_is_resumed(
    quiet: dict[str, Any], orders: Path, tmp_path: Path, sweep_file: Path, strike: str, status: int
) -> None:
    order(orders, strike)
    folder = tmp_path / "sweep"
    stopped = command(orders, "sweep", sweep_file, "--out", folder)
    assert stopped.returncode == status, stopped.stderr
    assert "Traceback" not in stopped.stderr
    json.loads((folder / "sweep.json").read_text())
    assert all(text.endswith("\n") for text in (path.read_text() for path in folder.glob("*.csv")))

    sweep_file.unlink()  # the folder says it all
    resumed = command(orders, "resume", folder)
    assert resumed.returncode == 0, resumed.stderr
    assert values(folder) == quiet


def test_a_full_disk_stops_the_run_in_one_line_and_leaves_whole_files(
    quiet: dict[str, Any], two_cpus: None, orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order(orders)
    folder = tmp_path / "sweep"
    written = Results.record

    def full(self: Results, key: str, config: Any, metrics: Any) -> None:
        if metrics["round"] == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(folder / "evaluations.csv"))
        written(self, key, config, metrics)

    monkeypatch.setattr(Results, "record", full)
    with pytest.raises(OSError, match="No space left on device"):
        launched(folder)
    monkeypatch.undo()
    assert launched(folder) == 0
    assert values(folder) == quiet
