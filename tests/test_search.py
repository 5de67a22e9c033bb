"""A search finds the same points from the same results, whatever happened in between. No Ray: results are made up."""

from __future__ import annotations

import builtins
import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from raypfrl import RunConfig, SettingsError
from raypfrl.cli import main
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.search import BATCH, Search

pytest.importorskip("optuna")
SPACE = {"alpha": tune.uniform(0, 3), "beta": tune.loguniform(0.01, 1.0), "m_h": tune.randint(1, 99)}
SWEEP = Sweep(
    base={"population": "bandit", "oracle": "exact", "rounds": 2},
    grids=[{"method": ["exact", "first_order"], **SPACE}],
    seeds=2, samples=2 * BATCH + 3,
)  # fmt: skip


def score(config: RunConfig) -> float:
    """Best at alpha = 2, for exact; at alpha = 1 for first order."""
    return -abs(config.alpha - (2 if config.method == "exact" else 1)) + config.seed / 1000


def end(results: Results, configs: Sequence[RunConfig]) -> None:
    for config in configs:
        ended = {"status": "diverged"} if config.beta > 0.5 else {"status": "finished", "after/return": score(config)}
        results.end(config.key(), config, ended)


def searched(folder: Path, interrupted: int = 0, sweep: Sweep = SWEEP) -> list[str]:
    """The keys of all trials, in the order in which they were asked for. Every batch ends in another order; where it is
    ``interrupted``, in the middle of that batch, everything is made anew from the results."""
    results, search = Results(folder, "search"), Search(sweep)
    folder.mkdir(exist_ok=True)
    batch = 0
    while configs := search.grow(results):
        batch += 1
        random.Random(interrupted).shuffle(configs)
        if batch == interrupted:
            end(results, configs[: len(configs) // 2])
            planned = {key: config.identity() for key, config in search.trials.items()}
            results.note({"sweep": "search", "trials": planned})
            results, search = Results(folder, "search"), Search(sweep)
            assert search.grow(results)
            configs = [config for key, config in search.trials.items() if results.row(key) is None]
        end(results, configs)
    assert search.unasked == 0
    return list(search.trials)


def test_the_points_depend_on_results_only(tmp_path: Path) -> None:
    keys = searched(tmp_path / "quiet")
    assert len(keys) == len(set(keys)) == SWEEP.samples * 2 * 2
    assert searched(tmp_path / "interrupted", 2) == keys
    assert searched(tmp_path / "again", 3) == keys


def test_more_samples_go_on_with_the_search(tmp_path: Path) -> None:
    keys = searched(tmp_path / "shorter", sweep=dataclasses.replace(SWEEP, samples=BATCH))
    assert searched(tmp_path / "longer")[: len(keys)] == keys


def test_a_search_finds_better_points_than_drawing_does(tmp_path: Path) -> None:
    """On a smooth score the later points of every study are nearer to its best than the first ones, which are drawn."""
    sweep = dataclasses.replace(SWEEP, samples=5 * BATCH, seeds=1)
    search, results = Search(sweep), Results(tmp_path, "search")
    asked = []
    while configs := search.grow(results):
        asked += configs
        end(results, configs)
    for method in ("exact", "first_order"):
        far = [-score(config) for config in asked if config.method == method]
        assert sum(far[3 * BATCH :]) / (2 * BATCH) < sum(far[:BATCH]) / BATCH


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ({"method": ["exact"], "alpha": [1.0, 2.0]}, "draws nothing"),
        ({"method": ["exact"], "alpha": tune.randn(1.0, 0.1)}, "choose another sampler"),
    ],
)
def test_what_cannot_be_searched_is_one_line(grid: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        Search(dataclasses.replace(SWEEP, grids=[grid]))


def test_without_optuna_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    file = tmp_path / "search.py"
    file.write_text(
        "from ray import tune\nfrom raypfrl.sweeps import Sweep\n"
        "SWEEP = Sweep(base={'population': 'bandit', 'method': 'exact', 'alpha': tune.uniform(0, 3)})\n"
    )
    assert main(["sweep", str(file), "--search", "optuna", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'raypfrl[search]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
