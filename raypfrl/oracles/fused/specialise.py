"""Compiled estimators from disk: each is compiled once per machine type, by one process, and loaded by all others.

The entry function of an estimator, for one family of tasks and policies, stands in a file of its own in the user's
cache folder (``RAYPFRL_CACHE``, else the XDG cache). The file's name carries a hash of all that goes into the machine
code: every source, the sizes, the compiler's version. So numba's own cache, which lies beside that file and looks at
that file alone, is never stale; it tells CPUs apart by itself.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Estimator = Callable[..., None]

_SOURCE = '''\
"""Written by raypfrl.oracles.fused.specialise; what was compiled from it lies beside it. Safe to delete."""

from raypfrl.oracles.fused.estimators import entry
from raypfrl.oracles.fused.specialise import Sizes, build

estimator = build({sizes}).{name}


@entry
def {name}({arguments}):
    estimator({arguments})
'''


class Sizes(NamedTuple):
    """What the code is compiled for: the task's module, the network's module and function, and three sizes."""

    task: str
    network: str
    inputs: int
    actions: int
    lanes: int


@functools.cache
def build(sizes: Sizes) -> Any:
    """The estimators for one family, as functions that numba compiles when they are called."""
    from raypfrl.oracles.fused.estimators import estimators

    task = importlib.import_module(sizes.task)
    network = getattr(importlib.import_module(f"raypfrl.oracles.fused.{sizes.network}"), sizes.network)
    return estimators(task, network, sizes.inputs, sizes.actions, sizes.lanes)


@functools.cache
def compiled(sizes: Sizes, name: str) -> Estimator:
    """The estimator ``name``, compiled; from disk if some process of this user has compiled it before."""
    from filelock import FileLock
    from numba.core.registry import cpu_target

    entry = cache_folder() / f"{name}_{_digest(repr(sizes), *_sources(sizes))}.py"
    cpu = repr(cpu_target.target_context.codegen().magic_tuple())
    done = entry.with_suffix(f".{_digest(cpu)}")
    if done.exists():
        return _load(entry, name)
    with FileLock(entry.with_suffix(".lock")):  # one process compiles, the others wait and load
        if not entry.exists():
            arguments = inspect.signature(getattr(build(sizes), name).py_func).parameters
            _write(entry, _SOURCE.format(sizes=sizes, name=name, arguments=", ".join(arguments)))
        function = _load(entry, name)
        done.touch()
    return function


def cache_folder() -> Path:
    """The first of these that can be written: $RAYPFRL_CACHE, the user's cache, a folder among the temporary files."""
    chosen = os.environ.get("RAYPFRL_CACHE")
    users = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "raypfrl"
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    for folder in (Path(chosen) if chosen else users, Path(tempfile.gettempdir()) / f"raypfrl-{owner}"):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        if owner == "user" or folder.stat().st_uid == owner:  # code is run from there: never from another user's
            return folder
    return Path(tempfile.mkdtemp(prefix="raypfrl-"))


def _sources(sizes: Sizes) -> list[str]:
    """Everything but the sizes that the machine code depends on."""
    task = sys.modules[sizes.task].__file__
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(str(task))]
    versions = [importlib.metadata.version(package) for package in ("numba", "llvmlite", "numpy")]
    return [sys.version, *versions, *(file.read_text(encoding="utf-8") for file in files)]


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _write(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)


def _load(path: Path, name: str) -> Estimator:
    """Import the entry's file: numba compiles its function, or finds it compiled."""
    spec = importlib.util.spec_from_file_location(f"raypfrl_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # where numba looks for it when it loads
    spec.loader.exec_module(module)
    function: Estimator = getattr(module, name)
    return function
