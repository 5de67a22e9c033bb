"""Local work: tau against beta, at a fixed drift budget beta tau and at a fixed beta, K tau local steps in all."""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

STEPS = 400  # K tau, so that every point costs the same trajectories

SWEEP = Sweep(
    base={"population": "gridworld", "method": ["exact", "first_order"], "alpha": 2.0, "evaluate": 10_000},
    grids=[
        *({"tau": tau, "rounds": STEPS // tau, "beta": 1.5 / tau} for tau in (1, 2, 5, 10, 20)),
        *({"tau": tau, "rounds": STEPS // tau, "beta": 0.3} for tau in (1, 2, 10, 20)),
    ],
    seeds=10,
    against="tau",
)

if __name__ == "__main__":
    run_file(__file__)
