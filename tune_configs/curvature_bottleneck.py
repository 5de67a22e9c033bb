"""The curvature bottleneck (Figure 2, left): the exact method against its Hessian batch m_h, and FedAvg-PG."""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "navigation", "rounds": 150, "tau": 5, "alpha": 1.0, "beta": 0.2, "m_in": 10, "m_out": 10,
        "m_adapt": (0, 256), "m_eval": 512, "evaluate": 25,
    },
    grids=[
        {"method": "exact", "m_h": [10, 50, 100, 200, 500, 1000]},
        {"method": "fedavg_pg", "m_h": 10},
    ],
    seeds=10,
    against="m_h",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
