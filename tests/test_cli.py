"""The command line: every bad input is one line with the remedy and exit status 2, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from raypfrl.cli import main, settings_of
from raypfrl.config import RunConfig
from raypfrl.methods import METHODS
from raypfrl.metrics import METRICS
from raypfrl.populations import POPULATIONS

RUN = ["run", "gridworld", "exact"]
SWEEP = ["sweep", str(Path("tune_configs/personalization.py").resolve())]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "gridwrld", "exact"], "did you mean 'gridworld'"),
        (["run", "gridworld", "exakt"], "did you mean 'exact'"),
        ([*RUN, "--set", "alpa=1"], "did you mean 'alpha'"),
        ([*RUN, "--set", "alpha"], "give KEY=VALUE"),
        ([*RUN, "--set", "alpha=[1,2]"], "alpha = "),
        ([*RUN, "--set", "alpha=-1"], "alpha = -1: input should be greater than or equal to 0"),
        ([*RUN, "--set", "alpha=nan"], "alpha = "),
        ([*RUN, "--set", "alpha={"], "is not a value"),
        ([*RUN, "--set", "m_h=0"], "m_h = 0: the method exact needs at least one trajectory"),
        ([*RUN, "--set", "tau=0"], "tau = 0: input should be greater than or equal to 1"),
        ([*RUN, "--set", "cohort=9"], "cohort = 9 is above the 8 agents"),
        ([*RUN, "--set", "n=9"], "the gridworld has 1 to 8 training agents"),
        ([*RUN, "--set", "hidden=[32]"], "no hidden layers"),
        ([*RUN, "--set", "oracle=fusd"], "did you mean 'fused'"),
        (["run", "navigation", "exact", "--set", "oracle=exact"], "does not cover navigation"),
        (["run", "navigation", "exact", "--set", "m_adapt=exact"], "no exact oracle"),
        ([*RUN, "--seed", "-1"], "seed = -1"),
        ([*RUN, "--actors", "9"], "there are 8 agents to host"),
        ([*RUN, "--actors", "many"], "actors = "),
        (["sweep", "none.py"], "no such file"),
        (["sweep", __file__], "not a sweep"),
        ([*SWEEP, "--seeds", "0"], "at least one seed"),
        ([*SWEEP, "--seeds", "a"], "give a number of seeds"),
        ([*SWEEP, "--set", "gama=1"], "did you mean 'gamma'"),
        ([*SWEEP, "--set", "actors=9", "--cpus", "2"], "needs 9 CPUs and there are 2"),
        ([*SWEEP, "--cpus", "0"], "give a number from 1 to 100000"),
        (["theory", "gridworld", "--set", "epsilon=-1"], "epsilon = -1"),
        (["theory", "gridwrld"], "did you mean 'gridworld'"),
        (["fly"], "invalid choice"),
        ([], "required"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_process_writes_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [*RUN, "--actors", "0", "--set", "oracle=exact", "--set", "rounds=2", "--set", "evaluate=1"]
    assert main([*arguments, "--set", "tau=1", "--out", "out"]) == 0
    assert "round 2" in capsys.readouterr().out
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"trials.csv", "evaluations.csv", "sweep.json", "checkpoints"} <= files
    assert main([*arguments, "--set", "tau=2", "--out", "out"]) == 2
    assert "holds the results of run-" in capsys.readouterr().err


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in [*POPULATIONS, *METHODS, *METRICS, *(set(RunConfig.model_fields) - {"population", "method"})]:
        assert f"\n  {name} " in out
    assert "curvature_bottleneck.py" in out


@pytest.mark.parametrize("name", POPULATIONS)
def test_theory_of_every_population(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", name]) == 0
    out = capsys.readouterr().out
    if name == "gridworld":
        for line in ("G_J         200 ", "L_J         6800 ", "rho_J       244 000 "):
            assert line in out


def test_values_are_yaml_and_a_list_is_a_grid_except_where_it_is_one_value() -> None:
    given = ["alpha=1e-3", "m_h=[10, 50]", "m_adapt=[0, exact]", "hidden=64", "evaluate=[1,5]"]
    assert settings_of(given) == {
        "alpha": "1e-3", "m_h": [10, 50], "m_adapt": (0, "exact"), "hidden": 64, "evaluate": (1, 5),
    }  # fmt: skip
    assert RunConfig(population="gridworld", method="exact", alpha="1e-3").alpha == 1e-3
