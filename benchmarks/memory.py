"""The memory of driver, trial and agents' actors over 500 rounds of one trial and over 200 trials of a sweep: flat.

    python benchmarks/memory.py [--out DIR]

Prints the median resident set of each kind of process in the first and in the last third of the time that it lived.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from chaos import RAYPFRL, processes

BASE = {"population": "gridworld", "method": "exact", "m_in": 10, "m_h": 10, "m_out": 10, "m_eval": 8}
PLANS = {
    "500 rounds": ({**BASE, "rounds": 500, "evaluate": 10, "actors": 2}, 1),
    "200 trials": ({**BASE, "rounds": 5, "evaluate": 5, "actors": 1}, 200),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(tempfile.mkdtemp(prefix="memory-")))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, (base, seeds) in PLANS.items():
        file = folder / f"{name.replace(' ', '_')}.py"
        file.write_text(f"from raypfrl.sweeps import Sweep\n\nSWEEP = Sweep(base={base}, seeds={seeds})\n")
        command = [*RAYPFRL, "sweep", str(file), "--out", str(folder / file.stem), "--tracking", "off"]
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        seen: dict[str, list[float]] = defaultdict(list)
        while driver.poll() is None:
            for pid, kind in [(driver.pid, "driver"), *processes(driver.pid)]:
                if resident := megabytes(pid):
                    seen[kind].append(resident)
            time.sleep(0.5)
        print(name, f"(status {driver.returncode})")
        for kind, values in seen.items():
            third = max(1, len(values) // 3)
            first, last = statistics.median(values[third // 2 : third]), statistics.median(values[-third:])
            print(f"  {kind:14} {first:6.1f} MB, at the end {last:6.1f} MB  ({len(values)} samples)")


def megabytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


if __name__ == "__main__":
    sys.exit(main())
