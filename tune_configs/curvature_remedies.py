"""The curvature bottleneck with its remedies: estimator and clip against the Hessian batch m_h, and FedAvg-PG."""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

ESTIMATORS = ["paper", "causal", "causal_baseline", "causal_value"]
SWEEP = Sweep(
    base={
        "population": "navigation", "rounds": 150, "tau": 5, "alpha": 1.0, "beta": 0.2, "m_in": 10, "m_out": 10,
        "m_adapt": (0, 256), "m_eval": 512, "evaluate": 150,
    },
    grids=[
        {"method": "exact", "curvature": ESTIMATORS, "m_h": [10, 50, 100, 200, 500, 1000]},
        {"method": "exact", "curvature": ESTIMATORS, "m_h": [10, 50, 100, 200, 500], "curvature_clip": 1.0},
        {"method": "exact", "curvature": ESTIMATORS, "m_h": 10, "curvature_clip": [0.25, 0.5]},
        {"method": "fedavg_pg", "m_h": 10},
    ],
    seeds=30,
    against="m_h",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
