"""What ``raypfrl doctor`` shows: what is installed, what is there, and what is wrong, each with a remedy."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

from raypfrl.config import SettingsError
from raypfrl.oracles.fused.specialise import cache_folder
from raypfrl.sweeps.machine import cpus_here, versions
from raypfrl.sweeps.source import git_commit, source
from raypfrl.tracking import Tracking
from raypfrl.tracking.server import Trouble, api_key, check_server, server_url

GIGABYTE = 2**30
PROCESS = 0.4  # GB of memory that one of Ray's processes with torch loaded takes
DISK = 1.0  # GB; results are far smaller, Ray's own logs are not


def examine(folder: Path) -> tuple[list[str], list[str]]:
    """What was found, one line each; and what is wrong. ``folder``: where results shall go."""
    lines, troubles = list[str](), list[str]()
    _packages(lines, troubles)
    _machine(lines, troubles)
    _disk(folder, lines, troubles)
    _ray(lines, troubles)
    _tracking(lines, troubles)
    return lines, troubles


def _packages(lines: list[str], troubles: list[str]) -> None:
    found = versions()
    lines.append("versions     " + ", ".join(f"{name} {found[name] or 'missing'}" for name in found))
    commit = git_commit() or "unknown (no git checkout)"
    lines.append(f"source       {Path(__file__).parent}, {source()}, commit {commit}")
    for text in requires("raypfrl") or []:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            have = version(wanted.name)
        except ImportError:
            have = ""
        if not have or not wanted.specifier.contains(have, prereleases=True):
            troubles.append(f"{wanted} is needed and there is {have or 'none'}: pip install -c constraints.txt -e .")


def _machine(lines: list[str], troubles: list[str]) -> None:
    cpus = cpus_here()
    lines.append(f"cpus         {cpus} for this process, of {os.cpu_count()}; load {os.getloadavg()[0]:.1f}")
    try:
        table = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    except OSError:  # not Linux
        return
    free, total = (int(table[name].split()[0]) * 1024 / GIGABYTE for name in ("MemAvailable", "MemTotal"))
    lines.append(f"memory       {free:.1f} GB free of {total:.1f} GB")
    if free < 2 * cpus * PROCESS:  # a trial's own process and one actor for each CPU
        troubles.append(f"memory: {free:.1f} GB may not hold {cpus} trials side by side; use --cpus to run fewer")


def _disk(folder: Path, lines: list[str], troubles: list[str]) -> None:
    places = {"results": folder.absolute(), "cache": cache_folder(), "Ray's logs": Path(tempfile.gettempdir())}
    for name, place in places.items():
        there = next(path for path in (place, *place.parents) if path.exists() or path.is_symlink())
        if not there.exists():
            troubles.append(f"{name}: {there} is a link that leads nowhere; choose another folder")
            continue
        free = shutil.disk_usage(there).free / GIGABYTE
        lines.append(f"{name:12} {place}{'' if there == place else ' (not there yet)'}, {free:.1f} GB free")
        if not there.is_dir():
            troubles.append(f"{name}: {there} is a file; choose another folder")
        elif not os.access(there, os.W_OK):
            troubles.append(f"{name}: no write access to {there}; choose another folder")
        elif free < DISK:
            troubles.append(f"{name}: {free:.2f} GB free at {there}; make room, or choose another folder")


def _ray(lines: list[str], troubles: list[str]) -> None:
    from raypfrl.sweeps.cluster import cluster_address, connected

    if not cluster_address():
        lines.append("ray          a local one for each sweep (RAY_ADDRESS names no cluster), on 127.0.0.1 only")
        return
    from raypfrl.sweeps.nodes import check, listed

    try:
        with connected(None):
            lines += [f"node         {node}" for node in listed()]
            check(Path("results").absolute(), own_disk=True)
    except SettingsError as error:
        troubles.append(str(error))
    if os.environ.get("RAY_AUTH_MODE") != "token":
        troubles.append("RAY_AUTH_MODE is not token: who reaches the cluster's ports can run code; see docs/cluster.md")


def _tracking(lines: list[str], troubles: list[str]) -> None:
    try:
        key = api_key()
        mode = Tracking().resolved() or ("online" if key else "offline")
        lines.append(f"W&B          {mode}, {server_url()}, {'a key' if key else 'no key'} is configured")
        if mode == "online":
            check_server()
    except SettingsError as error:
        troubles.append(str(error))
    except Trouble as trouble:
        troubles.append(f"W&B: {trouble}; sweeps run and are tracked offline until then")
