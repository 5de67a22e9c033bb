"""The paper's remaining claims on the gridworld: communication against local work, drift, heterogeneity, a specialist.

Said before it was run. (a) Floats sent until F first reaches 0.7, the exact method, tau from 1 to 40 at fixed beta tau
and at fixed beta: they fall with tau only while beta tau grows (R3); and the drift in the rounds after that is the same
for every tau at fixed beta tau. (b) The mean of ||grad J_i - grad f||^2 along runs, as goals spread from one corner:
never above G_J^2 (Remark 1), whatever the spread. (c) Agents that learn alone, by FedAvg-PG's budget, beside F: a
specialist dominates any shared initialisation in the tabular family.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={"population": "gridworld", "alpha": 2.0, "m_adapt": (0, "exact"), "diagnostics": True},
    grids=[
        *(
            {"method": "exact", "tau": tau, "beta": 1.5 / tau, "rounds": 120, "evaluate": 2}
            for tau in (1, 2, 5, 10, 20, 40)
        ),
        *(
            {"method": "exact", "tau": tau, "beta": 0.3, "rounds": 600 // tau, "evaluate": max(1, 10 // tau)}
            for tau in (1, 2, 10, 20, 40)
        ),
        {"method": "exact", "tau": 5, "beta": 0.3, "rounds": 80, "evaluate": 10, "spread": [0.0, 0.25, 0.5, 0.75]},
        {"method": "independent", "tau": 5, "beta": 0.3, "rounds": 80, "evaluate": 10},
    ],
    seeds=10,
    against="tau",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
