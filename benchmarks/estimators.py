"""Steps a second of the policy gradient (2) and the Hessian-vector product (3): fused, autodiff, and plain NumPy.

    python -m benchmarks.estimators [--json FILE] [--seconds S]

On the first agent of neural navigation, 360 parameters, horizon 20, in one process on one thread. A step is one
decision of one trajectory; its time covers the whole estimate, rollout included. The median of calls for S seconds
(at least one) each; seconds of the process, so that a busy machine disturbs little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch

from benchmarks.numpy_reference import NumpyReference
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.oracles.fused import FusedOracle
from raypfrl.populations import navigation
from raypfrl.streams import Purpose, Stream

BATCHES = (1, 10, 100, 1000, 10_000)
IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {
    "fused": FusedOracle,
    "autodiff": AutodiffOracle,
    "numpy": NumpyReference,
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each figure (0.5)")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):  # read when NumPy is loaded
        command = [sys.executable, "-m", "benchmarks.estimators", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})
    rows = [row for name in IMPLEMENTATIONS for row in measure(name, options.seconds)]
    print_table(rows)
    if options.json:
        report = {"machine": machine(), "seconds": options.seconds, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def measure(name: str, seconds: float) -> list[dict[str, Any]]:
    """Median steps a second of one implementation, for both estimators and all batch sizes."""
    population = navigation()
    oracle = IMPLEMENTATIONS[name](population.train[0], population.policy, population.gamma, population.horizon)
    theta = population.initial()
    v = np.random.default_rng(0).standard_normal(len(theta))
    stream = Stream(0, 0, 0, 0, Purpose.HESSIAN)
    questions: dict[str, Callable[[int], Any]] = {
        "gradient": lambda m: oracle.policy_gradient(theta, m, stream),
        "product": lambda m: oracle.hessian_vector_product(theta, v, m, stream),
    }
    rows = []
    for estimator, ask in questions.items():
        ask(1)  # compiles, or loads what is compiled
        for m in BATCHES:
            rate = m * (population.horizon + 1) / median_seconds(partial(ask, m), seconds)
            rows.append({"implementation": name, "estimator": estimator, "m": m, "steps_per_second": rate})
    return rows


def median_seconds(call: Callable[[], Any], seconds: float) -> float:
    """Of one call, over calls for so many seconds."""
    times: list[float] = []
    while sum(times) < seconds:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return statistics.median(times)


def print_table(rows: list[dict[str, Any]]) -> None:
    """Millions of steps a second, and how many times NumPy's that is."""
    rate = {(row["implementation"], row["estimator"], row["m"]): row["steps_per_second"] for row in rows}
    print("million steps a second   " + "".join(f"{name:>10}" for name in IMPLEMENTATIONS) + "  fused/numpy")
    for estimator in ("gradient", "product"):
        for m in BATCHES:
            rates = [rate[name, estimator, m] for name in IMPLEMENTATIONS]
            ratio = rate["fused", estimator, m] / rate["numpy", estimator, m]
            print(f"{estimator:10} m = {m:<9}" + "".join(f"{x / 1e6:11.4f}" for x in rates) + f"{ratio:12.1f}")


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        **{module.__name__: module.__version__ for module in (numba, np, torch)},
    }


def processor() -> str:
    """Its name, and its widest vectors where the system tells."""
    described = Path("/proc/cpuinfo")
    if not described.exists():
        return platform.processor()
    text = described.read_text()
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "")
    widest = next((flag for flag in ("avx512f", "avx2", "avx") if f" {flag} " in text), "sse")
    return f"{name} ({widest})"


if __name__ == "__main__":
    main()
