"""The worked families in examples/, and the one in docs/environments.md."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from raypfrl import RunConfig, train
from raypfrl.populations import POPULATIONS

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SMALL = {"n": 2, "horizon": 9, "rounds": 1, "m_in": 3, "m_out": 3, "m_adapt": (0, 3), "m_eval": 2}


def runs(offered, monkeypatch):
    """The family of a file, from its settings to an evaluation."""
    ((name, family),) = offered.items()
    monkeypatch.setitem(POPULATIONS, name, family)
    RunConfig(population=name, method="first_order")  # its own settings are complete
    *_, last = train(RunConfig(population=name, method="first_order", **SMALL))
    assert last["status"] == "finished"
    assert np.isfinite(last["after/return"])


def test_there_are_examples():
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_is_short(path, monkeypatch):
    assert len(path.read_text().splitlines()) < 70
    runs(runpy.run_path(str(path))["POPULATIONS"], monkeypatch)


PAGE = (ROOT / "docs" / "environments.md").read_text()
FAMILY, FIGURE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^    (raypfrl .*)$", PAGE, re.MULTILINE)
SIZES = {"rounds": 2, "m_in": 4, "m_out": 4, "m_adapt": [0, 4], "m_eval": 2, "horizon": 15}
SET = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
LESS = {
    "run": [*SET, "--actors", "0"], "rollout": ["--episodes", "1"], "sweep": [*SET, "--seeds", "2", "--cpus", "2"],
}  # fmt: skip


def test_the_page_goes_from_a_family_to_a_figure():
    verbs = [command.split()[1] for command in COMMANDS]
    assert verbs == ["run", "run", "rollout", "sweep", "report", "compare"]
    assert len(FAMILY.splitlines()) < 45


def test_the_family_in_the_documentation_runs(monkeypatch):
    scope = {}
    exec(FAMILY, scope)
    runs(scope["POPULATIONS"], monkeypatch)


@pytest.mark.slow
@pytest.mark.ray
def test_every_command_of_the_page_runs_from_an_empty_folder(tmp_path):
    """As it stands and in its order, but for the size of runs and sweeps."""
    pytest.importorskip("pygame")
    (tmp_path / "poles.py").write_text(FAMILY)
    for command in COMMANDS:
        _, verb, *arguments = shlex.split(command)
        given = [sys.executable, "-m", "raypfrl.cli", verb, *arguments, *LESS.get(verb, [])]
        done = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert (tmp_path / "results/one/rollouts.gif").is_file()
    script = [sys.executable, "-c", FIGURE]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "poles.pdf").stat().st_size > 1000
