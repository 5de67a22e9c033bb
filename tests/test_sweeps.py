"""Sweeps: the plan, the division of the machine, the result files, and real runs of every sweep on Ray and Tune."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from own import forgotten
from ray import tune

from raypfrl import RunConfig, SettingsError, Training, train
from raypfrl.sweeps import Sweep, load
from raypfrl.sweeps.cluster import cluster_address, connected
from raypfrl.sweeps.launch import launch
from raypfrl.sweeps.machine import announced, evaluation_share, layout, timed
from raypfrl.sweeps.results import Results, pack, unpack
from raypfrl.sweeps.single import run
from raypfrl.sweeps.sweep import label, shipped

TINY = {"population": "gridworld", "oracle": "exact", "rounds": 3, "tau": 1, "evaluate": 1, "n": 2}
FILES = list(shipped().values())


@pytest.fixture(scope="module", autouse=True)
def two_cpus() -> Iterator[None]:
    """One local Ray for the module: its start is most of a small sweep's time."""
    with connected(2):  # which waits for Ray for as long as a busy machine needs
        yield


def go(sweep: Sweep, folder: Path, **options: object) -> tuple[int, Results]:
    results = Results(folder, "tiny")
    return launch(sweep.swept(), sweep.trials(), results, **options), Results(folder, "tiny")  # type: ignore[arg-type]


# The plan


def test_the_studies_have_the_papers_trials() -> None:
    count = {path.stem: len(load(path).trials()) for path in FILES}
    assert count["personalization"] == 3 * 10
    assert count["adaptation_step_size"] == 6 * 3 * 10
    assert count["curvature_bottleneck"] == (6 + 1) * 10
    assert count["few_shot"] == 2 * 10


def test_a_list_is_a_grid_and_a_tuple_is_a_value() -> None:
    sweep = Sweep(base={**TINY, "m_adapt": (0, "exact")}, grids=[{"method": ["exact", "first_order"], "alpha": [0, 1]}])
    assert len(sweep.points()) == 4
    assert sweep.swept() == ("method", "alpha")
    assert {config.m_adapt for config in sweep.trials([0])} == {(0, "exact")}


def test_all_that_is_listed_or_drawn_is_named_and_what_follows_is_not() -> None:
    """Any of two settings that are drawn tells all points apart, and both were chosen."""
    drawn = {"alpha": tune.uniform(0, 3), "beta": tune.loguniform(0.01, 1.0)}
    grids = [{"method": ["exact", "first_order"], **drawn, "tau": tau, "rounds": 12 // tau} for tau in (2, 3)]
    sweep = Sweep(base=TINY, grids=grids, samples=3)
    assert sweep.swept() == ("method", "alpha", "beta")
    fixed = Sweep(base=TINY, grids=[{**grid, **dict.fromkeys(drawn, 1.0)} for grid in grids])
    assert len(fixed.swept()) == 2  # the method, and one of tau and rounds
    config = sweep.trials([0])[0]
    assert label(config, sweep.swept()) == f"exact alpha={config.alpha:g} beta={config.beta:g}"


def test_set_replaces_a_grid_and_repeats_are_dropped() -> None:
    sweep = Sweep(base=TINY, grids=[{"method": "exact", "m_h": [10, 50]}, {"method": "exact", "m_h": [100]}])
    assert len(sweep.with_settings({"m_h": 7}).trials([0])) == 1
    assert len(sweep.with_settings({"alpha": [0.0, 1.0]}).trials([0])) == 6


def test_samplers_draw_the_same_points_each_time() -> None:
    sweep = Sweep(base={**TINY, "method": "exact", "alpha": tune.uniform(0, 3), "m_h": tune.randint(1, 99)}, samples=5)
    alphas = [point["alpha"] for point in sweep.points()]
    assert alphas == [point["alpha"] for point in sweep.points()]
    assert len(set(alphas)) == 5
    assert all(0 <= alpha <= 3 for alpha in alphas)
    assert all(isinstance(config.m_h, int) for config in sweep.trials([0]))


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1", "not a sweep"), ("SWEEP = 3", "not a sweep"), ("1 / 0", "does not run: ZeroDivisionError")],
)
def test_a_file_that_is_no_sweep_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file.py").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load(tmp_path / "file.py")
    with pytest.raises(SettingsError, match="no such file"):
        load(tmp_path / "none.py")


# The division of the machine


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"base": None}, "base is one dict"),
        ({"base": {}, "grids": {"alpha": [1]}}, "grids a list"),
        ({"base": {1: 2}}, "base is one dict"),
        ({"base": {}, "seeds": 0}, "seeds = 0: give a number from 1"),
        ({"base": {}, "seeds": "3"}, "seeds = '3'"),
        ({"base": {}, "samples": 0}, "samples = 0"),
        ({"base": {}, "against": "alhpa"}, "did you mean 'alpha'"),
        ({"base": {"alpha": []}}, r"alpha = \[\]: give at least one value"),
        ({"base": {}, "grids": []}, r"grids = \[\]"),
        ({"base": {"seed": 3}}, "seed: a sweep counts its seeds itself"),
    ],
)
def test_what_is_no_sweep_is_refused(sweep: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Sweep(**sweep).points()


@pytest.mark.parametrize(
    ("trials", "actors", "cpus", "said"),
    [
        (60, "auto", 2, "60 trials, 2 at a time, agents in the trial's own process"),
        (1, "auto", 2, "1 trial, 1 at a time, 2 actors of 3 agents each"),
        (1, "auto", 64, "1 trial, 1 at a time, 6 actors of 1 agent each"),
        (4, 3, 8, "4 trials, 2 at a time, 3 actors of 2 agents each"),
        (4, 0, 3, "4 trials, 3 at a time, agents in the trial's own process"),
    ],
)
def test_layout(trials: int, actors: int | str, cpus: int, said: str) -> None:
    configs = [RunConfig(population="navigation", method="exact", seed=seed, actors=actors) for seed in range(trials)]
    assert str(layout(configs, cpus)) == said


@pytest.mark.parametrize("evaluate", [1, 2, 3, 7, 9, (), (1, 4), (7,), (3, 12)])
def test_the_evaluations_of_a_run_are_counted_as_they_come(evaluate: int | tuple[int, ...]) -> None:
    config = RunConfig(population="gridworld", method="exact", rounds=7, evaluate=evaluate)
    assert config.times_evaluated() == sum(map(config.evaluated_after, range(8)))


def test_an_evaluation_that_outweighs_training_is_announced() -> None:
    """2 agents, 2 evaluations of 64 rollouts twice and 20 for the step, against 1 round of 2 x 40 trajectories."""
    slow = {"population": "gymnasium", "method": "first_order", "n": 2, "horizon": 9, "rounds": 1, "evaluate": 1}
    config = RunConfig(**slow)
    assert evaluation_share(config) == pytest.approx(2 * 2 * (2 * 64 + 20) / (2 * 2 * (2 * 64 + 20) + 2 * 40))
    assert announced([config]).startswith("evaluation takes 88% of the environment steps of 1 trial: lower m_eval = 64")
    assert announced([config.model_copy(update={"m_eval": 1, "m_adapt": (0,), "rounds": 50, "evaluate": 50})]) == ""
    assert announced([RunConfig(population="navigation", method="first_order", rounds=1)]) == "", "compiled: no matter"


def test_after_the_first_rounds_it_is_told_in_minutes() -> None:
    """4 of 8 rounds, 2 of 3 evaluations: 480 s of evaluation become 720, 120 of training 240; two actors halve both."""
    config = RunConfig(population="gymnasium", method="first_order", m_eval=512, rounds=8, evaluate=4)
    at = {"round": 4, "evaluation_seconds": 480.0, "kernel_seconds": 120.0, "seconds": 300.0, "status": "running"}
    assert timed(config, at).startswith(
        "m_eval = 512 on gymnasium: evaluation takes about 6 minutes of 8: lower m_eval"
    )
    assert timed(config, {**at, "seconds": 50.0}) == "", "a short run"
    assert timed(config, {**at, "kernel_seconds": 480.0}) == "", "the smaller part"
    assert timed(config, {**at, "round": 0}) == "", "training is not measured yet"
    assert timed(config, {**at, "status": "diverged"}) == ""
    longer = RunConfig(**{**config.model_dump(), "rounds": 80})
    assert timed(longer, at) != ""
    assert timed(longer, {**at, "round": 8}) == "", "once"
    compiled = RunConfig(population="navigation", method="first_order", rounds=8, evaluate=4)
    assert timed(compiled, at) == "", "no matter"


def test_an_impossible_request_fails_with_the_arithmetic() -> None:
    config = RunConfig(population="gridworld", method="exact", actors=8)
    with pytest.raises(SettingsError, match="a trial of 8 actors with 1 CPU each needs 8 CPUs and there are 2"):
        layout([config], 2)


# The files


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "host.invalid:6379", "nonsense"])
def test_a_cluster_that_is_not_there_is_said_at_once(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Ray would wait for it without an end."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(SettingsError, match=f"no cluster answers at RAY_ADDRESS = {address}"), connected(None):
        pass


@pytest.mark.parametrize("name", ["", "local"])
def test_no_cluster_is_this_machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("RAY_ADDRESS", name)
    assert cluster_address() is None


# Real runs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_sweep_smokes(path: Path) -> None:
    """In process: each trial ends, with an evaluation after every round."""
    with forgotten():
        for config in load(path).smoke().trials():
            *before, last = train(config)
            assert [metrics["status"] for metrics in before] == ["running"] * 2
            assert last["status"] == "finished"


ON_TUNE = ("curvature_bottleneck", "claims_arms", "fed_npg")  # several grids; a population of its own; no local steps


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in ON_TUNE], ids=lambda path: path.stem)
def test_a_sweep_smokes_on_tune(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = load(path).smoke()
    configs = sweep.trials()
    assert launch(sweep.swept(), configs, Results(tmp_path, path.stem)) == 0
    results = Results(tmp_path, path.stem)
    assert [row["trial"] for row in results.trials.rows] == [config.key() for config in configs]
    assert {row["status"] for row in results.trials.rows} == {"finished"}
    for config in configs:
        rows = [row for row in results.evaluations.rows if row["trial"] == config.key()]
        assert {(row["round"], row["m_adapt"]) for row in rows} == {
            (str(k), str(m)) for k in range(3) for m in config.m_adapt
        }
    about = json.loads((tmp_path / "sweep.json").read_text())
    assert set(about["trials"]) == {config.key() for config in configs}
    split = about["starts"][0]
    assert min(split.values()) >= 0
    parts = sum(split.values()) - split["wall"] - split["recording"]
    assert split["wall"] - 0.01 <= parts <= split["wall"] + split["tracking"] + 0.05, "tracking runs beside the trials"
    capsys.readouterr()
    assert launch(sweep.swept(), configs, results) == 0
    assert f"0 of {len(configs)} trials left" in capsys.readouterr().out


def test_the_same_bytes_however_it_is_run(tmp_path: Path) -> None:
    """In process, in a sweep with one and two actors a trial, and continued from an earlier start's checkpoint."""
    sweep = Sweep(base={**TINY, "method": "exact", "population": "gridworld"}, seeds=2)
    configs = sweep.trials()
    alone = []
    for config in configs:
        training = Training(config)
        list(training)
        alone.append(training.server.theta.tobytes())
    for actors in (0, 1, 2):
        status, results = go(sweep.with_settings({"actors": actors}), tmp_path / str(actors))
        assert status == 0
        assert [results.theta(config).tobytes() for config in configs] == alone
    begun = Training(configs[0])
    partial = Results(tmp_path / "resumed", "tiny")
    partial.begin(configs, {})
    for _ in range(2):
        metrics = next(begun)
        partial.record(configs[0].key(), configs[0], {**metrics, "checkpoint": pack(begun.state())})
    partial.close()
    status, results = go(sweep, tmp_path / "resumed")
    assert status == 0
    assert [results.theta(config).tobytes() for config in configs] == alone
    undisturbed = Results(tmp_path / "1", "tiny")
    assert results.evaluations.rows == undisturbed.evaluations.rows


def test_a_changed_setting_is_a_new_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = Sweep(base={**TINY, "method": "exact"}, seeds=1)
    go(sweep, tmp_path / "out")
    capsys.readouterr()
    _, results = go(sweep.with_settings({"rounds": [3, 4]}), tmp_path / "out")
    assert "1 of 2 trials left" in capsys.readouterr().out
    assert [row["rounds"] for row in results.trials.rows] == ["3", "4"]


def test_a_diverged_trial_is_marked_and_the_sweep_goes_on(tmp_path: Path) -> None:
    navigation = {"population": "navigation", "oracle": "fused", "m_eval": 8, "m_adapt": 0}  # float32: 1e300 is inf
    sweep = Sweep(base={**TINY, **navigation, "method": "fedavg_pg"}, grids=[{"beta": [1e300, 0.3]}], seeds=1)
    status, results = go(sweep, tmp_path / "out")
    assert status == 0
    assert [row["status"] for row in results.trials.rows] == ["diverged", "finished"]
    assert "round 1" in results.trials.rows[0]["message"]
    assert np.isfinite(unpack(results.checkpoint(sweep.trials()[0].key()).read_bytes())["theta"]).all()


def test_asha_stops_trials_early(tmp_path: Path) -> None:
    sweep = Sweep(base={**TINY, "method": "exact", "rounds": 9}, grids=[{"beta": [0.5, 0.3, 1e-3, 1e-4]}], seeds=1)
    status, results = go(sweep, tmp_path / "out", asha=True)
    assert status == 0
    assert "stopped" in {row["status"] for row in results.trials.rows}
    assert results.trials.rows[0]["status"] == "finished"


def test_one_run_resumes_and_says_when_there_is_nothing_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig(**TINY, method="first_order", actors=2)
    assert run(config, tmp_path / "out") == 0
    training = Training(config)
    list(training)
    results = Results(tmp_path / "out", f"run-{config.key()}")
    assert results.theta(config).tobytes() == training.server.theta.tobytes()
    capsys.readouterr()
    assert run(config, tmp_path / "out") == 0
    assert "already finished" in capsys.readouterr().out
