"""What a sweep ran with and on, and how it divides the machine."""

from __future__ import annotations

import math
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from raypfrl.config import RunConfig, SettingsError

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
    """Divide ``cpus`` among trials. ``auto`` gives a trial one actor, and more where CPUs would be left over.

    Raises SettingsError where a trial asks for more than there is.
    """
    agents = max(config.cohort for config in configs)
    asked = {config.actors for config in configs}
    if len(asked) > 1:
        raise SettingsError("actors: give the whole sweep one value, so that trials can follow each other in them")
    wanted = asked.pop()
    actors = max(1, min(cpus // len(configs), agents)) if wanted == "auto" else wanted
    if actors > cpus:
        raise SettingsError(
            f"actors = {actors}: a trial of {actors} actors with 1 CPU each needs {actors} CPUs and there "
            f"{'is' if cpus == 1 else 'are'} {cpus}; set actors to auto, or to {cpus} or less"
        )
    return Layout(len(configs), min(len(configs), cpus // max(actors, 1)), actors, agents)


def cpus_here() -> int:
    """The CPUs that this process may use: its affinity and its control group's quota, not the host's count."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, math.floor(int(quota) / int(period))))


def about(cpus: int) -> dict[str, Any]:
    """Versions, git commit and machine, for sweep.json."""
    return {
        "versions": versions(),
        "git_commit": git_commit(),
        "machine": {"system": platform.system(), "architecture": platform.machine(), "cpus": cpus},
    }


def versions() -> dict[str, str | None]:
    """Of Python and of every package that the numbers or the results' form depend on."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def git_commit() -> str | None:
    """The commit of the source that runs, with + where it has changes; None where it is no git checkout."""
    folder = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"],
            cwd=folder, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
