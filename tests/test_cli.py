"""The command line: every bad input is one line with the remedy and exit status 2, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import raypfrl
from raypfrl.cli import main, settings_of
from raypfrl.config import RunConfig, SettingsError, every_setting
from raypfrl.methods import METHODS
from raypfrl.metrics import METRICS
from raypfrl.populations import POPULATIONS
from raypfrl.sweeps import Sweep, load
from raypfrl.sweeps.sweep import name_of, shipped

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
        ([*RUN, "--set", "cohort=9"], "cohort = 9: 8 agents learn; give all, or 1 to 8"),
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
        ([*SWEEP, "--cpus", "٣"], "give a number from 1 to 100000"),
        (["theory", "gridworld", "--diagnostics"], "unrecognized arguments: --diagnostics"),
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
    out = capsys.readouterr().out
    assert "round 2" in out
    assert "environment steps" not in out, "the exact oracle takes none"
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"trials.csv", "evaluations.csv", "sweep.json", "checkpoints"} <= files
    assert main([*arguments, "--set", "tau=2", "--out", "out"]) == 2
    assert "holds the results of run-" in capsys.readouterr().err


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in [*POPULATIONS, *METHODS, *METRICS, *every_setting()]:
        assert f"\n  {name} " in out
    assert max(map(len, out.splitlines())) <= 100
    for method in METHODS.values():
        assert " ".join(method.source.split()) in " ".join(out.split())
    assert all(f"\n  {name} " in out for name in shipped())


@pytest.mark.parametrize(
    ("what", "names"),
    [("populations", POPULATIONS), ("methods", METHODS), ("settings", every_setting()), ("metrics", METRICS),
     ("sweeps", shipped())],
)  # fmt: skip
def test_a_list_of_one_kind_has_its_names_alone_in_short(
    what: str, names: Iterable[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", what]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "} == set(names)
    assert all(len(line) <= 100 for line in lines)
    assert not any(line.endswith("et al") for line in lines), "a sentence does not end there"


def test_a_method_says_what_it_asks_for_and_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "methods"])
    out = capsys.readouterr().out
    said = dict(re.findall(r"^  (\w+) +(.*(?:\n   .*)*)", out, re.MULTILINE))
    assert "asks for tau beta m_in m_h alpha [inner_steps]" in said["hapg"]
    assert said["hapg"].endswith("needs hessian_vector_product")
    assert "needs" not in said["first_order"]


def test_list_says_which_methods_are_which_row_of_table_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    section = capsys.readouterr().out.split("Table 1 of the paper, a sweep")[1].split("\n\n")[0]
    text = " ".join(section.split())
    for row in ("Per-FedAvg", "SG-MRL", "MAML-LQR", "ZO-APFPG", "PfoPG", "pMeta-RL", "this paper"):
        assert f"Table 1, {row}" in text or f"and {row}" in text
    assert "runs: maml_lqr, maml_lqr_first_order, fedavg_pg on lqr" in text
    assert set(re.findall(r"(?<=runs: )[a-z_]+", text)) <= set(METHODS)
    assert [name for name in shipped() if name.startswith("table1/")] == re.findall(
        r"^  (table1/\S+)", section, re.MULTILINE
    )


def test_a_shipped_sweep_is_copied_once_and_runs_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["list", "--copy", "few_shot"]) == 0
    assert Path("few_shot.py").read_bytes() == shipped()["few_shot"].read_bytes()
    assert main(["list", "--copy", "few_shot"]) == 2
    assert "few_shot.py is here already" in capsys.readouterr().err
    (tmp_path / "personalization").mkdir()  # a folder of that name is not in the way
    assert load(Path("personalization")).seeds == 10
    assert main(["list", "--copy", "table1/this_paper"]) == 0
    assert Path("this_paper.py").read_bytes() == shipped()["table1/this_paper"].read_bytes()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("table1/this_paper", "table1/this_paper"),
        (str(shipped()["table1/this_paper"]), "table1/this_paper"),
        ("few_shot", "few_shot"),
        ("mine/few_shot.py", "few_shot"),
    ],
)
def test_a_sweep_in_a_folder_is_named_with_it(given: str, name: str) -> None:
    """And results, runs and dashboards are; a user's file has its own name alone."""
    assert name_of(Path(given)) == name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "method"], "unknown list 'method': did you mean 'methods'?"),
        (["list", "--copy", "few_shoot"], "unknown sweep 'few_shoot': did you mean 'few_shot'?"),
        (["sweep", "table1/this_papper"], "unknown sweep 'table1/this_papper': did you mean 'table1/this_paper'?"),
        (["sweep", "few_shoot"], "unknown sweep 'few_shoot': did you mean 'few_shot'?; or give a file"),
        (["report", "nowhere"], "nowhere: no such folder of results"),
        (["compare", "curvature_remedies"], "pairs: choose points with --where"),
        (["figures", "curvature"], "no figure 'curvature'; there are adaptation_step_size"),
    ],
)
def test_the_desks_bad_input_is_one_line_too(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")  # which the commands set
    assert main(arguments) == 2
    captured = capsys.readouterr()
    *before, last = captured.err.splitlines()
    assert last.startswith("raypfrl: ")
    assert says in last
    assert all("taking those that come with raypfrl" in line for line in before)
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_from_python_needs_a_folder_and_writes_nothing_before_it_is_checked(tmp_path: Path) -> None:
    plan = Sweep(base={"population": "gridworld", "method": "exact", "gama": 1})
    with pytest.raises(SettingsError, match="needs a folder"):
        raypfrl.sweep(plan)
    with pytest.raises(SettingsError, match="did you mean 'gamma'"):
        raypfrl.sweep(plan, out=tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", POPULATIONS)
def test_theory_of_every_population(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings = []
    if name == "cartpole":  # not discounted, where the constants are sums without end
        assert main(["theory", name]) == 2
        assert "lower gamma" in capsys.readouterr().err
        settings = ["--set", "gamma=0.9"]
    assert main(["theory", name, *settings]) == 0
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
