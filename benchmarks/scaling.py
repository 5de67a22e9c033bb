"""How wall time grows with agents n, tau, m_h, hidden width, actors (cores) and trials: one setting at a time.

    python -m benchmarks.scaling [--json FILE]

All but trials are rounds of one run, the median of several after one that warms up. Trials are whole sweeps on Ray,
start included. ``per unit`` divides by what was varied, so a constant column means linear growth; for actors it
multiplies, so there it means that they share the work evenly.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ray

from raypfrl import RunConfig
from raypfrl.federation.actors import AgentActor, OnActors
from raypfrl.federation.server import Server
from raypfrl.federation.train import InProcess
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.launch import launch
from raypfrl.sweeps.results import Results

BASE: dict[str, Any] = {"population": "navigation", "method": "exact", "m_h": 100, "tau": 5}
VARIED: dict[str, Iterable[int]] = {
    "n": (6, 60, 600),
    "tau": (1, 5, 25),
    "m_h": (10, 100, 1000, 10_000),
    "hidden": (8, 32, 128, 512),
}
ROUNDS = 5


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows there too")
    path = parser.parse_args().json
    rows = [row for name, values in VARIED.items() for row in vary(name, values)]
    rows += on_cores() + over_trials()
    print(f"{'setting':10} {'value':>7} {'seconds':>10} {'per unit':>10}")
    for row in rows:
        count = 1 / row["value"] if row["setting"] == "actors" else row["value"]
        print(f"{row['setting']:10} {row['value']:7} {row['seconds']:10.4f} {row['seconds'] / count:10.6f}")
    if path:
        path.write_text(json.dumps(rows, indent=1) + "\n")


def vary(name: str, values: Iterable[int]) -> list[dict[str, Any]]:
    """Seconds of a round in process, for each value of one setting."""
    rows = []
    for value in values:
        config = RunConfig(**{**BASE, name: value})
        rows.append({"setting": name, "value": value, "seconds": median_round(Server(config, InProcess(config)))})
    return rows


def on_cores() -> list[dict[str, Any]]:
    """Seconds of a round of twelve agents at m_h = 1000 on one actor and on two."""
    config = RunConfig(**{**BASE, "n": 12, "m_h": 1000})
    rows = []
    with ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False):
        for count in (1, 2):
            actors = [AgentActor.remote() for _ in range(count)]
            seconds = median_round(Server(config, OnActors(config, actors)))
            rows.append({"setting": "actors", "value": count, "seconds": seconds})
            for actor in actors:
                ray.kill(actor)
    return rows


def over_trials() -> list[dict[str, Any]]:
    """Wall seconds of a sweep of short trials (20 rounds at m_h = 10), start included."""
    rows = []
    for count in (10, 100, 1000):
        sweep = Sweep(base={**BASE, "m_h": 10, "rounds": 20, "evaluate": 20}, seeds=count)
        with tempfile.TemporaryDirectory() as folder:
            results = Results(Path(folder, "trials"), "trials")
            start = time.perf_counter()
            launch(sweep.swept(), sweep.trials(), results, cpus=2)
            seconds = time.perf_counter() - start
        rows.append({"setting": "trials", "value": count, "seconds": seconds})
    return rows


def median_round(server: Server) -> float:
    """The median seconds of ``ROUNDS`` rounds after one that warms up."""
    server.run_round()
    return statistics.median(timed(server.run_round) for _ in range(ROUNDS))


def timed(work: Callable[[], object]) -> float:
    """Wall seconds of ``work``."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
