"""Table 1, FedNPG (Yang et al. 2024): agents with rewards of their own on one kernel, values solved exactly.

To be looked at: the return's distance to that of the soft optimum of the averaged reward falls geometrically on the
star and, with tracking, on the ring, down to rounding; on the star by 1 - eta omega a round or faster (the source's
rate without a network, Cen et al. 2022), on the ring no faster than the star. Without tracking the ring stops at a
floor, and agents that nobody mixes with stop further off.
"""

from raypfrl.cli import run_file
from raypfrl.sweeps import Sweep

SWEEP = Sweep(
    base={
        "population": "garnet", "oracle": "continuing", "method": "fed_npg", "n": 8, "eps_p": 0.0, "eps_r": 1.0,
        "omega": 0.3, "rounds": 150, "evaluate": 1, "m_adapt": (0,),
    },
    grids=[
        {"topology": ["star", "ring"], "eta": [0.1, 0.2, 0.3]},
        {"topology": ["ring", "none"], "eta": 0.3, "tracking": False},
    ],
    seeds=1,
    against="topology",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
