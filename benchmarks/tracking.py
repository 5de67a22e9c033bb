"""What tracking costs: a sweep of 60 trivial trials with it off and offline, in turns, on two CPUs.

    python -m benchmarks.tracking [--pairs 5] [--trials 60]

Prints the seconds a trial of every start, and the median of the pairs' differences: the extra wall time a trial with
W&B's files written, its process competing for the same CPUs. The target is 0.2 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SWEEP = """
from raypfrl.sweeps import Sweep
SWEEP = Sweep(
    base={{
        "population": "gridworld", "method": "exact", "oracle": "exact", "n": 2, "tau": 1, "rounds": 2, "evaluate": 1,
    }},
    seeds={trials},
)
"""


def seconds_a_trial(folder: Path, mode: str, trials: int) -> float:
    """One sweep in a process of its own, Ray's start and the wait for the last line included."""
    sweep, out = folder / "trivial.py", folder / mode
    sweep.write_text(SWEEP.format(trials=trials))
    command = [sys.executable, "-m", "raypfrl.cli", "sweep", str(sweep), "--cpus", "2", "--out", str(out)]
    subprocess.run([*command, "--tracking", mode], check=True, stdout=subprocess.DEVNULL)
    (start,) = json.loads((out / "sweep.json").read_text())["starts"]
    return float(start["wall"]) / trials


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of tracking a trial.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--trials", type=int, default=60)
    options = parser.parse_args()
    extra = []
    for pair in range(options.pairs):
        with tempfile.TemporaryDirectory() as folder:
            order = ("off", "offline") if pair % 2 == 0 else ("offline", "off")  # a drift of the machine cancels
            cost = {mode: seconds_a_trial(Path(folder), mode, options.trials) for mode in order}
        extra.append(cost["offline"] - cost["off"])
        print(f"off {cost['off']:.3f} s, offline {cost['offline']:.3f} s, extra {extra[-1]:+.3f} s a trial", flush=True)
    print(f"median of {options.pairs}: {statistics.median(extra):+.3f} s a trial over {options.trials} trials")


if __name__ == "__main__":
    main()
