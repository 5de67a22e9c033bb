"""Table 1, pMeta-RL (Wang et al. 2022; its penalty is reconstructed): personal tabular policies held near a shared
one.

To be looked at: without noise the shared policy's and the personal ones' returns settle, for the squared distance as
for the divergence; the smaller lambda, the further the personal policies are ahead. 300 rounds in the place of 100,
since a trial of 100 had been seen not to settle.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "gridworld", "oracle": "exact", "method": "moreau", "n": 4, "tau": 1, "rounds": 300,
        "evaluate": 15, "m_adapt": (0, "exact"), "prox_steps": 10, "prox_beta": 0.5,
    },
    grids=[{"penalty": ["l2", "kl"], "lam": lam, "beta": 0.5 / lam} for lam in (0.03, 0.1, 0.3)],
    seeds=1,
    against="lam",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
