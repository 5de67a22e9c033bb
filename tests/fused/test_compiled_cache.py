"""Compiled code on disk: compiled once, by one process, outside the package, and loaded by all others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import raypfrl
from raypfrl.oracles.fused import specialise

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


def test_changed_sources_are_compiled_anew(tmp_path: Path) -> None:
    """The name of the entry's file follows every source, and the task's."""
    sizes = specialise.Sizes("raypfrl.populations.gridworld", "tabular", 1, 4, 16)
    sources = specialise._sources(sizes)
    package = Path(specialise.__file__).parent
    texts = [path.read_text() for path in [*package.glob("*.py"), package.parents[1] / "populations" / "gridworld.py"]]
    assert set(texts) <= set(sources)
    changed = [[*sources[:i], source + "#", *sources[i + 1 :]] for i, source in enumerate(sources)]
    assert len({specialise._digest(repr(sizes), *texts) for texts in [sources, *changed]}) == len(sources) + 1


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
