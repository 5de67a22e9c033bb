"""Every command and every example of the README runs."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.split("#")[0].strip() for line in README.splitlines() if re.match(r"    (raypfrl|make|python) ", line)]
SMALL = {"run": ["--set", "rounds=1", "--set", "tau=1", "--actors", "1"], "sweep": ["--smoke", "--cpus", "2"]}


def test_the_readme_has_commands() -> None:
    assert {"make study", "make test", "raypfrl list"} <= set(COMMANDS)
    assert len(README.splitlines()) <= 130


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make")])
def test_make_knows_its_targets(command: str) -> None:
    done = subprocess.run([*shlex.split(command), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "raypfrl sweep" in done.stdout or "pytest" in done.stdout


@pytest.mark.ray
@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith("make")])
def test_a_command_runs(command: str, tmp_path: Path) -> None:
    """As it stands, but for the size of runs and sweeps, from an empty folder."""
    program, *arguments = shlex.split(command)
    start = [sys.executable, *(["-m", "raypfrl.cli"] if program == "raypfrl" else [])]
    done = subprocess.run(
        [*start, *arguments, *SMALL.get(arguments[0], [])], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_examples_run() -> None:
    example, excerpt = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(example.replace("rounds=20", "rounds=2"), "README.md", "exec"), {})
    assert " -> " in out.getvalue()
    methods = (ROOT / "raypfrl/methods/per_fedavg_pg.py").read_text(encoding="utf-8")
    assert textwrap.indent(excerpt, "    ") in methods
