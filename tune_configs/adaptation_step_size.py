"""The adaptation step size alpha (Figure 1, right): at alpha = 0 the three methods coincide."""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "gridworld", "rounds": 80, "tau": 5, "beta": 0.3, "m_in": 10, "m_h": 10, "m_out": 10,
        "evaluate": 80,
    },
    grids=[{"alpha": [0.0, 0.25, 0.5, 1.0, 2.0, 3.0], "method": ["exact", "first_order", "fedavg_pg"]}],
    seeds=10,
    against="alpha",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
