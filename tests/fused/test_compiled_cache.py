"""Compiled code on disk: compiled once, by one process, outside the package, and loaded by all others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import raypfrl
from raypfrl.oracles.fused import specialise
from raypfrl.oracles.fused.approximations import tanh
from raypfrl.oracles.fused.fingerprint import fingerprint
from raypfrl.populations import Kernel, gridworld

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
compiled = len(recorder.buffer)
sizes = specialise.Sizes("tabular", "softmax", (1, 4, 1, 0), 16)
entry = specialise.compiled(population.train[0].kernel, sizes, "outcomes")
print(sum(entry.stats.cache_misses.values()), compiled, "torch" in sys.modules, raypfrl.__path__[0])
"""

# A user's file: a line of cells, a helper, and a helper's helper; the factory's width is in a closure. %s stands where
# an edit goes that changes what is computed.
LINE = """
import numpy as np
from raypfrl.populations import Kernel

STEPS = np.array([-1.0, 1.0], np.float32)
ENDS = (0.0, 8.0)


def clipped(x):
    return np.minimum(np.maximum(x, ENDS[0]), ENDS[1])


def moved(x, action):
    return clipped(x + np.take(STEPS, action))


def line(width):
    def initial(goal, u):
        return (np.floor(u[0] * width),)

    def measure(goal, state):
        success = state[0] == goal[0]
        return np.where(success, 1.0, 0.0), success, np.abs(state[0] - goal[0])

    return Kernel(
        constants=lambda task: (task.goal,),
        initial=initial,
        observe=lambda goal, state: (state[0],),
        transition=lambda goal, state, action: (moved(state[0], action),),
        measure=measure,
        fits=lambda task, policy: True,
    )


class Line:
    kernel = line(width=9)

    def __init__(self, goal):
        self.goal = goal


class Ring(Line):  # a second family in the file, and a helper of its own
    kernel = line(width=9)._replace(transition=lambda goal, state, action: (round_(state[0] + np.take(STEPS, action)),))


def round_(x):
    return np.where(x < 0.0, ENDS[1], np.where(x > ENDS[1], 0.0, x))
"""

# Loads the file under a name that no other process has for it, as it is done with a user's own file on a worker.
ASK = """
import sys, types
import numpy as np
from numba.core import event
from raypfrl.oracles.fused import FusedOracle
from raypfrl.policies import TabularSoftmax
from raypfrl.streams import Purpose, Stream

name, text, family = sys.argv[1:]
sys.modules[name] = module = types.ModuleType(name)
exec(compile(text, f"/nowhere/{name}.py", "exec"), module.__dict__)
with event.install_recorder("numba:compile") as recorder:
    oracle = FusedOracle(getattr(module, family)(8.0), TabularSoftmax(9, 2), 0.9, 10)
    answer = oracle.returns(np.zeros(18), 1000, Stream(0, 0, 0, 0, Purpose.EVALUATE))
print(len(recorder.buffer), *answer)
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


def ask(cache: Path, name: str, family: str = "Line", text: str = LINE) -> tuple[int, list[str]]:
    """How many functions a process compiled that has a user's file under this name, and what the oracle answered."""
    environment = {**os.environ, "RAYPFRL_CACHE": str(cache)}
    command = [sys.executable, "-c", ASK, name, text, family]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    functions, *answer = output.split()
    return int(functions), answer


def test_a_users_file_is_compiled_once_whatever_name_it_has_in_a_process(tmp_path: Path) -> None:
    """Its helpers are compiled with it, and are part of what is looked up; so is each of its families."""
    functions, answer = ask(tmp_path, "raypfrl_use_0123")
    assert functions > 0
    assert ask(tmp_path, "another_name", text=f"# a line more\n{LINE}") == (0, answer)
    functions, ring = ask(tmp_path, "raypfrl_use_0123", "Ring")
    assert functions > 0
    assert ring != answer


def kernel_of(text: str) -> Kernel:
    """The kernel of the user's file."""
    names: dict[str, Any] = {"__name__": "line"}
    exec(text, names)
    kernel: Kernel = names["Line"].kernel
    return kernel


def print_of(kernel: Kernel) -> str:
    """What its compiled functions are known by."""
    return fingerprint(*kernel.compiled)


def test_all_that_is_compiled_is_in_the_fingerprint_and_nothing_else() -> None:
    """Constants, tables, helpers' helpers, closures, the functions of NumPy; not names, comments, or what is not
    compiled."""
    prints = [print_of(kernel_of(LINE))]
    for old, new in {
        "ENDS = (0.0, 8.0)": "ENDS = (0.0, 7.0)",
        "[-1.0, 1.0], np.float32": "[-1.0, 2.0], np.float32",
        "[-1.0, 1.0], np.float32)": "[-1.0, 1.0], np.float64)",
        "np.minimum(np.maximum": "np.maximum(np.maximum",
        "clipped(x + np": "clipped(x - np",
        "line(width=9)": "line(width=8)",
        "np.where(success, 1.0, 0.0)": "np.where(success, 2.0, 0.0)",
    }.items():
        assert old in LINE
        prints.append(print_of(kernel_of(LINE.replace(old, new))))
    assert len(set(prints)) == len(prints)
    for old, new in {
        "import numpy as np": "import numpy as np\nOTHER = 3\n",
        "(task.goal,)": "(task.goal, 1.0)",
        "x < 0.0, ENDS": "x < 1.0, ENDS",  # of the other family
    }.items():
        assert old in LINE
        assert print_of(kernel_of(LINE.replace(old, new))) == prints[0]


@pytest.mark.parametrize(
    "used", ["import os\ndef f(x): return os.getpid()", "from os import getpid\ndef f(x): return getpid()",
             "table = {1: 2}\ndef f(x): return table[x]", "def f(x): return inner(x)\ninner = [].append"],
)  # fmt: skip
def test_what_cannot_be_compiled_is_refused_in_words(used: str) -> None:
    names: dict[str, Any] = {}
    exec(used, names)
    with pytest.raises(
        TypeError, match=r"a kernel's functions use .*, which is neither a number, a table nor a function"
    ):
        fingerprint(names["f"])


def test_a_function_that_calls_itself_has_a_fingerprint() -> None:
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    assert fingerprint(factorial) == fingerprint(factorial)


def test_the_packages_own_functions_may_be_used_and_a_compiled_helper_is_its_function() -> None:
    def helper(x: Any) -> Any:
        return np.maximum(x, 0.0)

    def raw(x: Any) -> Any:
        return tanh(helper(x))

    before, helper = fingerprint(raw), numba.njit(helper)
    assert fingerprint(raw) == before


def test_a_changed_package_is_compiled_anew_and_not_under_the_old_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYPFRL_CACHE", str(tmp_path))
    monkeypatch.setattr(specialise, "_SOURCES", [specialise._SOURCES[0] + "#", *specialise._SOURCES[1:]])
    kernel = gridworld().train[0].kernel  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="start it again"):
        specialise.compiled.__wrapped__(kernel, specialise.Sizes("tabular", "softmax", (1, 4, 1, 0), 16), "outcomes")
    assert not list(tmp_path.glob("*.py"))
    assert set(specialise._sources()) == {path.read_text() for path in Path(specialise.__file__).parent.glob("*.py")}


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
