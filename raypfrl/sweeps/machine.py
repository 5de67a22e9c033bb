"""What a sweep ran with and on, and how it divides the machine."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from raypfrl.config import RunConfig, SettingsError
from raypfrl.federation import splits
from raypfrl.oracles import NOISELESS, is_exact
from raypfrl.sweeps.source import git_commit, source

NEVER_HANG = {"exact", "fused", "table", "continuing"}  # oracles that compute, and step no environment
LONG = 5.0  # minutes; nobody asks where those of a shorter trial go
_PACKAGES = ("raypfrl", "ray", "torch", "gymnasium", "numpy", "numba", "wandb")


class Layout(NamedTuple):
    """How trials are placed: ``at_once`` trials side by side, each with ``actors`` agent actors of one CPU."""

    trials: int
    at_once: int
    actors: int
    agents: int

    def __str__(self) -> str:
        hosted = math.ceil(self.agents / max(self.actors, 1))
        where = (
            f"{self.actors} actor{'s' * (self.actors > 1)} of {hosted} agent{'s' * (hosted > 1)} each"
            if self.actors
            else "agents in the trial's own process"
        )
        return f"{self.trials} trial{'s' * (self.trials != 1)}, {self.at_once} at a time, {where}"


def layout(configs: Sequence[RunConfig], cpus: int) -> Layout:
    """Divide ``cpus`` among trials. ``auto`` gives a trial more actors where CPUs would be left over; else one, or none
    where nothing can hang: then one process is enough.

    Raises SettingsError where a trial asks for more than there is.
    """
    agents = max(config.cohort for config in configs)
    asked = {config.actors for config in configs}
    if len(asked) > 1:
        raise SettingsError("actors: give the whole sweep one value, so that trials can follow each other in them")
    wanted = asked.pop()
    actors = max(1, min(cpus // len(configs), agents)) if wanted == "auto" else wanted
    if wanted == "auto" and actors == 1 and all(map(_needs_no_actor, configs)):
        actors = 0
    if actors > cpus:
        raise SettingsError(
            f"actors = {actors}: a trial of {actors} actors with 1 CPU each needs {actors} CPUs and there "
            f"{'is' if cpus == 1 else 'are'} {cpus}; set actors to auto, or to {cpus} or less"
        )
    return Layout(len(configs), min(len(configs), cpus // max(actors, 1)), actors, agents)


def cost(config: RunConfig) -> int:
    """A trial's environment steps of training, which tell its length beforehand."""
    decisions = config.build_population().horizon + 1
    steps: int = config.letters.get("tau", 1) * config.letters.get("inner_steps", 1)
    return config.rounds * steps * config.cohort * sum(config.batches().values()) * decisions


def evaluation_share(config: RunConfig) -> float:
    """The share of a trial's environment steps that evaluation takes; 0 where the exact oracle judges and no adaptation
    step is sampled."""
    population, agents = config.build_population(), sum(map(len, splits(config).values()))
    judged = 0 if is_exact(population.train[0]) else config.m_eval * len(config.m_adapt)
    adapting = 0 if config.oracle in NOISELESS else sum(m for m in config.m_adapt if m != "exact")
    steps = config.times_evaluated() * agents * (judged + adapting) * (population.horizon + 1)
    training = 0 if config.oracle in NOISELESS else cost(config)
    return steps / (steps + training) if steps else 0.0


def announced(configs: Sequence[RunConfig]) -> str:
    """A line about the trials that step an environment more for evaluation than for training; empty for none."""
    dear = [config for config in configs if config.oracle not in NEVER_HANG and evaluation_share(config) > 0.5]
    if not dear:
        return ""
    most = max(dear, key=evaluation_share)
    return (
        f"evaluation takes {evaluation_share(most):.0%} of the environment steps of {len(dear)} trial"
        f"{'s' * (len(dear) > 1)}: lower m_eval = {most.m_eval}, or evaluate less often than now"
    )


def timed(config: RunConfig, metrics: Mapping[str, Any]) -> str:
    """A line about a trial whose evaluation takes most of some minutes, by its own clock at its second evaluation, the
    first after training; else empty. What is measured so far stands for the rest: episodes may still grow longer."""
    rounds = metrics["round"]
    if config.oracle in NEVER_HANG or metrics["status"] != "running" or rounds == 0:
        return ""
    if any(map(config.evaluated_after, range(1, rounds))):  # the third, or a later one
        return ""
    evaluating, training = metrics["evaluation_seconds"], metrics["kernel_seconds"]
    pace = metrics["seconds"] / (evaluating + training)  # agents work side by side: wall time is less than theirs
    minutes = pace * evaluating / 2 * config.times_evaluated() / 60
    whole = minutes + pace * training / rounds * config.rounds / 60
    if whole < LONG or minutes < whole / 2:
        return ""
    return (
        f"m_eval = {config.m_eval} on {config.population}: evaluation takes about {minutes:.0f} minutes of {whole:.0f}"
        ": lower m_eval, or evaluate less often"
    )


def check_compiler(configs: Sequence[RunConfig]) -> None:
    """Raise SettingsError where trials need compiled code, and numba is told to compile nothing."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") and any(c.oracle == "fused" for c in configs):
        raise SettingsError(
            "NUMBA_DISABLE_JIT is set, and the oracle fused is compiled: unset it, or set oracle to another one"
        )


def _needs_no_actor(config: RunConfig) -> bool:
    """Whether its agents cannot hang, end their process or be left out: no environment is stepped, no user's code."""
    return config.oracle in NEVER_HANG and not config.uses and not config.min_agents


def cpus_here() -> int:
    """The CPUs that this process may use: its affinity and its control group's quota, not the host's count."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, math.floor(int(quota) / int(period))))


def about(cpus: int) -> dict[str, Any]:
    """Versions, source and machine, for sweep.json."""
    return {
        "versions": versions(),
        "git_commit": git_commit(),
        "source": source(),
        "machine": {"system": platform.system(), "architecture": platform.machine(), "cpus": cpus},
    }


def versions() -> dict[str, str | None]:
    """Of Python and of every package that the numbers or the results' form depend on."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
