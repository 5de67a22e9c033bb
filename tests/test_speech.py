"""What a terminal cannot show does not end a command, and what surrounds a command does not change its files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raypfrl import RunConfig
from raypfrl.oracles.fused.specialise import Sizes, compiled

ROOT = Path(__file__).parents[1]
SWEEP = """# μ
from raypfrl.sweeps import Sweep
SWEEP = Sweep(base={"population": "a ‘population’ – θ"})
"""
LOCALES = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-m", *command], env=env, capture_output=True, text=True, errors="replace", timeout=200
    )


@pytest.mark.parametrize(
    ("locale", "status", "command"),
    [
        ("ascii", 0, ["raypfrl.cli", "list"]),
        ("cp1252", 2, ["raypfrl.cli", "sweep", "odd.py"]),
        ("C", 0, ["analysis", "table", "--check"]),  # reads README.md and the results
    ],
)
def test_every_terminal_gets_what_it_can_show(tmp_path: Path, locale: str, status: int, command: list[str]) -> None:
    (tmp_path / "odd.py").write_text(SWEEP, encoding="utf-8")
    command = [str(tmp_path / part) if part == "odd.py" else part for part in command]
    done = run(*command, **LOCALES[locale])
    assert done.returncode == status, done.stderr
    assert "Error" not in done.stderr
    assert "population" in done.stdout + done.stderr or "analysis" in command


def test_a_numba_that_compiles_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    kernel = RunConfig(population="navigation", method="exact").build_population().train[0].kernel
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(RuntimeError, match="unset NUMBA_DISABLE_JIT, or set oracle to autodiff"):
        compiled(kernel, Sizes("mlp", 1, 1, 1), "returns")


def test_a_home_that_nothing_can_be_written_to_holds_no_sweep_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray keeps its token there, else in the environment."""
    from raypfrl.sweeps.cluster import _hold_a_token

    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    _hold_a_token()
    assert "RAY_AUTH_TOKEN" not in os.environ
    monkeypatch.setenv("HOME", os.devnull)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")  # so that it is forgotten after the test
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    _hold_a_token()
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.slow
def test_a_sweep_is_quiet_whatever_surrounds_it(tmp_path: Path) -> None:
    """No home, variables of other tools of W&B, numbers that are none: every trial has its row and its run."""
    file = tmp_path / "odd.py"
    file.write_text(
        "from raypfrl.sweeps import Sweep\n"
        "SWEEP = Sweep(base={'population': 'quadratic', 'method': 'exact', 'n': 2, 'rounds': 3, 'evaluate': 1},"
        " grids=[{'beta': [0.1, 1e300]}], seeds=1)\n"
    )
    inherited = {f"WANDB_{name}": "other" for name in ("RUN_ID", "SWEEP_ID", "RUN_GROUP", "NOTEBOOK_NAME")}
    done = run(
        "raypfrl.cli", "sweep", str(file), "--out", str(tmp_path / "out"), HOME=os.devnull, RAY_ADDRESS="local",
        WANDB_MODE="offline", PYTHONIOENCODING="ascii", **inherited,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(done.stderr.splitlines()) <= {line for line in done.stderr.splitlines() if "diverged: " in line}
    assert len((tmp_path / "out" / "trials.csv").read_text(encoding="utf-8").splitlines()) == 3
    assert len(list((tmp_path / "out" / "wandb").glob("offline-run-*-odd-*"))) == 3  # and the sweep's own
