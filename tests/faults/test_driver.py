"""The driver itself: killed, told to end, without room on its disk; then ``raypfrl resume``."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scene import SWEEP, launched, values
from strikes import order

from benchmarks.chaos import descendants
from raypfrl.sweeps.results import Results

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]
HERE = Path(__file__).parent
IDLE = 120  # seconds without any work of its own: a driver that hangs fails its test, a slow machine does not


def command(orders: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``raypfrl`` in a session of its own, with everything that can be struck in its place."""
    environment = {**os.environ, "WANDB_MODE": "disabled", **more}
    words = [sys.executable, str(HERE / "strikes.py"), *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        driver = subprocess.Popen(words, env=environment, stdout=out, stderr=err, text=True, start_new_session=True)
        status = ended(driver)
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(words, status, out.read(), err.read())


def ended(driver: subprocess.Popen[str] | subprocess.Popen[bytes]) -> int:
    """Wait for a driver's end; its status. Fails for one that has done nothing at all for ``IDLE`` seconds."""
    worked, since = 0, time.monotonic()
    while driver.poll() is None:
        ticks = sum(map(int, Path(f"/proc/{driver.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        if ticks > worked:
            worked, since = ticks, time.monotonic()
        elif time.monotonic() > since + IDLE:
            driver.kill()
            pytest.fail("the driver hangs")
        time.sleep(0.1)
    assert driver.returncode is not None
    return driver.returncode


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    file = tmp_path / "small.py"
    sweep = f"Sweep(base={SWEEP.base}, grids={SWEEP.grids}, seeds=1)"
    file.write_text(f"from raypfrl.sweeps import Sweep\n\nSWEEP = {sweep}\n")
    return file


@pytest.mark.parametrize(
    ("strike", "status"),
    [
        ("before.2.kill", -signal.SIGKILL),
        pytest.param("after.2.kill", -signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("row.3.kill", -signal.SIGKILL, marks=pytest.mark.slow),
        ("after.1.group", 130),
        pytest.param("after.1.term", 130, marks=pytest.mark.slow),
        pytest.param("after.1.impatient", 130, marks=pytest.mark.slow),
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
    assert ("the same command goes on from their checkpoints" in stopped.stdout) == (status == 130)
    json.loads((folder / "sweep.json").read_text())
    assert all(text.endswith("\n") for text in (path.read_text() for path in folder.glob("*.csv")))

    sweep_file.unlink()  # the folder says it all
    resumed = command(orders, "resume", folder)
    assert resumed.returncode == 0, resumed.stderr
    assert values(folder) == quiet


def test_a_run_in_process_takes_sigterm_like_ctrl_c(tmp_path: Path) -> None:
    long = ["rounds=100000", "evaluate=5", "n=2", "oracle=exact", "tau=1"]
    settings = [word for setting in long for word in ("--set", setting)]
    process = subprocess.Popen(
        [sys.executable, "-m", "raypfrl.cli", "run", "gridworld", "exact", "--actors", "0", "--tracking", "off",
         *settings, "--out", str(tmp_path / "out")], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("round 0")
    process.terminate()
    told, _ = process.communicate()
    assert process.returncode == 130
    assert "interrupted; the same command goes on" in told


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


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, of 128 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="to mount a small disk needs root")
def test_a_disk_that_is_really_full(quiet: dict[str, Any], orders: Path, disk: Path, sweep_file: Path) -> None:
    order(orders)
    stopped = command(orders, "sweep", sweep_file, "--out", disk / "sweep")
    assert stopped.returncode == 1, stopped.stderr
    assert "No space left on device" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert all(path.read_text().endswith("\n") for path in (disk / "sweep").glob("*.csv") if path.stat().st_size)

    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    assert command(orders, "resume", disk / "sweep").returncode == 0
    assert values(disk / "sweep") == quiet


@pytest.mark.slow
def test_memory_pressure(quiet: dict[str, Any], orders: Path, tmp_path: Path, sweep_file: Path) -> None:
    """An agent that takes 8 GB where Ray lets the machine have 3 GB more than it uses now."""
    table = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (int(table[name].split()[0]) / 2**20 for name in ("MemTotal", "MemAvailable"))
    if free < 12:
        pytest.skip(f"{free:.0f} GB of memory are free, and 12 are needed")
    order(orders, "agent.1.memory")
    environment = {
        "RAY_memory_usage_threshold": f"{1 - (free - 3) / total:.3f}", "RAY_memory_monitor_refresh_ms": "100",
    }  # fmt: skip
    done = command(orders, "sweep", sweep_file, "--out", tmp_path / "sweep", **environment)
    assert done.returncode == 0, done.stderr
    assert not list(orders.iterdir()), "the strike did not happen"
    assert "their process was killed because memory ran out" in (tmp_path / "sweep" / "log.txt").read_text()
    assert values(tmp_path / "sweep") == quiet


@pytest.mark.slow
def test_a_worker_that_dies_as_ray_starts_does_not_hang_the_driver(
    quiet: dict[str, Any], orders: Path, tmp_path: Path, sweep_file: Path
) -> None:
    """With Ray's default settings the driver would wait for that worker for ever."""
    order(orders)
    driver = subprocess.Popen(
        [sys.executable, str(HERE / "strikes.py"), "sweep", str(sweep_file), "--out", str(tmp_path / "sweep")],
        env={**os.environ, "WANDB_MODE": "disabled"},
    )  # fmt: skip
    while not (young := [pid for pid in descendants(driver.pid) if _is_worker(pid)]):
        assert driver.poll() is None
    os.kill(young[0], signal.SIGKILL)
    assert ended(driver) == 0
    assert values(tmp_path / "sweep") == quiet


def _is_worker(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return any(word.endswith(b"default_worker.py") for word in words[:4])  # the raylet's own words have it later
    except OSError:
        return False
