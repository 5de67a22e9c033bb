"""Episodes of one agent before and after its adaptation step, from a trial's checkpoint, as rows to draw."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from raypfrl.config import RunConfig, SettingsError
from raypfrl.federation.agent import build_agent
from raypfrl.oracles import covering
from raypfrl.policies import Vector
from raypfrl.streams import Purpose, Stream
from raypfrl.sweeps.results import Results, opened, unpack, write

COLUMNS = ("goal_x", "goal_y", "phase", "episode", "h", "x", "y")


def roll_out(folder: Path, trial: str | None, agent: int | None, m_adapt: int, episodes: int) -> Path:
    """Write ``rollouts.csv`` to a folder of results: ``episodes`` of an agent (by default the first of those held
    out) at a trial's theta (by default the first finished one) and at theta + alpha g, g from m_adapt trajectories.

    Both phases use the streams of evaluation. Raises SettingsError where there is no such trial or agent, or where the
    population's observations are no positions in the plane.
    """
    results = opened(folder)
    config = _config(results, trial)
    tasks = config.build_population().tasks
    chosen = config.n if agent is None else agent
    if config.population != "navigation":
        raise SettingsError(
            f"{folder}: its episodes are on {config.population}; rollouts are drawn for navigation only"
        )
    for name, number in (("--m-adapt", m_adapt), ("--episodes", episodes)):
        if not 1 <= number < 2**24:
            raise SettingsError(f"{name} {number}: give a number from 1 to {2**24 - 1}")
    if "fused" not in covering(tasks[0], config.build_population().policy):
        raise SettingsError(f"{folder}: the fused oracle, which draws the episodes, does not cover its policy")
    if not 0 <= chosen < len(tasks):
        raise SettingsError(f"--agent {chosen}: there are the agents 0 to {len(tasks) - 1}")
    state = results.saved_state(config.key())
    if state is None:
        raise SettingsError(f"{results.checkpoint(config.key())}: not there; run the sweep in this folder first")
    theta = unpack(state)["theta"]
    oracle = build_agent(config, chosen).oracle
    g = oracle.policy_gradient(theta, m_adapt, Stream(config.seed, chosen, config.rounds, m_adapt, Purpose.ADAPT))
    rows = io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(COLUMNS)
    goal = tasks[chosen].env_kwargs["goal"]
    for phase, at in (("before", theta), ("after", theta + config.alpha * g)):
        table.writerows((*map(_short, goal), phase, *row) for row in _positions(config, chosen, at, episodes))
    write(results.folder / "rollouts.csv", rows.getvalue().encode())
    return results.folder / "rollouts.csv"


def _positions(config: RunConfig, agent: int, theta: Vector, episodes: int) -> list[tuple[Any, ...]]:
    """(episode, h, x, y) for h = 0..H; the same start positions whatever theta."""
    from raypfrl.oracles.fused import FusedOracle

    population = config.build_population()
    oracle = FusedOracle(population.tasks[agent], population.policy, population.gamma, population.horizon)
    stream = Stream(config.seed, agent, config.rounds, 0, Purpose.EVALUATE)
    observations = np.asarray(oracle.trajectories(theta, episodes, stream).observations)
    return [
        (episode, h, *map(_short, position))
        for episode, path in enumerate(observations)
        for h, position in enumerate(path)
    ]


def _config(results: Results, trial: str | None) -> RunConfig:
    finished = [row["trial"] for row in results.trials.rows if row["status"] == "finished"]
    shared = [key for key in finished if results.about["trials"][key]["method"] != "independent"]
    if trial is None and shared:
        trial = shared[0]
    if trial not in shared:
        raise SettingsError(f"{results.folder}: no finished trial {trial or 'with a shared theta'} in it")
    return RunConfig(**results.about["trials"][trial])


def _short(number: float) -> str:
    return f"{number:.4f}"
