"""Does exactness pay? Exact with its remedies, first order and FedAvg-PG at equal trajectories per agent.

A local step of the exact method samples 30 trajectories. The others get the same in all, either in as many steps with
larger batches or in half as many steps again with the same batches. Agents that do not learn are evaluated too.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

EXACT = {"method": "exact", "m_in": 10, "m_h": 10, "m_out": 10}
FAMILIES = [
    ({"population": "navigation", "alpha": 1.0, "beta": 0.2, "m_adapt": (0, 256)}, 150),
    ({"population": "gridworld", "alpha": 2.0, "beta": 0.3, "m_adapt": (0, "exact")}, 80),
]

SWEEP = Sweep(
    base={"tau": 5},
    grids=[
        grid
        for family, rounds in FAMILIES
        for grid in (
            {**family, **EXACT, "rounds": rounds, "evaluate": 10},
            {
                **family, **EXACT, "rounds": rounds, "evaluate": 10, "curvature": "causal_value",
                "curvature_clip": [None, 0.5, 1.0],
            },
            *(
                {
                    **family, "method": ["first_order", "fedavg_pg"], "m_in": m, "m_h": 0, "m_out": m,
                    "rounds": rounds * 15 // m, "evaluate": 150 // m,
                }
                for m in (15, 10)
            ),
        )
    ],
    seeds=30,
    against="population",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
