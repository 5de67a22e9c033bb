"""Table 1, ZO-APFPG and PfoPG: global-local mixing (APFL's, a reconstruction), first against zeroth order.

To be looked at: at equal rollouts the norm of the mean policy gradient at the agents' mixtures falls along first-order
gradients, and far more slowly along two-point zeroth-order ones, whose variance grows with the dimension. When a
trial of each had been seen, zeroth order at a twentieth of the step was added, and 300 rounds of first order.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

ROLLOUTS = {"m_in": 10, "m_h": 10, "m_out": 10}  # two directions of 30 a local step, as two of 15 pairs are
PAIRS = {"m_in": 1, "pairs": 15, "radius": 1.0}

SWEEP = Sweep(
    base={
        "population": "gridworld", "n": 4, "tau": 1, "alpha": 0.0, "evaluate": 10, "m_adapt": (0,),
        "diagnostics": True,
    },
    grids=[
        {"method": "mixing", **ROLLOUTS, "beta": 1.0, "beta_own": 1.0, "rounds": 400},
        {"method": "mixing_zeroth_order", **PAIRS, "beta": 1.0, "beta_own": 1.0, "rounds": 100},
        {"method": "mixing_zeroth_order", **PAIRS, "beta": 0.05, "beta_own": 0.05, "rounds": 100},
    ],
    seeds=5,
    against="method",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
