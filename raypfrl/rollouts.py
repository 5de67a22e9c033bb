"""Episodes of one agent before and after its adaptation step, and trained alone from scratch: a film, rows to draw."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from raypfrl.config import RunConfig, SettingsError
from raypfrl.federation import Training, build_agent
from raypfrl.film import film
from raypfrl.oracles import covering
from raypfrl.policies import MLPSoftmax, Vector
from raypfrl.populations import Population, Simulated
from raypfrl.streams import Purpose, Stream
from raypfrl.sweeps.results import Results, opened, unpack
from raypfrl.sweeps.table import write
from raypfrl.text import pasted

FILMED = 3  # episodes
COLUMNS = ("goal_x", "goal_y", "phase", "episode", "h", "x", "y")


def roll_out(folder: Path, trial: str | None, agent: int | None, m_adapt: int, episodes: int) -> Iterator[str]:
    """Write episodes of an agent (by default the first of those held out) with what a trial (by default the first
    finished one) has for it, before and after m_adapt trajectories, to its folder of results; what was written, or
    why something was not.

    ``rollouts.gif`` is a film of the first ``FILMED``, where the environment renders. ``rollouts.csv`` has the paths,
    where these are positions in the plane with a goal; and where the folder's plan has the same seed of ``independent``
    for that agent, a third phase of the agent trained from scratch with m_adapt trajectories, or the few more that its
    batches make.

    All phases use the streams of evaluation. Raises SettingsError where there is no such trial or agent, or where
    neither can be written.
    """
    results = opened(folder)
    config = _config(results, trial)
    population = config.build_population()
    chosen = (*config.splits()["held_out"], 0)[0] if agent is None else agent
    for name, number in (("--m-adapt", m_adapt), ("--episodes", episodes)):
        if not 1 <= number < 2**24:
            raise SettingsError(f"{name} {number}: give a number from 1 to {2**24 - 1}")
    if not 0 <= chosen < len(population.tasks):
        raise SettingsError(f"--agent {chosen}: there are the agents 0 to {len(population.tasks) - 1}")
    state = results.saved_state(config.key())
    if state is None:
        raise SettingsError(
            f"{folder}: no checkpoint of trial {config.key()}; `raypfrl resume {pasted(folder)}` runs it"
        )
    server, one = Training(config, state=unpack(state)).server, build_agent(config, chosen)
    call = server.call(chosen)
    phases = {
        phase: one.personal(server.round, call.down, call.kept, m) for phase, m in (("before", 0), ("after", m_adapt))
    }
    paths = _in_the_plane(population, chosen)
    if paths:
        alone = _alone(results, config, chosen)
        scratch = {"from scratch": _from_scratch(alone, chosen, m_adapt)} if alone else {}
        rows = _rows(config, chosen, {**phases, **scratch}, episodes)
        write(results.folder / "rollouts.csv", rows.encode())
        yield str(results.folder / "rollouts.csv")
    stream = Stream(config.seed, chosen, config.rounds, 0, Purpose.EVALUATE)
    try:
        pictures = film(population, chosen, phases, stream, min(episodes, FILMED))
    except SettingsError as why:
        if not paths:
            raise
        yield str(why)
        return
    write(results.folder / "rollouts.gif", pictures)
    yield str(results.folder / "rollouts.gif")


def _in_the_plane(population: Population, agent: int) -> bool:
    """Whether what the agent sees is a position in the plane, in which it has a goal, and compiled."""
    task, policy = population.tasks[agent], population.policy
    goal = task.env_kwargs.get("goal", ()) if isinstance(task, Simulated) else ()
    return isinstance(policy, MLPSoftmax) and policy.inputs == len(goal) == 2 and "fused" in covering(task, policy)


def _rows(config: RunConfig, agent: int, phases: Mapping[str, Vector], episodes: int) -> str:
    """The text of ``rollouts.csv``."""
    rows = io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(COLUMNS)
    goal = config.build_population().tasks[agent].env_kwargs["goal"]  # type: ignore[union-attr]
    for phase, theta in phases.items():
        table.writerows((*map(_short, goal), phase, *row) for row in _positions(config, agent, theta, episodes))
    return rows.getvalue()


def _alone(results: Results, config: RunConfig, agent: int) -> RunConfig | None:
    """The folder's plan for training the agent alone with the same seed, if it has one."""
    for settings in results.about["trials"].values():
        if settings["method"] == "independent" and settings["seed"] == config.seed:
            alone = RunConfig(**settings)
            if agent in alone.agents() and alone.population == config.population:
                return alone
    return None


def _from_scratch(config: RunConfig, agent: int, trajectories: int) -> Vector:
    """theta_i of an agent that learns alone, after the first round that brings it to so many trajectories."""
    server = Training(config).server
    while server.spent.trajectories < trajectories * len(config.agents()):
        server.run_round()
    return server.kept[agent]["theta"]


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
    if (trial is not None or not finished) and trial not in finished:
        raise SettingsError(f"{results.folder}: no finished trial{f' {trial}' if trial else ''} in it")
    return RunConfig(**results.about["trials"][trial or finished[0]])


def _short(number: float) -> str:
    return f"{number:.4f}"
