"""Table 1, FedPG (Labbi et al. 2026): the return that one policy for all costs, without noise.

To be looked at: the gap between what agents return with the shared policy and with one of their own, learned by the
same steps alone, is 0 for equal agents, grows with the share of their MDPs that is their own, and is no smaller for
more agents.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "garnet", "oracle": "continuing", "method": ["fedavg_pg", "independent"], "n": [2, 4, 16],
        "states": 5, "draw": [0, 1, 2], "tau": 5, "beta": 5.0, "rounds": 60, "evaluate": 60, "m_adapt": (0,),
    },
    grids=[{"eps_p": eps, "eps_r": eps} for eps in (0.0, 0.2, 0.4)],
    seeds=1,
    against="n",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
