"""Few-shot personalization of unseen agents (Figure 2, right, and Figure 7), and each of them alone from scratch."""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={"population": "navigation", "alpha": 1.0, "beta": 0.2, "m_eval": 512},
    grids=[
        {
            "method": "first_order", "rounds": 150, "tau": 5, "m_in": 10, "m_out": 10, "evaluate": 150,
            "m_adapt": (0, 20, 50, 100, 200, 500),
        },
        {  # policy-gradient steps of batch 20; the last is the large-budget specialist
            "method": "independent", "participants": "held_out", "rounds": 200, "tau": 1, "m_in": 20, "m_h": 0,
            "m_out": 0, "evaluate": (1, 5, 25, 100, 200), "m_adapt": 0,
        },
    ],
    seeds=10,
    against="method",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
