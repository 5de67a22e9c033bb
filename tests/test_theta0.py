"""Where a run begins, and whose random numbers judge it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raypfrl import RunConfig, train
from raypfrl.populations.gridworld import gathered, held_out_goals, train_goals
from raypfrl.settings import SettingsError


def config(**settings: Any) -> RunConfig:
    small = {"rounds": 1, "tau": 1, "m_h": 2, "m_in": 2, "m_out": 2, "m_eval": 4, "m_adapt": (0, 4), "n": 3}
    return RunConfig(**{"population": "navigation", "method": "exact", **small, **settings})


def theta_0(**settings: Any) -> Any:
    return config(**settings).build_population().initial()


def test_the_papers_is_drawn_as_its_code_draws_it() -> None:
    rng = np.random.default_rng(123)
    W1, W2 = rng.normal(0.0, 0.5, (2, 32)), rng.normal(0.0, 0.1, (32, 8))
    assert np.array_equal(theta_0(theta0="paper"), np.concatenate([W1.ravel(), np.zeros(32), W2.ravel(), np.zeros(8)]))


def test_draw_0_is_the_shared_one_and_renames_no_trial() -> None:
    assert config(theta0=0).key() == config(theta0="shared").key() == config().key()
    assert "theta0" not in config().identity()
    assert "evaluation_seed" not in config().identity()
    drawn = [theta_0(theta0=draw).tobytes() for draw in ("shared", "paper", 1, 2, "3")]
    assert len(set(drawn)) == len(drawn)


def test_a_run_goes_on_from_another_runs_theta_wherever_it_is_computed(tmp_path: Path) -> None:
    """One run of two rounds is not two of one (their rounds have other random numbers), but begins where it is told."""
    training = train(config())
    list(training)
    file = tmp_path / "trial @ 1.npz"
    np.savez(file, theta=training.server.theta, round=1)
    further = config(theta0=str(file))
    assert further.theta0.startswith(f"{file}@")
    assert config(theta0=further.theta0).key() == further.key() != config().key()
    away = pickle.dumps(further)
    np.savez(file, theta=np.zeros(training.server.theta.size))
    with pytest.raises(SettingsError, match="is another now"):
        config(theta0=further.theta0)
    file.unlink()
    arrived = pickle.loads(away)
    assert arrived.build_population().initial().tobytes() == training.server.theta.tobytes()
    assert next(iter(train(arrived)))["before/return"] > 0


def test_agents_alone_begin_there_too() -> None:
    settings = {"method": "independent", "m_h": 0, "m_out": 0, "evaluation_seed": 3}
    first = [next(iter(train(config(seed=seed, theta0="paper", **settings)))) for seed in (0, 1)]
    assert first[0]["before/return"] == first[1]["before/return"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"theta0": -1}, "give shared, paper, a draw from 1"),
        ({"theta0": "nothing.npz"}, "no such file; give shared, paper, a number"),
        ({"theta0": __file__}, "no .npz file with an array theta"),
        ({"theta0": "other.npz"}, r"its theta is \(3,\), and the policy needs \(360,\)"),
        ({"theta0": "nan.npz"}, "finite"),
        ({"theta0": 1, "population": "gridworld", "n": 8}, "begins at the same theta whatever is drawn"),
        ({"evaluation_seed": -1}, "give own, or a number"),
    ],
)
def test_what_cannot_be_begun_from_is_refused(
    settings: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("other.npz", theta=np.zeros(3))
    np.savez("nan.npz", theta=np.full(360, np.nan))
    with pytest.raises(SettingsError, match=says):
        config(**settings)


def test_an_evaluation_seed_judges_every_seed_alike() -> None:
    """The first evaluation, of the same theta^0, is the same for all seeds; training goes on as without it."""
    own, common = ([train(config(seed=s, evaluation_seed=e)) for s in (0, 1)] for e in ("own", 5))
    rows = [[list(training) for training in trainings] for trainings in (own, common)]
    for name in ("before/return", "after/return"):
        assert rows[0][0][0][name] != rows[0][1][0][name]
        assert rows[1][0][0][name] == rows[1][1][0][name]
    for mine, judged in zip(own, common, strict=True):
        assert mine.server.theta.tobytes() == judged.server.theta.tobytes()


def test_goals_gather_in_a_corner() -> None:
    for size in (5, 6, 20):
        goals = (*train_goals(size), *held_out_goals(size))
        assert tuple(gathered(goal, 1.0, size) for goal in goals) == goals
        assert {gathered(goal, 0.0, size) for goal in goals} == {(0, 0)}
        border = {0, size - 1}
        assert all(border & set(gathered(goal, 0.37, size)) for goal in goals)


def test_goals_on_the_arc_spread() -> None:
    for spread, widest in ((0.0, 0.0), (1.0, 1.0), (3.0, 3.0)):
        goals = [task.goal for task in config(spread=spread).build_population().train]
        angles = [np.arctan2(y, x) for x, y in goals]
        assert np.ptp(angles) == pytest.approx(widest)
