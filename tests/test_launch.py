"""What a sweep costs besides its trials: copies, looks and files are counted, and none of them grows with the sweep."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from own import forgotten
from ray import tune

from raypfrl import RunConfig, SettingsError
from raypfrl.cli import main
from raypfrl.sweeps import Sweep, recorder, tensorboard
from raypfrl.sweeps.cluster import connected
from raypfrl.sweeps.launch import launch
from raypfrl.sweeps.machine import check_compiler, layout
from raypfrl.sweeps.plan import Plan, Run
from raypfrl.sweeps.results import Results, unpack
from raypfrl.sweeps.search import BATCH, Search
from raypfrl.sweeps.terminal import where
from raypfrl.uses import use

BANDIT = {"population": "bandit", "method": "exact", "oracle": "exact", "rounds": 2, "evaluate": 1}
TRIALS = Sweep(base=BANDIT, grids=[{"alpha": [0.1, 0.2, 0.3, 0.4]}], seeds=4)


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    with connected(2):  # which waits for Ray for as long as a busy machine needs
        yield


def go(sweep: Sweep, folder: Path, **how: Any) -> tuple[int, Results]:
    status = launch(sweep.swept(), sweep.trials(), Results(folder, "counted"), **how)
    return status, Results(folder, "counted")


class Counting(recorder.Recorder):
    """A recorder that notes how many trials Tune has in its list."""

    seen: Counter[str] = Counter()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        super().on_step_end(iteration, trials, **info)
        Counting.seen["most"] = max(Counting.seen["most"], len(trials))


@pytest.mark.usefixtures("two_cpus")
def test_nothing_is_copied_or_looked_through_once_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trial's settings are written out once, and Tune looks at the trials that run, however many there were."""
    told: Counter[str] = Counter()

    def written(self: Run, config: RunConfig, state: bytes | None) -> None:
        told["runs"] += 1
        told["states"] += state is not None
        vars(self).update(config=config, state=state)

    monkeypatch.setattr(Run, "__init__", written)
    monkeypatch.setattr(recorder, "Recorder", Counting)
    Counting.seen.clear()
    status, results = go(TRIALS, tmp_path)
    assert status == 0
    assert len(results.trials.rows) == 16
    assert told == {"runs": 16, "states": 0}
    assert 2 <= Counting.seen["most"] <= 4, "two run, one may have just ended, one is the last"


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize("most", [1000, 3], ids=["with event files", "too many for event files"])
def test_files_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """One, its checkpoint; two with TensorBoard's; whatever is swept. Tune keeps neither settings nor theta."""
    monkeypatch.setattr(tensorboard, "MOST", most)
    assert go(TRIALS, tmp_path)[0] == 0
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    events = [path for path in files if path.parts[0] == "tune"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 16
    assert len(events) == (16 if most > 16 else 0)
    assert all(path.name.startswith("events.out.tfevents.") for path in events)
    assert len(files) - 16 - len(events) <= 6
    thetas = [unpack(path.read_bytes())["theta"].tobytes() for path in (tmp_path / "checkpoints").iterdir()]
    assert not [path for path in events if any(theta in (tmp_path / path).read_bytes() for theta in thetas)]


def test_what_is_sent_is_not_copied() -> None:
    run = Run(RunConfig(population="gridworld", method="exact"), b"state")
    assert copy.deepcopy({"run": run})["run"] is run


def test_trials_are_given_in_order_and_as_many_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr("raypfrl.sweeps.plan.Planned", lambda key, run, spec: made.append(key) or key)
    configs, over = TRIALS.trials(), threading.Event()
    plan = Plan(configs, 2, {configs[1].key(): b"state"}.get, over)
    assert plan.total_samples == 16
    assert [plan.next_trial() for _ in range(4)] == [configs[0].key(), configs[1].key(), None, None]
    plan.on_trial_complete(configs[1].key())
    assert [plan.next_trial() for _ in range(2)] == [configs[2].key(), None]
    assert not plan.is_finished()
    over.set()
    assert plan.is_finished()
    plan.on_trial_complete(configs[0].key())
    assert plan.next_trial() is None
    assert made == [config.key() for config in configs[:3]]


@pytest.mark.usefixtures("two_cpus")
def test_a_search_is_a_sweep_whose_trials_come_one_batch_after_the_other(tmp_path: Path) -> None:
    """In the folder of an interrupted one it asks for what is left, and at its end for nothing."""
    pytest.importorskip("optuna")
    grids = [{"alpha": tune.uniform(0, 3), "beta": tune.uniform(0.1, 0.2)}]
    sweep = Sweep(base=BANDIT, grids=grids, seeds=1, samples=BATCH + 2)
    for left in (BATCH + 2, 0):
        results = Results(tmp_path, "counted")
        search = Search(sweep)
        assert len(search.grow(results)) == min(left, BATCH)
        assert launch(sweep.swept(), list(search.trials.values()), results, search=search) == 0
    rows = Results(tmp_path, "counted").trials.rows
    assert [row["trial"] for row in rows] == list(search.trials)
    assert {row["status"] for row in rows} == {"finished"}
    assert list(results.about["trials"]) == list(search.trials)
    assert results.about["swept"] == ["alpha", "beta"]
    assert results.about["how"]["search"] is True


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        (Sweep(base=BANDIT, grids=[{f: [*range(1000)] for f in ("alpha", "beta", "m_in", "m_h")}]),
         "1000 alpha x 1000 beta x 1000 m_in x 1000 m_h x 10 seeds = 10000000000000 trials: at most 100000 fit"),
        (Sweep(base=BANDIT, grids=[{"alpha": [*range(1000)]}, {"m_h": [1, 2]}], seeds=200),
         r"\(1000 alpha \+ 2 m_h\) x 200 seeds = 200400 trials"),
    ],
    ids=["points", "seeds"],
)  # fmt: skip
def test_a_sweep_that_is_too_large_is_refused_with_the_arithmetic(sweep: Sweep, said: str) -> None:
    """Before anything is written out: the first would not fit into any memory."""
    with pytest.raises(SettingsError, match=said):
        sweep.trials()


def test_points_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning looks at every point as often as it has settings, not as often as there are points."""
    looks: Counter[str] = Counter()

    class Noted(float):
        def __eq__(self, other: object) -> bool:
            looks["equal"] += 1
            return super().__eq__(other)

        __hash__ = float.__hash__

    Sweep(base=BANDIT, grids=[{"alpha": [Noted(k) for k in range(400)]}], seeds=1).points()
    assert looks["equal"] <= 400


# --- what is said of many ---------------------------------------------------------------------------------------------


def test_names_of_folders_are_bounded_and_distinct() -> None:
    long = [f"exact evaluate={tuple(range(start, 400))} seed=0" for start in (1, 2)]
    names = {tensorboard.name_of_folder(name, f"{number:012x}") for number, name in enumerate(long)}
    assert len(names) == 2
    assert max(map(len, names)) <= tensorboard.LONGEST
    assert tensorboard.name_of_folder("a/b m_h=10 seed=0", "0" * 12) == "a-b-m_h=10-seed=0"


@pytest.mark.usefixtures("two_cpus")
def test_long_settings_may_be_swept(tmp_path: Path) -> None:
    """A folder named by them would be longer than a file system takes."""
    often = [tuple(range(1, 200)), tuple(range(2, 200))]
    status, results = go(Sweep(base={**BANDIT, "rounds": 1}, grids=[{"evaluate": often}], seeds=1), tmp_path)
    assert status == 0
    assert len(list((tmp_path / "tune").rglob("events.out.tfevents.*"))) == 2
    assert {row["status"] for row in results.trials.rows} == {"finished"}


def test_commands_can_be_pasted(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "sweep.json").touch()
    assert f"raypfrl report '{folder}'" in where(folder)


# --- agents in their trial's process ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "cpus", "said"),
    [
        ({"oracle": "fused"}, 2, "3 trials, 2 at a time, agents in the trial's own process"),
        ({"oracle": "autodiff"}, 2, "3 trials, 2 at a time, 1 actor of 6 agents each"),
        ({"oracle": "fused", "actors": 1}, 2, "3 trials, 2 at a time, 1 actor of 6 agents each"),
        ({"oracle": "fused", "min_agents": 3}, 2, "3 trials, 2 at a time, 1 actor of 6 agents each"),
        ({"oracle": "fused"}, 6, "3 trials, 3 at a time, 2 actors of 3 agents each"),
    ],
)
def test_agents_that_cannot_hang_need_no_actor(settings: dict[str, Any], cpus: int, said: str) -> None:
    configs = [RunConfig(population="navigation", method="exact", seed=seed, **settings) for seed in range(3)]
    assert str(layout(configs, cpus)) == said


# --- trials that end otherwise ----------------------------------------------------------------------------------------


STUMBLES = """
import numpy as np
from raypfrl.methods import averaged


def stumbles(oracle, theta, step):
    if step.round == 0:
        raise OSError("the sensor is off")
    return np.zeros_like(theta)


METHODS = {"stumbles": averaged(stumbles)}
"""


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize("asha", [False, True], ids=["no scheduler", "asha"])
def test_trials_may_diverge_and_fail_and_be_of_any_length(tmp_path: Path, asha: bool) -> None:
    """What has no return is not judged by a scheduler. The sweep goes on, and can be given again: what failed is tried
    again, what diverged has ended, and what was stopped goes on without a scheduler."""
    (tmp_path / "stumbling.py").write_text(STUMBLES)
    grids = [
        {"method": "stumbles", "rounds": [2]},
        {"method": "exact", "beta": [1e300], "rounds": [6]},
        {"method": "exact", "beta": [0.01], "rounds": [2, 3, 5]},
    ]
    with forgotten():
        use(tmp_path / "stumbling.py")
        base = {"population": "quadratic", "n": 2, "tau": 1, "evaluate": 1, "m_eval": 8, "m_adapt": 0, "actors": 0}
        sweep = Sweep(base=base, grids=grids, seeds=1)
        for scheduler in dict.fromkeys((asha, False)):
            status, results = go(sweep, tmp_path / "out", asha=scheduler, cpus=1)
            ends = [row["status"] for row in results.trials.rows]
            assert status == 1
            assert ends[:2] == ["failed", "diverged"]
            assert set(ends[2:]) <= {"finished", "stopped" if scheduler else "finished"}
            assert len(ends) == 5
            assert "the sensor is off" in results.trials.rows[0]["message"]


def test_a_run_that_diverged_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in a sweep: that is a result, not a failure, and the same command finds it there."""
    settings = ["m_eval=8", "m_adapt=0", "n=2", "rounds=3", "tau=1", "beta=1e300"]
    command = ["run", "navigation", "fedavg_pg", "--actors", "0", "--tracking", "off", "--out", str(tmp_path / "out")]
    command += [word for setting in settings for word in ("--set", setting)]
    assert main(command) == 0
    assert "diverged" in capsys.readouterr().out
    assert main(command) == 0
    assert "already diverged" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_compiler_that_compiles_nothing_is_named_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was started"))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    file = tmp_path / "file.py"
    file.write_text(
        "from raypfrl.sweeps import Sweep\nSWEEP = Sweep({'population': 'navigation', 'method': 'exact'})\n"
    )
    words = ["run", "gridworld", "exact"] if command == "run" else ["sweep", str(file)]
    assert main([*words, "--out", str(tmp_path / "out"), "--tracking", "off"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "NUMBA_DISABLE_JIT is set, and the oracle fused is compiled: unset it" in line
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    check_compiler([RunConfig(population="gridworld", method="exact")])


def test_a_sweep_that_cannot_be_placed_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was started"))
    with pytest.raises(SettingsError, match="a trial of 3 actors"):
        go(Sweep(base={**BANDIT, "actors": 3}, seeds=1), tmp_path, cpus=2)
    assert not list(tmp_path.iterdir())
