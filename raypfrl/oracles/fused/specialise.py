"""Compiled estimators from disk: each is compiled once per machine type, by one process, and loaded by all others.

The entry function of an estimator, for one family of tasks and policies, stands in a file of its own in the user's
cache folder (``RAYPFRL_CACHE``, else the XDG cache). The file's name carries a hash of all that goes into the machine
code: this package's sources, the task's kernel (``fingerprint``), the sizes, the compiler's version. So numba's own
cache, which lies beside that file and looks at that file alone, is never stale; it tells CPUs apart by itself.
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

from raypfrl.oracles.fused.fingerprint import fingerprint
from raypfrl.populations.population import Kernel

Estimator = Callable[..., None]
_SOURCE = '''\
"""Written by raypfrl.oracles.fused.specialise; what was compiled from it lies beside it. Safe to delete."""

from raypfrl.oracles.fused.estimators import entry
from raypfrl.oracles.fused.specialise import asked_for

estimator = asked_for("{digest}").{name}


@entry
def {name}({arguments}):
    estimator({arguments})
'''


class Sizes(NamedTuple):
    """What the code is compiled for, beside a kernel: the network's and the head's module and function, the policy's
    shape (``estimators.Shape``), and the lanes."""

    network: str
    head: str
    shape: tuple[int, int, int, int]
    lanes: int


_ASKED: dict[str, tuple[Kernel, Sizes]] = {}  # what this process has asked for, by the digest in the file's name


@functools.cache
def asked_for(digest: str) -> Any:
    """The estimators for one family, as functions that numba compiles when they are called."""
    from raypfrl.oracles.fused.estimators import Shape, estimators

    kernel, sizes = _ASKED[digest]
    network, head = (
        getattr(importlib.import_module(f"raypfrl.oracles.fused.{name}"), name) for name in (sizes.network, sizes.head)
    )
    return estimators(kernel, network, head, Shape(*sizes.shape), sizes.lanes)


@functools.cache
def compiled(kernel: Kernel, sizes: Sizes, name: str) -> Estimator:
    """The estimator ``name``, compiled; from disk if some process of this user has compiled it before.

    Raises TypeError for a kernel whose functions use what cannot be compiled, and RuntimeError where numba is told to
    compile nothing, and where the estimator is not on disk and this package's files are no longer what was imported.
    """
    import numba
    from filelock import FileLock
    from numba.core.registry import cpu_target

    if numba.config.DISABLE_JIT:
        raise RuntimeError("numba compiles nothing here: unset NUMBA_DISABLE_JIT, or set oracle to autodiff")
    functions = fingerprint(*kernel.compiled)
    digest = _digest(repr(sizes), functions, *_VERSIONS, *_SOURCES)
    _ASKED[digest] = kernel, sizes
    entry = cache_folder() / f"{name}_{digest}.py"
    cpu = repr(cpu_target.target_context.codegen().magic_tuple())
    done = entry.with_suffix(f".{_digest(cpu)}")
    if done.exists():
        return _load(entry, name)
    with FileLock(entry.with_suffix(".lock")):  # one process compiles, the others wait and load
        if not entry.exists():
            estimator = getattr(asked_for(digest), name)
            if _sources() != _SOURCES:  # else new code might be kept under the old code's name
                raise RuntimeError(f"{Path(__file__).parent} changed under a running process; start it again")
            arguments = inspect.signature(estimator.py_func).parameters
            _write(entry, _SOURCE.format(digest=digest, name=name, arguments=", ".join(arguments)))
        function = _load(entry, name)
        done.touch()
    return function


def cache_folder() -> Path:
    """The first of these that can be written: $RAYPFRL_CACHE, the user's cache, a folder among the temporary files."""
    chosen = os.environ.get("RAYPFRL_CACHE")
    users = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "raypfrl"
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    temporary = Path(tempfile.gettempdir()) / f"raypfrl-{owner}"
    for folder in (Path(chosen) if chosen else users, temporary):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        if folder != temporary or folder.stat().st_uid == owner:  # code is run from there: not from another user's
            return folder
    return Path(tempfile.mkdtemp(prefix="raypfrl-"))


def _sources() -> list[str]:
    return [file.read_text(encoding="utf-8") for file in sorted(Path(__file__).parent.glob("*.py"))]


_SOURCES = _sources()  # as imported: before anything else of the package that is compiled
_VERSIONS = [sys.version, *(importlib.metadata.version(package) for package in ("numba", "llvmlite", "numpy"))]


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
