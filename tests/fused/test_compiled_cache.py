"""Compiled code on disk: compiled once, by one process, outside the package, and loaded by all others."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import raypfrl
from raypfrl.oracles.fused import specialise

navigation = importlib.import_module("raypfrl.populations.navigation")  # the module, not the function of that name

# Prints how often the oracle's entry function was compiled, how many functions were compiled in all, whether torch
# came in, and where the package lies.
PROGRAM = """
import sys
from numba.core import event
import raypfrl
from raypfrl.oracles.fused import FusedOracle, specialise
from raypfrl.populations import gridworld
from raypfrl.streams import Purpose, Stream

population = gridworld()
with event.install_recorder("numba:compile") as recorder:
    oracle = FusedOracle(population.train[0], population.policy, population.gamma, population.horizon)
    oracle.returns(population.initial(), 100, Stream(0, 0, 0, 0, Purpose.EVALUATE))
entry = specialise.compiled(oracle._sizes, "outcomes")
print(sum(entry.stats.cache_misses.values()), len(recorder.buffer), "torch" in sys.modules, raypfrl.__path__[0])
"""


def start(cache: Path, package: Path = Path(raypfrl.__path__[0])) -> subprocess.Popen[str]:
    """A process that asks the oracle of ``package`` once."""
    environment = {**os.environ, "RAYPFRL_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.Popen(command, cwd=package.parent, env=environment, stdout=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> tuple[int, int, str, str]:
    """What it printed: entries compiled, functions compiled, "True" with torch, the package's folder."""
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    entries, functions, torch, package = output.split()
    return int(entries), int(functions), torch, package


def files(folder: Path) -> list[Path]:
    """All of them."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_one_process_compiles_and_the_others_load(tmp_path: Path) -> None:
    """Two at once on an empty cache, then one more; the package lies in a folder that cannot be written to and is not
    written to."""
    package, cache = tmp_path / "installed" / "raypfrl", tmp_path / "cache"
    shutil.copytree(raypfrl.__path__[0], package, ignore=shutil.ignore_patterns("__pycache__"))
    before = files(package)
    for path in [package, *package.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    both = [told(process) for process in [start(cache, package), start(cache, package)]]
    third = told(start(cache, package))
    for path in [package, *package.rglob("*")]:
        path.chmod(0o755)
    assert sorted(entries for entries, *_ in both) == [0, 1]
    assert sorted(functions for _, functions, *_ in both)[0] == 0
    assert third == (0, 0, "False", str(package))
    assert files(package) == before


def test_a_changed_package_is_compiled_anew_and_not_under_the_old_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYPFRL_CACHE", str(tmp_path))
    monkeypatch.setattr(specialise, "_SOURCES", [specialise._SOURCES[0] + "#", *specialise._SOURCES[1:]])
    sizes = specialise.Sizes("raypfrl.populations.gridworld", "tabular", 1, 4, 16)
    with pytest.raises(RuntimeError, match="start it again"):
        specialise.compiled.__wrapped__(sizes, "outcomes")
    assert not list(tmp_path.glob("*.py"))
    assert set(specialise._sources()) == {path.read_text() for path in Path(specialise.__file__).parent.glob("*.py")}


def test_a_changed_task_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions' code, their numbers and their tables are part of the name; what is not compiled is not."""
    texts = [specialise._task_text(navigation)]
    for name, value in {
        "GOAL_RADIUS": 0.25,
        "_MOVE_X": np.zeros(8, np.float32),
        "initial": lambda goal, u: (np.minimum(u[0], 1.0), u[1]),
        "observe": lambda goal, state: (np.maximum(state[0], 1.0), state[1]),
    }.items():
        monkeypatch.setattr(navigation, name, value)
        texts.append(specialise._task_text(navigation))
    assert len(set(texts)) == len(texts)
    monkeypatch.setattr(navigation, "observe", lambda goal, state: (np.minimum(state[0], 1.0), state[1]))
    assert specialise._task_text(navigation) not in texts  # the same code and numbers, another of NumPy's functions
    texts.append(specialise._task_text(navigation))
    monkeypatch.setattr(navigation, "ARC", 0.25)
    assert specialise._task_text(navigation) == texts[-1]


def test_where_compiled_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What RAYPFRL_CACHE names, else the user's cache folder; temporary files where that cannot be written."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("RAYPFRL_CACHE", raising=False)
    assert specialise.cache_folder() == tmp_path / "xdg" / "raypfrl"
    monkeypatch.setenv("RAYPFRL_CACHE", str(tmp_path / "mine"))
    assert specialise.cache_folder() == tmp_path / "mine"
    (tmp_path / "file").touch()
    monkeypatch.setenv("RAYPFRL_CACHE", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = specialise.cache_folder()
    assert folder.parent == tmp_path
    assert folder.name.startswith("raypfrl-")
    assert specialise.cache_folder() == folder


def test_asking_what_is_covered_imports_neither_numba_nor_torch() -> None:
    program = (
        "import sys; from raypfrl.oracles import fused; from raypfrl.populations import navigation; p = navigation();"
        "print(fused.covers(p.train[0], p.policy), 'numba' in sys.modules, 'torch' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["True", "False", "False"]
