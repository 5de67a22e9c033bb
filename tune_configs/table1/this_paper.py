"""Table 1, this paper: the norm of grad F against rounds, exact and first order, without noise.

To be looked at: it falls to 0 along the exact direction; the first order stops at a floor that doubles with alpha while
alpha is small.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "bandit", "oracle": "exact", "method": ["exact", "first_order"],
        "alpha": [0.025, 0.05, 0.1, 0.2, 0.4], "rounds": 100, "evaluate": 5, "diagnostics": True,
    },
    seeds=1,
    against="alpha",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
