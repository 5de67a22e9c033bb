"""When does exactness pay? Neural navigation, coarser: alpha and heterogeneity at equal trajectories, and what a step
of adaptation is worth there by its size.

Said before it was run (by `raypfrl sweep exactness_navigation --seeds 10,11,...,19`). 22 500 trajectories an agent: the
exact method with ``causal_value`` at m_h = 10, at m_h = 100 in a quarter of the rounds (22 200), and clipped at c = 1;
first order and FedAvg-PG in half as many rounds again. Compared as on the gridworld (``exactness``), after steps of
m_adapt = 20, 256 and 4096 trajectories, which is exact but for little, and before any.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

EXACT = {"method": "exact", "curvature": "causal_value"}

SWEEP = Sweep(
    base={
        "population": "navigation", "alpha": [0.5, 1.0, 2.0, 4.0], "spread": [1.0, 3.0], "tau": 5, "beta": 0.2,
        "m_adapt": (0, 20, 256, 4096), "evaluate": 500,
    },
    grids=[
        {**EXACT, "m_in": 10, "m_h": 10, "m_out": 10, "rounds": 150, "curvature_clip": [None, 1.0]},
        {**EXACT, "m_in": 10, "m_h": 100, "m_out": 10, "rounds": 37},
        {"method": ["first_order", "fedavg_pg"], "m_in": 10, "m_h": 0, "m_out": 10, "rounds": 225},
    ],
    seeds=10,
    against="alpha",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
