"""Table 1, shared representations (Xiong et al. 2025, PFedTD-Rep): agents whose values lie in one plane learn it
together, each with a head of its own.

To be looked at: the squared distance of the shared columns' span from the plane of the true values falls like 1 / n
where the heads' steps are small. Where they are not, what a head errs by, which nobody averages, goes into the
columns, and the distance falls more slowly than that or stops. ``raypfrl sweep table1/shared_representations``
learns; ``python tune_configs/table1/shared_representations.py measure [DIR]`` then measures, in this process, and
writes distances.csv into the sweep's folder DIR (default results/table1/shared_representations).
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

from raypfrl import RunConfig, SettingsError
from raypfrl.cli import run_file
from raypfrl.oracles.continuing import ContinuingOracle
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.results import Results, unpack
from raypfrl.sweeps.table import write

SWEEP = Sweep(
    base={
        "population": "garnet", "oracle": "table", "method": "fed_td_rep", "states": 5, "gamma": 0.5, "eps_p": 0.0,
        "eps_r": 1.0, "span": 2, "rank": 2, "n": [2, 4, 8], "tau": 2, "beta": 4.0, "tau_head": 5,
        "beta_head": [0.05, 0.2], "rounds": 300, "evaluate": 300, "m_adapt": (0,), "m_eval": 10,
    },
    seeds=5,
    against="n",
)  # fmt: skip

COLUMNS = ("beta_head", "n", "seed", "squared_distance")


def plane(config: RunConfig) -> Any:
    """An orthonormal basis (S A, rank) of the span of the true values, of the policy that all follow."""
    population, Q = config.build_population(), []
    for task in population.train:
        oracle = ContinuingOracle(task.mdp(), population.policy, population.gamma)  # type: ignore
        Q.append(oracle.action_values(population.initial()))
    return np.linalg.svd(np.stack(Q, -1))[0][:, : config.rank]


def squared_distance(Phi: Any, basis: Any) -> float:
    """Of the span of Phi (S A, rank) from that of the basis: the squared sine of the largest angle between them."""
    found = np.linalg.qr(Phi)[0]
    return float(np.linalg.norm(basis - found @ (found.T @ basis), 2) ** 2)


def measure(folder: Path) -> Path:
    """Write distances.csv, of every trial's end. Raises SettingsError where a trial is not finished."""
    results, rows = Results(folder, "table1/shared_representations"), io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(COLUMNS)
    for config in SWEEP.trials():
        if (state := results.saved_state(config.key())) is None or results.left([config]):
            raise SettingsError(f"{folder}: trial {config.key()} is not finished; raypfrl resume {folder}")
        Phi = unpack(state)["server/Phi"].reshape(-1, config.rank)
        table.writerow((config.beta_head, config.n, config.seed, squared_distance(Phi, plane(config))))
    write(folder / "distances.csv", rows.getvalue().encode())
    return folder / "distances.csv"


if __name__ == "__main__":
    if sys.argv[1:2] != ["measure"]:
        run_file(__file__)
    else:
        try:
            print(measure(Path(sys.argv[2] if len(sys.argv) > 2 else "results/table1/shared_representations")))
        except SettingsError as error:
            sys.exit(str(error))
