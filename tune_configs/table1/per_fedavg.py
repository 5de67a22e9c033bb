"""Table 1, Per-FedAvg (Fallah et al. 2020): the norm of grad F on digits with a linear predictor, without noise.

To be looked at: it falls to 0 for the exact method and nearly so for the Hessian-free one, whose finite difference
leaves a residual of its own; the first order stops at a floor that is proportional to alpha while alpha is small.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "digits", "oracle": "exact", "method": ["exact", "first_order", "hessian_free"], "n": 4,
        "hidden": (), "own": 30, "decay": 0.2, "alpha": [0.01, 0.02, 0.04, 0.08], "beta": 0.3, "tau": 1,
        "rounds": 240, "evaluate": 20, "m_adapt": (0, "exact"), "diagnostics": True,
    },
    seeds=1,
    against="alpha",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
