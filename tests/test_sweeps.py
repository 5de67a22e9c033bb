"""Sweeps: the plan, the division of the machine, the result files, and real runs of every sweep on Ray and Tune."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray import tune

from raypfrl import RunConfig, SettingsError, Training
from raypfrl.cli import main
from raypfrl.listing import sweep_files
from raypfrl.sweeps import Sweep, load
from raypfrl.sweeps.cluster import cluster_address, connected
from raypfrl.sweeps.launch import launch
from raypfrl.sweeps.machine import layout
from raypfrl.sweeps.results import Results, Table, pack, unpack, write
from raypfrl.sweeps.resume import resume
from raypfrl.sweeps.single import run
from raypfrl.tracking import UNTRACKED

TINY = {"population": "gridworld", "oracle": "exact", "rounds": 3, "tau": 1, "evaluate": 1, "n": 2}
FILES = sweep_files()


@pytest.fixture(scope="module", autouse=True)
def two_cpus() -> Iterator[None]:
    """One local Ray for the module: its start is most of a small sweep's time."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def go(sweep: Sweep, folder: Path, **options: object) -> tuple[int, Results]:
    results = Results(folder, "tiny")
    return launch(sweep.swept(), sweep.trials(), results, **options), Results(folder, "tiny")  # type: ignore[arg-type]


def theta_of(results: Results, config: RunConfig) -> np.ndarray:
    state = results.saved_state(config.key())
    assert state is not None
    return unpack(state)["theta"]


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
        (60, "auto", 2, "60 trials, 2 at a time, 1 actor of 6 agents each"),
        (1, "auto", 2, "1 trial, 1 at a time, 2 actors of 3 agents each"),
        (1, "auto", 64, "1 trial, 1 at a time, 6 actors of 1 agent each"),
        (4, 3, 8, "4 trials, 2 at a time, 3 actors of 2 agents each"),
        (4, 0, 3, "4 trials, 3 at a time, agents in the trial's own process"),
    ],
)
def test_layout(trials: int, actors: int | str, cpus: int, said: str) -> None:
    configs = [RunConfig(population="navigation", method="exact", seed=seed, actors=actors) for seed in range(trials)]
    assert str(layout(configs, cpus)) == said


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


def test_a_line_cut_off_by_a_crash_is_dropped(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.csv", ("a", "b"))
    table.append([{"a": 1, "b": 0.1}, {"a": 2}])
    whole = table.path.read_text()
    assert whole == "a,b\n1,0.1\n2,\n"
    table.path.write_text(whole + "3,0")
    again = Table(table.path, ("a", "b"))
    assert again.rows == [{"a": "1", "b": "0.1"}, {"a": "2", "b": ""}]
    assert table.path.read_text() == whole + "3,0", "reading writes nothing: another process may be writing that line"
    again.append([{"a": 4}])
    assert table.path.read_text() == whole + "4,\n"
    with pytest.raises(SettingsError, match="a raypfrl with other columns"):
        Table(table.path, ("a", "c"))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "f", b"old")

    def full(self: Path, target: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path / "f", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_a_checkpoint_holds_no_pickle(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack(pack({"theta": np.array([{}], dtype=object)}))


def test_the_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SettingsError, match="not empty"):
        Results(tmp_path, "tiny")
    (tmp_path / "sweep.json").write_text(json.dumps({"sweep": "other", "trials": {}}))
    with pytest.raises(SettingsError, match="holds the results of other"):
        Results(tmp_path, "tiny")


# Real runs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_sweep_smokes(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        assert [theta_of(results, config).tobytes() for config in configs] == alone
    begun = Training(configs[0])
    partial = Results(tmp_path / "resumed", "tiny")
    partial.begin(configs, {})
    for _ in range(2):
        metrics = next(begun)
        partial.record(configs[0].key(), configs[0], {**metrics, "checkpoint": pack(begun.state())})
    partial.close()
    status, results = go(sweep, tmp_path / "resumed")
    assert status == 0
    assert [theta_of(results, config).tobytes() for config in configs] == alone
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
    assert np.isfinite(theta_of(results, sweep.trials()[0])).all()


def test_asha_stops_trials_early(tmp_path: Path) -> None:
    sweep = Sweep(base={**TINY, "method": "exact", "rounds": 9}, grids=[{"beta": [0.5, 0.3, 1e-3, 1e-4]}], seeds=1)
    status, results = go(sweep, tmp_path / "out", asha=True)
    assert status == 0
    assert "stopped" in {row["status"] for row in results.trials.rows}
    assert results.trials.rows[0]["status"] == "finished"


def test_what_a_scheduler_has_stopped_goes_on_without_it(tmp_path: Path) -> None:
    assert run(SHORT, tmp_path) == 0
    before = found(tmp_path)
    results = Results(tmp_path, f"run-{SHORT.key()}")
    results.trials.replace([{**results.trials.rows[0], "status": "stopped"}])
    assert not results.left([SHORT], asha=True)
    assert results.left([SHORT]) == [SHORT]
    assert run(SHORT, tmp_path) == 0
    assert found(tmp_path) == before


# --- folders that were killed, cut, shared, damaged -------------------------------------------------------------------


SHORT = RunConfig(**{**TINY, "evaluate": 2}, method="exact", actors=0)  # evaluated after 0, 2 and 3 rounds


def found(folder: Path) -> tuple[str, list[dict[str, str]]]:
    results = Results(folder, f"run-{SHORT.key()}")
    return (folder / "evaluations.csv").read_text(), [{**row, "seconds": ""} for row in results.trials.rows]


@pytest.mark.parametrize(
    "lost",
    [
        lambda out: (out / "trials.csv").unlink(),  # as by a kill between the last checkpoint and the trial's row
        lambda out: (out / "evaluations.csv").unlink(),
        lambda out: [(out / name).unlink() for name in ("trials.csv", "evaluations.csv")],
        lambda out: [(out / name).unlink() for name in ("trials.csv", "checkpoints/" + SHORT.key() + ".npz")],
        lambda out: cut(out / "evaluations.csv", 2),  # within the first evaluation
        lambda out: cut(out / "evaluations.csv", -1),  # within the last
    ],
    ids=["the row", "the evaluations", "both tables", "row and checkpoint", "first rows", "last rows"],
)
def test_what_is_lost_is_found_again(tmp_path: Path, lost: Callable[[Path], object]) -> None:
    assert run(SHORT, tmp_path) == 0
    before = found(tmp_path)
    assert len(before[0].splitlines()) == 1 + 3 * 4, "train and held out, m_adapt 0 and exact"
    lost(tmp_path)
    assert run(SHORT, tmp_path) == 0
    assert found(tmp_path) == before
    assert run(SHORT, tmp_path) == 0
    assert found(tmp_path) == before


def cut(path: Path, lines: int) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    first = Results(tmp_path, f"run-{SHORT.key()}")
    first.begin([SHORT], {})
    with pytest.raises(SettingsError, match="another process is writing there"):
        run(SHORT, tmp_path)
    late = Results(tmp_path, f"run-{SHORT.key()}")
    training = Training(SHORT)
    first.record(SHORT.key(), SHORT, {**next(training), "checkpoint": pack(training.state())})
    first.close()
    with pytest.raises(SettingsError, match="another process has just written there"):
        late.begin([SHORT], {})
    late.close()
    assert run(SHORT, tmp_path) == 0


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("sweep.json", b"", "damaged"),
        ("sweep.json", b"[]", "damaged"),
        ("sweep.json", b"\xff{}", "damaged"),
        ("sweep.json", b'{"sweep": "tiny"}', "damaged"),
        ("sweep.json", b'{"sweep": "tiny", "trials": []}', "damaged"),
        ("trials.csv", b"\xff\n", "damaged"),
        ("evaluations.csv", b"only,two\n", "other columns"),
        ("evaluations.csv", b"HEADER\nabc,0\n", "damaged (line 2)"),
        ("evaluations.csv", b"HEADER\nabc,x,train,0,1,1,1,1,1,\n", "damaged (line 2)"),
        ("sweep.json", b'{"sweep": "tiny", "trials": {}, "how": null}', "damaged"),
        ("trials.csv", b"HEADER\n" + b"x" * 200_000 + b"\n", "damaged"),
        ("checkpoints/KEY.npz", b"", "damaged; delete it"),
        ("checkpoints/KEY.npz", b"junk", "damaged; delete it"),
        ("checkpoints/KEY.npz", pack({"round": 2}), "damaged; delete it"),
        (
            "checkpoints/KEY.npz",
            pack({"theta": np.full(100, np.nan), "round": 2, "drift": 0.0, "seconds": 1.0}),
            "damaged; delete it",
        ),
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, said: str
) -> None:
    assert run(SHORT, tmp_path) == 0
    path = tmp_path / name.replace("KEY", SHORT.key())
    data = data.replace(b"HEADER", path.read_bytes().splitlines()[0])
    path.write_bytes(data)
    if path.suffix == ".npz":
        (tmp_path / "trials.csv").unlink()
    capsys.readouterr()
    assert main(["resume", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert said in line
    assert path.read_bytes() == data


def test_what_goes_wrong_before_a_run_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the folder has a row of it: nobody else's journal is told about it."""
    assert run(SHORT, tmp_path) == 0
    results = Results(tmp_path, f"run-{SHORT.key()}")
    results.trials.replace([{**results.trials.rows[0], "status": "failed"}])
    results.checkpoint(SHORT.key()).write_bytes(b"abc")
    capsys.readouterr()
    assert main(["resume", str(tmp_path), "--tracking", "offline"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_diagnostics_survive_a_kill_between_two_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = RunConfig(**{**SHORT.model_dump(), "diagnostics": True})
    assert run(watched, tmp_path / "whole") == 0
    written = Table.append

    def killed(table: Table, rows: Iterable[Any]) -> None:
        if table.path.name == "evaluations.csv" and len(table.rows) > 4:  # the third evaluation
            raise KeyboardInterrupt
        written(table, rows)

    monkeypatch.setattr(Table, "append", killed)
    assert run(watched, tmp_path / "cut") == 130
    monkeypatch.undo()
    assert run(watched, tmp_path / "cut") == 0
    whole, cut_off = ((tmp_path / name / "diagnostics.csv").read_text() for name in ("whole", "cut"))
    assert cut_off == whole != ""


def test_a_file_in_the_folders_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "sub", tmp_path / ("x" * 300)):
        assert main(["run", "gridworld", "exact", "--actors", "0", "--out", str(out)]) == 2
        assert capsys.readouterr().err.endswith("; give a folder\n")


def test_a_sweep_may_be_called_as_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path / "out", "run-all")
    trials = Sweep(base={**TINY, "method": "exact"}, seeds=2).trials()
    results.begin(trials, {"swept": ["method"]})
    results.close()
    resumed: list[RunConfig] = []
    monkeypatch.setattr("raypfrl.sweeps.launch.launch", lambda swept, configs, *_, **__: resumed.extend(configs) or 0)
    assert resume(tmp_path / "out", None, False, UNTRACKED) == 0
    assert resumed == trials


def test_one_run_resumes_and_says_when_there_is_nothing_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig(**TINY, method="first_order", actors=2)
    assert run(config, tmp_path / "out") == 0
    training = Training(config)
    list(training)
    results = Results(tmp_path / "out", f"run-{config.key()}")
    assert theta_of(results, config).tobytes() == training.server.theta.tobytes()
    capsys.readouterr()
    assert run(config, tmp_path / "out") == 0
    assert "already finished" in capsys.readouterr().out
