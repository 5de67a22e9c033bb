"""Settings drawn from spaces, to copy: as many points as ``samples`` says; with ``--search optuna`` each is looked for
where the earlier ones of its method did well, so that methods can be compared at their best."""

from ray import tune

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={"population": "navigation", "rounds": 50, "evaluate": 50, "curvature_clip": 1.0},
    grids=[
        {
            "method": ["exact", "first_order"],
            "alpha": tune.uniform(0.1, 3.0),
            "beta": tune.loguniform(0.01, 1.0),
            "tau": tune.choice([1, 5, 10]),
        }
    ],
    seeds=3,
    samples=20,
    against="alpha",
)

if __name__ == "__main__":
    run_file(__file__)
