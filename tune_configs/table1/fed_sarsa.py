"""Table 1, FedSARSA (Zhang et al. 2024): how far the shared values are from those that each agent's SARSA would end at
alone, against the number of agents and how much of their MDPs is their own.

To be looked at: for equal agents the mean squared distance falls like 1 / n, the speedup. For others it stops at a gap
that grows with what is their own, is there without noise too, and does not vanish with n. ``raypfrl sweep
table1/fed_sarsa`` learns; ``python tune_configs/table1/fed_sarsa.py measure [DIR]`` then measures, in this process, and
writes distances.csv into the sweep's folder DIR (default results/table1/fed_sarsa).
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import numpy as np

from raypfrl import RunConfig, SettingsError, Training
from raypfrl.cli import run_file
from raypfrl.oracles.continuing import ContinuingOracle
from raypfrl.policies import Vector
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.table import write

SWEEP = Sweep(
    base={
        "population": "garnet", "oracle": "table", "method": "fed_sarsa", "states": 5, "gamma": 0.5, "tau": 10,
        "beta": 0.5, "temperature": 1.0, "n": [1, 2, 4, 8, 16], "rounds": 40, "evaluate": 40, "m_adapt": (0,),
        "m_eval": 10,
    },
    grids=[{"eps_p": eps, "eps_r": eps} for eps in (0.0, 0.2, 0.4)],
    seeds=5,
    against="n",
)  # fmt: skip

COLUMNS = ("eps", "n", "seed", "squared_distance")


def own_values(config: RunConfig) -> Vector:
    """Q_i = Q_i^pi, pi = softmax(Q_i / temperature), of every agent's own MDP, shape (n, S A)."""
    population, found = config.build_population(), []
    for task in population.train:
        oracle = ContinuingOracle(task.mdp(), population.policy, population.gamma)  # type: ignore
        Q = np.zeros(population.policy.dim)
        for _ in range(100):  # a contraction at this temperature
            Q = oracle.action_values(Q / config.temperature)
        found.append(Q)
    return np.stack(found)


def measure(folder: Path) -> Path:
    """Write distances.csv: mean_i ||theta - Q_i||^2 of every trial's end, and, with an empty seed, of the end of the
    same learning without noise. Raises SettingsError where a trial is not finished."""
    results, rows = Results(folder, "table1/fed_sarsa"), io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(COLUMNS)
    for config in SWEEP.trials():
        own, ends = own_values(config), {str(config.seed): results.theta(config)}
        if config.seed == 0:
            ends[""] = without_noise(config)
            print(f"eps = {config.eps_p:g}, n = {config.n}", flush=True)
        for seed, theta in ends.items():
            table.writerow((config.eps_p, config.n, seed, ((theta - own) ** 2).sum(-1).mean()))
    write(folder / "distances.csv", rows.getvalue().encode())
    return folder / "distances.csv"


def without_noise(config: RunConfig) -> Vector:
    """The theta that the rounds end at where every transition counts by how often it is made."""
    server = Training(config.model_copy(update={"oracle": "continuing"})).server
    for _ in range(config.rounds):
        server.run_round()
    return server.theta


if __name__ == "__main__":
    if sys.argv[1:2] != ["measure"]:
        run_file(__file__)
    else:
        try:
            print(measure(Path(sys.argv[2] if len(sys.argv) > 2 else "results/table1/fed_sarsa")))
        except SettingsError as error:
            sys.exit(str(error))
