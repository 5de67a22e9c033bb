"""How noisy H_hat v is: every estimator against m_h, at theta^0 and at parameters that FedAvg-PG has trained.

``raypfrl sweep tune_configs/curvature_noise.py`` trains them; ``python tune_configs/curvature_noise.py [DIR]`` then
measures, in this process, and writes noise.csv into the sweep's folder DIR (default results/curvature_noise).
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from raypfrl.config import RunConfig, SettingsError
from raypfrl.federation.agent import Agent, build_agent
from raypfrl.methods.curvature import ESTIMATORS
from raypfrl.policies import Vector
from raypfrl.streams import LocalStep
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.table import write

SWEEP = Sweep(
    base={"method": "fedavg_pg", "evaluate": 1000}, grids=[{"population": ["gridworld", "navigation"]}], seeds=10
)

M_H = (10, 20, 50, 100, 200, 500, 1000)
DRAWS = 4  # of g_out, for each agent
M_TRUTH = 200_000  # trajectories of the true product where there is no exact oracle: its error is 1/200 at m_h = 1000
COLUMNS = ("population", "parameters", "seed", "curvature", "m_h", "squared_error", "relative_error")


def noise(config: RunConfig, theta: Vector, batches: int) -> Iterator[tuple[str, int, float, float]]:
    """(curvature, m_h, squared error, relative error), means over the agents and their draws of v = g_out.

    The errors are ||H_hat v - hess J v||^2 and alpha^2 times that over ||v||^2: above 1 the curvature term's noise is
    larger than the outer gradient. ``batches`` is the round in the names of the batches.
    """
    agents = [build_agent(config, number) for number in config.agents()]
    errors: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for agent in agents:
        for draw in range(DRAWS):
            step = LocalStep(config.seed, agent.number, batches, draw)
            v = outer_gradient(config, agent, theta, step)
            if not v.any():
                continue  # no trajectory was rewarded: there is nothing to multiply by
            truth = true_product(agent, theta, v, LocalStep(config.seed, agent.number, batches, DRAWS + draw))
            for m_h in M_H:
                for name, estimator in ESTIMATORS.items():
                    error = float(((estimator(agent.oracle, theta, v, config.m_in, m_h, step) - truth) ** 2).sum())
                    relative = config.alpha**2 * error / float(v @ v)
                    errors.setdefault((name, m_h), []).append((error, relative))
    for (name, m_h), found in errors.items():
        squared, relative = np.mean(found, axis=0).tolist()
        yield name, m_h, squared, relative


def outer_gradient(config: RunConfig, agent: Agent, theta: Vector, step: LocalStep) -> Vector:
    """g_out of (7)."""
    g_in = agent.oracle.policy_gradient(theta, config.m_in, step.inner)
    return agent.oracle.policy_gradient(theta + config.alpha * g_in, config.m_out, step.outer)


def true_product(agent: Agent, theta: Vector, v: Vector, step: LocalStep) -> Vector:
    """hess J v: exact, or from very many trajectories of other batches."""
    if agent.judge is not agent.oracle:
        return agent.judge.hessian_vector_product(theta, v, 0, step.hessian)
    return ESTIMATORS["causal_value"](agent.oracle, theta, v, 1000, M_TRUTH, step)


def measure(folder: Path) -> Path:
    """Write noise.csv for the trials in a folder of results. Raises SettingsError where one is not finished."""
    results, rows = Results(folder, "curvature_noise"), io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(COLUMNS)
    for config in SWEEP.trials():
        initial, trained = config.build_population().initial(), results.theta(config)
        for number, (name, theta) in enumerate({"initial": initial, "trained": trained}.items()):
            for found in noise(config, theta, config.rounds + number):
                table.writerow((config.population, name, config.seed, *found))
        print(f"{config.population}, seed {config.seed}", flush=True)
    write(folder / "noise.csv", rows.getvalue().encode())
    return folder / "noise.csv"


if __name__ == "__main__":
    try:
        print(measure(Path(sys.argv[1] if len(sys.argv) > 1 else "results/curvature_noise")))
    except SettingsError as error:
        sys.exit(str(error))
