"""Table 1, beside pMeta-RL: pFedMe (Dinh et al. 2020), where the Moreau envelope's optimum is known in closed form.

To be looked at: for every lambda the shared w ends at the mean of the c_i weighted by a_i lambda / (a_i + lambda),
and the personal ones at the proximal points of that, so both returns lie on the curves of the formula.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "quadratic", "oracle": "exact", "method": "moreau", "tau": 1, "beta": 0.3, "rounds": 100,
        "evaluate": 50, "prox_steps": 60,
    },
    grids=[{"lam": lam, "prox_beta": 1.0 / (lam + 2)} for lam in (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)],
    seeds=1,
    against="lam",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
