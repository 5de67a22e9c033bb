"""A small grid over alpha, beta, tau, m_in and m_h, to copy."""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={"population": "navigation", "method": "exact", "rounds": 50, "evaluate": 50, "curvature_clip": 1.0},
    grids=[{"alpha": [0.5, 1.0], "beta": [0.1, 0.2], "tau": [1, 5], "m_in": [10, 20], "m_h": [10, 100]}],
    seeds=3,
    against="m_h",
)

if __name__ == "__main__":
    run_file(__file__)
