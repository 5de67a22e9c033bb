"""Environment steps a second of the generic path, gradient (2) and Hessian product (3), beside what they are made of.

    python -m benchmarks.environments [--json FILE] [--m M] [--seconds S]

A step is a decision that happened, under theta^0 of a tanh network with 32 hidden units. ``bare`` replays the same
actions in one environment, seeded like ours and nothing else; ``vector`` is gymnasium's own sync vector of 64 with a
NumPy policy, autoreset, rollouts alone; ``lockstep`` is the generic path as it was (``benchmarks.lockstep``). One
process, one thread, seconds of the process; medians of calls for S seconds each, interleaved, so that what else runs on
the machine disturbs all alike.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks.estimators import ONE_THREAD, machine
from benchmarks.lockstep import LockstepOracle
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.oracles.episodes import LANES, made, named
from raypfrl.populations import Population, Variant, environments
from raypfrl.populations.spaces import Actions
from raypfrl.streams import Purpose, Stream

HORIZONS = {
    "CartPole-v1": 499, "Pendulum-v1": 199, "Acrobot-v1": 199, "MountainCarContinuous-v0": 199, "HalfCheetah-v5": 199,
}  # fmt: skip


@dataclass(frozen=True)
class Plain:
    """An id as gymnasium makes it, which is what the former path ran on."""

    env_id: str
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--m", type=int, default=100, help="trajectories of a batch (100)")
    parser.add_argument(
        "--envs",
        nargs="+",
        choices=HORIZONS,
        default=list(HORIZONS),
        help="gymnasium ids (all; HalfCheetah needs the extra mujoco)",
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each figure (3)")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):  # read when NumPy is loaded
        command = [sys.executable, "-m", "benchmarks.environments", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})
    rows = [row for env_id in options.envs for row in measure(env_id, options.m, options.seconds)]
    print_table(rows)
    if options.json:
        report = {"machine": machine(), "m": options.m, "seconds": options.seconds, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def measure(env_id: str, m: int, seconds: float) -> list[dict[str, Any]]:
    """Median steps a second of every way."""
    population = environments("x", env_id, [Variant()], gamma=0.99, horizon=HORIZONS[env_id])
    arguments = (population.train[0], population.policy, population.gamma, population.horizon)
    ours, before = AutodiffOracle(*arguments), LockstepOracle(Plain(env_id), *arguments[1:])
    theta = population.initial()
    v = np.random.default_rng(0).standard_normal(len(theta))
    streams = (Stream(0, 0, k, 0, Purpose.HESSIAN) for k in itertools.count())

    def steps_of(oracle: Any, question: str) -> Callable[[], int]:
        def ask() -> int:
            spent = oracle.meter.env_steps
            stream = next(streams)
            if question == "gradient":
                oracle.policy_gradient(theta, m, stream)
            else:
                oracle.hessian_vector_product(theta, v, m, stream)
            return int(oracle.meter.env_steps - spent)

        return ask

    ways: dict[str, Callable[[], int]] = {
        "gradient": steps_of(ours, "gradient"),
        "product": steps_of(ours, "product"),
        "lockstep gradient": steps_of(before, "gradient"),
        "lockstep product": steps_of(before, "product"),
        "bare": lambda: 0,
        "vector": vector(population, theta),
    }
    replay = replayed(population, ours, theta, m)
    ways["bare"] = lambda: next(replay)
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways.values():
        way()  # torch's first call costs more
    while min(map(sum_of, spent.values())) < seconds:
        for name, way in ways.items():
            if sum_of(spent[name]) < seconds:
                start = time.process_time()
                steps = way()
                taken = time.process_time() - start
                spent[name] += [taken, steps / taken]
    return [
        {"env_id": env_id, "way": name, "steps_per_second": statistics.median(figures[1::2])}
        for name, figures in spent.items()
    ]


def sum_of(figures: list[float]) -> float:
    """The seconds among (seconds, rate, seconds, rate, ...)."""
    return sum(figures[0::2])


def replayed(population: Population, oracle: AutodiffOracle, theta: Any, m: int) -> Iterator[int]:
    """Our own episodes, again and again, with nothing but reset and step."""
    stream = Stream(0, 0, 0, 0, Purpose.HESSIAN)
    batch, names = oracle.sample(theta, m, stream), named(stream, population.policy, population.horizon)
    seeds = [seed for seed, _ in itertools.islice(names, m)]
    env = made(population.train[0])
    actions = Actions(env.action_space).given(batch.actions)
    episodes = [list(part) for part in np.split(actions, batch.lengths.cumsum()[:-1])]
    while True:
        for seed, episode in zip(seeds, episodes, strict=True):
            env.reset(seed=seed)
            for action in episode:
                env.step(action)
        yield len(batch.rewards)


def vector(population: Population, theta: Any) -> Callable[[], int]:
    """Rollouts of gymnasium's own vector of 64 environments, 200 times."""
    task, policy = population.train[0], population.policy
    envs = gymnasium.make_vec(task.env_id, LANES, "sync", **task.env_kwargs)
    seen = envs.reset(seed=0)[0]
    rng = np.random.default_rng(0)

    def run() -> int:
        nonlocal seen
        for _ in range(200):
            action = policy.act(theta, seen, policy.noise(rng, (LANES,)))
            seen = envs.step(Actions(envs.single_action_space).given(action))[0]
        return 200 * LANES

    return run


def print_table(rows: list[dict[str, Any]]) -> None:
    """Thousands of steps a second, how many times lockstep's that is, and how many times the bare time it takes."""
    rate = {(row["env_id"], row["way"]): row["steps_per_second"] for row in rows}
    print(f"{'thousand steps a second':40}{'ours':>8}{'lockstep':>10}{'times':>8}{'bare':>8}{'cost':>7}{'vector':>9}")
    for env_id, question in itertools.product(dict.fromkeys(row["env_id"] for row in rows), ("gradient", "product")):
        ours, before = rate[env_id, question], rate[env_id, f"lockstep {question}"]
        bare, vectored = rate[env_id, "bare"], rate[env_id, "vector"]
        print(
            f"{env_id + ' ' + question:40}{ours / 1e3:8.1f}{before / 1e3:10.1f}{ours / before:8.1f}{bare / 1e3:8.1f}"
            f"{bare / ours:7.2f}{vectored / 1e3:9.1f}"
        )


if __name__ == "__main__":
    main()
