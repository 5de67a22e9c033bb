"""When does exactness pay? Gridworld: methods at equal trajectories over alpha, budget, heterogeneity, share of m_h.

Said before it was run (by `raypfrl sweep exactness --seeds 10,11,...,24`: seeds that chose nothing). A local step of
the exact method samples 30 trajectories, one of first order or FedAvg-PG 20, so that these make 3 rounds where it makes
2; the budgets are rounds 40, 80, 160 and 240 of the exact method. F of exact with its best unbiased estimator
(``causal_value``), and of the same with its curvature term clipped at c = 1, minus F of first order, and of FedAvg-PG:
the mean over fifteen seeds, with its 95 % interval by Student's t, paired by seed; for training agents (F) and for
unseen ones. Exactness pays where the interval lies above zero. Beside it stands ||grad F|| where first order rests, for
Corollary 2's floor proportional to alpha.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

ALPHAS = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
SPREADS = [0.0, 0.5, 1.0]  # one goal for all agents, half of the border, all of it
EXACT = {"method": "exact", "curvature": "causal_value", "rounds": 240, "evaluate": (40, 80, 160)}
OTHERS = {"m_in": 10, "m_h": 0, "m_out": 10, "rounds": 360, "evaluate": (60, 120, 240)}

SWEEP = Sweep(
    base={
        "population": "gridworld", "alpha": ALPHAS, "spread": SPREADS, "tau": 5, "beta": 0.3, "m_adapt": (0, "exact"),
        "diagnostics": True,
    },
    grids=[
        {**EXACT, "m_in": 10, "m_h": 10, "m_out": 10, "curvature_clip": [None, 1.0]},
        {**OTHERS, "method": ["first_order", "fedavg_pg"]},
        {**EXACT, "m_in": 12, "m_h": 6, "m_out": 12, "spread": 1.0},
        {**EXACT, "m_in": 7, "m_h": 16, "m_out": 7, "spread": 1.0},
    ],
    seeds=15,
    against="alpha",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
