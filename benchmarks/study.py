"""The whole curvature study, end to end, and the time that the plain NumPy approach would need for it.

    python -m benchmarks.study [--json FILE]

Runs tune_configs/curvature_bottleneck.py at ten seeds with Ray, Tune and offline tracking into a temporary folder, and
shows where its wall time went. The NumPy approach's time is extrapolated: every batch of the study's local steps at
that batch size's measured speed (process seconds of one thread, spread over as many cores as the study had).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.estimators import ONE_THREAD, median_seconds
from benchmarks.numpy_reference import NumpyReference
from raypfrl import RunConfig
from raypfrl.populations import navigation
from raypfrl.streams import Purpose, Stream
from raypfrl.sweeps import load
from raypfrl.sweeps.machine import cost, cpus_here

STUDY = Path(__file__).parent.parent / "tune_configs" / "curvature_bottleneck.py"


def main() -> None:
    """Print both times and the split, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):  # read when NumPy is loaded
        command = [sys.executable, "-m", "benchmarks.study", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})
    configs = load(STUDY).trials()
    split, command = run()
    numpy = sum(numpy_seconds(config) for config in configs) / cpus_here()
    report = {"env_steps": sum(map(cost, configs)), "command": command, "numpy": numpy, "split": split}
    print(f"{report['env_steps'] / 1e9:.2f} thousand million environment steps, {len(configs)} trials")
    print(f"raypfrl: {command:.0f} s; NumPy approach, extrapolated: {numpy:.0f} s; ratio {numpy / command:.0f}")
    for name, seconds in split.items():
        print(f"  {name:12} {seconds:7.1f} s  {seconds / split['wall']:5.0%}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def run() -> tuple[dict[str, float], float]:
    """The study's split of wall time, from its sweep.json, and the seconds of the command as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "study")
        start = time.perf_counter()
        command = [sys.executable, "-m", "raypfrl.cli", "sweep", str(STUDY), "--out", str(out), "--tracking", "offline"]
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - start
        return json.loads((out / "sweep.json").read_text())["starts"][0], seconds


def numpy_seconds(config: RunConfig) -> float:
    """Seconds of one core that the NumPy approach needs for a run's local steps."""
    if config.method == "exact":
        step = sum(_call("policy_gradient", m) for m in (config.m_in, config.m_out))
        step += _call("hessian_vector_product", config.m_h)
    else:
        step = _call("policy_gradient", config.m_in + config.m_h + config.m_out)
    return config.rounds * config.tau * config.cohort * step


_measured: dict[tuple[str, int], float] = {}


def _call(estimator: str, m: int) -> float:
    """Median process seconds of one estimate from m trajectories."""
    if (estimator, m) not in _measured:
        population = navigation()
        oracle = NumpyReference(population.train[0], population.policy, population.gamma, population.horizon)  # type: ignore[arg-type]
        theta, v = population.initial(), np.ones(population.policy.dim)
        arguments: tuple[Any, ...] = (theta, v) if estimator == "hessian_vector_product" else (theta,)
        stream = Stream(0, 0, 0, 0, Purpose.HESSIAN)
        _measured[estimator, m] = median_seconds(lambda: getattr(oracle, estimator)(*arguments, m, stream), 1.0)
    return _measured[estimator, m]


if __name__ == "__main__":
    main()
