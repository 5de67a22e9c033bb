"""A 60-trial study under random kills against a quiet one: the tables must be the same, wall times apart.

    python benchmarks/chaos.py [--seconds 4] [--seed 0] [--out DIR]

Every few seconds one process of the running sweep is killed by SIGKILL, drawn at random: an agents' actor or a trial's
process (or an idle worker), or, one time in ten, the driver, after which ``raypfrl resume`` goes on.
"""

from __future__ import annotations

import argparse
import collections
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RAYPFRL = [sys.executable, "-m", "raypfrl.cli"]
SWEEP = """
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "navigation", "rounds": 60, "tau": 2, "m_in": 5, "m_out": 5, "m_eval": 32, "m_adapt": (0, 16),
        "evaluate": 10, "horizon": 20, "actors": 1,
    },
    grids=[{"method": "exact", "m_h": [10, 50, 100, 200, 400]}, {"method": "fedavg_pg", "m_h": 10}],
    seeds=10,
)
"""
TIMED = ("seconds",)
STARTS = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="mean time between two kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(tempfile.mkdtemp(prefix="chaos-")))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "chaos.py"
    file.write_text(SWEEP)
    begin = time.perf_counter()
    subprocess.run(sweep(file, options.out / "quiet"), stdout=subprocess.DEVNULL, check=True)
    quiet = time.perf_counter() - begin
    begin = time.perf_counter()
    killed, starts = disturbed(file, options.out / "chaos", options.seconds, random.Random(options.seed))
    chaos = time.perf_counter() - begin
    same = all(values(options.out / "quiet" / name) == values(options.out / "chaos" / name) for name in
               ("trials.csv", "evaluations.csv"))  # fmt: skip
    print(f"quiet {quiet:.0f} s; with kills {chaos:.0f} s, {starts} starts")
    print("killed: " + ", ".join(f"{count} {what}" for what, count in killed.most_common()))
    print("the same values" if same else "OTHER VALUES")
    return 0 if same else 1


def sweep(file: Path, out: Path) -> list[str]:
    return [*RAYPFRL, "sweep", str(file), "--out", str(out), "--tracking", "off"]


def disturbed(file: Path, out: Path, seconds: float, rng: random.Random) -> tuple[collections.Counter[str], int]:
    """Run and resume until all trials are there; what was killed, and how many starts it took."""
    killed: collections.Counter[str] = collections.Counter()
    for start in range(1, STARTS + 1):
        command = (
            [*RAYPFRL, "resume", str(out), "--tracking", "off"] if (out / "sweep.json").exists() else sweep(file, out)
        )
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while driver.poll() is None:
            time.sleep(rng.expovariate(1 / seconds))
            if prey := processes(driver.pid):
                busy = [process for process in prey if process[1] != "idle worker"] or prey
                pid, what = (driver.pid, "driver") if rng.random() < 0.1 else rng.choice(busy)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed[what] += 1
        if driver.returncode == 0:
            return killed, start
    raise SystemExit(f"not finished after {STARTS} starts")


def processes(driver: int) -> list[tuple[int, str]]:
    """Ray's workers under a driver: (pid, what it is)."""
    kinds = {"AgentHost": "agents' actor", "ResourceTrainable": "trial", "Trial": "trial", "IDLE": "idle worker"}
    found = []
    for pid in descendants(driver):
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        kind = kinds.get(title.removeprefix("ray::").split(".")[0].strip())
        if kind is not None:
            found.append((pid, kind))
    return found


def descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [deeper for child in children for deeper in (int(child), *descendants(int(child)))]


def values(table: Path) -> list[dict[str, str]]:
    with table.open(newline="") as file:
        return [{name: cell for name, cell in row.items() if name not in TIMED} for row in csv.DictReader(file)]


if __name__ == "__main__":
    sys.exit(main())
