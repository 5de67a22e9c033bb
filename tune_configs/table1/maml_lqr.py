"""Table 1, MAML-LQR (Toso et al. 2024): adapted costs on systems that differ more and more, and steps that are too
large.

To be looked at: every iterate keeps every system stable, whatever step size was asked for; what is refused is
counted. The cost after adaptation above each system's own optimum grows with how far the systems differ, and is
smallest for the exact method, then first order, then the shared optimum. From the costs of rollouts alone it is the
same within noise.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={"population": "lqr", "evaluate": 20},
    grids=[
        {"method": ["maml_lqr", "maml_lqr_first_order", "fedavg_pg"], "spread": [0.02, 0.05, 0.1, 0.15]},
        {"method": "maml_lqr", "spread": 0.1, "beta": [0.15, 0.3]},
        {"method": "maml_lqr", "spread": 0.1, "oracle": "zeroth_order", "m_in": 400, "m_h": 400, "m_out": 400},
    ],
    seeds=1,
    against="spread",
)

if __name__ == "__main__":
    run_file(__file__)
