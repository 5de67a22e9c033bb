"""Personalization within federation (Figure 1, left, and Figure 6): the three methods on the gridworld."""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "gridworld", "rounds": 80, "tau": 5, "alpha": 2.0, "beta": 0.3,
        "m_in": 10, "m_h": 10, "m_out": 10, "evaluate": 4,
    },
    grids=[{"method": ["exact", "first_order", "fedavg_pg"]}],
    seeds=10,
    against="method",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
