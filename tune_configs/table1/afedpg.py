"""Beside Table 1, AFedPG (Lan et al. 2025) and PersA-FL's rule: three agents as fast as ever, and one ever slower.

To be looked at: by time T the server has made sum_i floor(T / t_i) steps, where one that waits has made floor(T /
max t): what is returned after the same time falls for those that wait, and hardly for those that do not.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

T = 48  # units of time
SLOWEST = (1, 2, 4, 8, 16)

SWEEP = Sweep(
    base={
        "population": "gridworld", "oracle": "exact", "n": 4, "tau": 1, "alpha": 2.0, "evaluate": 1000,
        "m_adapt": (0, "exact"),
    },
    grids=[
        {"method": "afedpg", "beta": 0.3, "clock": "events", "task_times": (1.0, 1.0, 1.0, float(slowest)),
         "rounds": 3 * T + T // slowest}
        for slowest in SLOWEST
    ] + [
        {"method": "exact", "beta": 1.0, "beta_server": 0.25, "clock": "events",
         "task_times": (1.0, 1.0, 1.0, float(slowest)), "rounds": 3 * T + T // slowest}
        for slowest in SLOWEST
    ] + [
        {"method": method, "beta": beta, "rounds": T // slowest}
        for method, beta in (("afedpg", 0.3), ("exact", 1.0)) for slowest in SLOWEST
    ],
    seeds=1,
    against="method",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
