"""Synthetic result files: made-up numbers of a plausible shape, so that every figure can be drawn without training."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.frames import RESULTS

Rows = tuple[pd.DataFrame, pd.DataFrame]
METHODS = ("exact", "first_order", "fedavg_pg")
OUTCOME = ("status", "round", "after/return", "trajectories", "floats_sent", "seconds")
GRIDWORLD = {
    "population": "gridworld", "oracle": "fused", "n": 8, "gamma": 0.9, "horizon": 15, "rounds": 80, "tau": 5,
    "alpha": 2.0, "beta": 0.3, "m_in": 10, "m_h": 10, "m_out": 10, "participants": "train",
}  # fmt: skip
NAVIGATION = {
    **GRIDWORLD, "population": "navigation", "n": 6, "horizon": 20, "rounds": 150, "alpha": 1.0, "beta": 0.2,
}  # fmt: skip


def _run(settings: Mapping[str, Any], evaluations: list[dict[str, Any]]) -> Rows:
    names = ("method", "population", "alpha", "beta", "tau", "m_in", "m_h", "curvature", "curvature_clip", "seed")
    trial = "-".join(str(settings.get(name)) for name in names)
    per_step = 20 if settings["method"] == "first_order" else 30
    for row in evaluations:
        row.setdefault("trajectories", row["round"] * settings["tau"] * per_step)
        row.setdefault("success", min(1.0, row["return"] / 2.2))
        row.setdefault("final_distance", 1.0)
    last = [row for row in evaluations if row["round"] == max(r["round"] for r in evaluations)]
    outcome = {
        "status": "finished",
        "after/return": last[-1]["return"],
        "round": last[-1]["round"],
        "trajectories": last[-1]["trajectories"],
        "floats_sent": 2 * 100 * settings["n"] * last[-1]["round"],
        "seconds": 1.0,
    }
    return pd.DataFrame([{"trial": trial, **settings, **outcome}]), pd.DataFrame(
        [{"trial": trial, **r} for r in evaluations]
    )


def _curves(settings: Mapping[str, Any], end: tuple[float, float], every: int, noise: float, adapt: str) -> Rows:
    r = np.random.default_rng([settings["seed"], len(settings["method"])])
    before, after = (x + noise * r.normal() for x in end)
    rows = []
    for k in range(0, settings["rounds"] + 1, every):
        rise = 1 - np.exp(-4 * k / settings["rounds"])
        for m_adapt, start, final in (("0", 0.2439, before), (adapt, 0.26, after)):
            value = start + (final - start) * rise + (noise / 2 * r.normal() if k else 0)
            rows.append({"round": k, "split": "train", "m_adapt": m_adapt, "return": value})
    return _run(settings, rows)


def personalization(seeds: int) -> Iterator[Rows]:
    for method, end in zip(METHODS, ((0.51, 0.79), (0.55, 0.73), (0.53, 0.68)), strict=True):
        for seed in range(seeds):
            yield _curves({**GRIDWORLD, "method": method, "seed": seed}, end, 4, 0.015, "exact")


def adaptation_step_size(seeds: int) -> Iterator[Rows]:
    for alpha, (method, top) in itertools.product(
        (0.0, 0.25, 0.5, 1.0, 2.0, 3.0), zip(METHODS, (0.92, 0.87, 0.78), strict=True)
    ):
        after = 0.49 + (top - 0.49) * alpha / 3
        for seed in range(seeds):
            yield _curves(
                {**GRIDWORLD, "method": method, "alpha": alpha, "seed": seed}, (0.49, after), 80, 0.012, "exact"
            )


def curvature_bottleneck(seeds: int) -> Iterator[Rows]:
    for m_h, trained in ((10, 0.0), (50, 0.0), (100, 0.0), (200, 0.02), (500, 0.15), (1000, 0.55)):
        for seed in range(seeds):
            r = np.random.default_rng([m_h, seed])
            after = abs(r.normal(1.7, 0.15) if r.uniform() < trained else 0.2 + r.exponential(0.1 + m_h / 2500))
            yield _curves({**NAVIGATION, "method": "exact", "m_h": m_h, "seed": seed}, (0.2, after), 10, 0.01, "256")
    for seed in range(seeds):
        yield _curves({**NAVIGATION, "method": "fedavg_pg", "seed": seed}, (1.5, 1.8), 10, 0.08, "256")


def few_shot(seeds: int) -> Iterator[Rows]:
    budgets = {0: 1.53, 20: 1.2, 50: 1.42, 100: 1.55, 200: 1.94, 500: 2.0}
    for seed in range(seeds):
        r = np.random.default_rng(seed)
        rows = [
            {
                "round": 150,
                "split": "held_out",
                "m_adapt": str(m),
                "return": x + 0.08 * r.normal(),
                "success": 0.5 + x / 5,
            }
            for m, x in budgets.items()
        ]
        yield _run({**NAVIGATION, "method": "first_order", "seed": seed}, rows)
        grown = {0: 0.26, 1: 0.25, 5: 0.25, 25: 0.6, 100: 1.5, 200: 2.2}
        rows = [
            {"round": g, "split": "held_out", "m_adapt": "0", "return": x + 0.04 * r.normal(),
             "success": 0.1 + x / 2.75 + 0.01 * r.normal(), "trajectories": 20 * g}
            for g, x in grown.items()
        ]  # fmt: skip
        yield _run({**NAVIGATION, "method": "independent", "tau": 1, "participants": "held_out", "seed": seed}, rows)


def few_shot_judges(seeds: int) -> Iterator[Rows]:
    """The same seeds, judged three times."""
    for evaluation_seed in range(3):
        for trials, rows in few_shot(seeds):
            again = trials.assign(
                evaluation_seed=evaluation_seed, trial=[f"{t}-{evaluation_seed}" for t in trials["trial"]]
            )
            yield (
                again,
                rows.assign(trial=again["trial"].iloc[0], **{"return": rows["return"] + 0.01 * evaluation_seed}),
            )


def local_steps(seeds: int) -> Iterator[Rows]:
    points = [(tau, beta) for tau in (1, 2, 5, 10, 20) for beta in dict.fromkeys((1.5 / tau, 0.3))]
    for (tau, beta), method, seed in itertools.product(points, ("exact", "first_order"), range(seeds)):
        grid = {**GRIDWORLD, "method": method, "tau": tau, "beta": beta, "rounds": 400 // tau, "seed": seed}
        after = 0.75 + (method == "exact") * 0.05 - 0.03 * abs(np.log(beta / 0.3)) - 0.002 * tau
        yield _curves(grid, (0.5, after), 400 // tau, 0.012, "exact")


def curvature_remedies(seeds: int) -> Iterator[Rows]:
    estimators = ("paper", "causal", "causal_baseline", "causal_value")
    points = [*itertools.product((10, 100, 1000), estimators, (None, 1.0)), (10, "paper", 0.5), (10, "causal", 0.5)]
    for (m_h, curvature, clip), seed in itertools.product(points, range(seeds)):
        after = 1.7 if clip else 0.2 + 0.15 * np.log10(m_h) * (1 + estimators.index(curvature))
        grid = {**NAVIGATION, "method": "exact", "m_h": m_h, "curvature": curvature, "curvature_clip": clip}
        yield _curves({**grid, "seed": seed}, (after / 2, after), 150, 0.1, "256")
    for seed in range(seeds):
        free = {**NAVIGATION, "method": "fedavg_pg", "curvature": "paper", "curvature_clip": None, "seed": seed}
        yield _curves(free, (1.5, 1.8), 150, 0.08, "256")


def matched_budget(seeds: int) -> Iterator[Rows]:
    exact = [("exact", 10, 10, 10, "paper", None), ("exact", 10, 10, 10, "causal_value", 0.5)]
    free = [(method, m, 0, m, "paper", None) for method in ("first_order", "fedavg_pg") for m in (15, 10)]
    for family, (method, m_in, m_h, m_out, curvature, clip), seed in itertools.product(
        (GRIDWORLD, NAVIGATION), [*exact, *free], range(seeds)
    ):
        rounds = family["rounds"] * 30 // (m_in + m_h + m_out)
        grid = {**family, "method": method, "m_in": m_in, "m_h": m_h, "m_out": m_out, "rounds": rounds, "seed": seed}
        top = 0.7 + 0.1 * ((clip or 0) - (method == "fedavg_pg")) + 0.9 * (family is NAVIGATION)
        settings = {**grid, "curvature": curvature, "curvature_clip": clip}
        trials, rows = _curves(settings, (top / 2, top), rounds, 0.05, "exact" if family is GRIDWORLD else "256")
        rows["trajectories"] = rows["round"] * 5 * (m_in + m_h + m_out)
        yield trials, pd.concat([rows, rows.assign(split="held_out", **{"return": rows["return"] - 0.05})])


SWEEPS: Mapping[str, Callable[[int], Iterator[Rows]]] = {
    "personalization": personalization,
    "adaptation_step_size": adaptation_step_size,
    "curvature_bottleneck": curvature_bottleneck,
    "curvature_bottleneck_100": curvature_bottleneck,
    "curvature_remedies": curvature_remedies,
    "few_shot": few_shot,
    "few_shot_100": few_shot,
    "few_shot_judges": few_shot_judges,
    "local_steps": local_steps,
    "matched_budget": matched_budget,
}


def write(directory: Path, name: str, seeds: int) -> Path:
    """The folder of a made-up sweep in ``directory``."""
    trials, evaluations = (pd.concat(parts, ignore_index=True) for parts in zip(*SWEEPS[name](seeds), strict=True))
    folder = directory / name
    folder.mkdir(parents=True)
    trials.to_csv(folder / "trials.csv", index=False)
    evaluations.to_csv(folder / "evaluations.csv", index=False)
    about = {
        "sweep": name, "command": f"raypfrl sweep {name}", "swept": ["method", "alpha", "beta", "tau", "m_h"],
        "versions": {"python": "3.11.7", "raypfrl": "0.1.0", "torch": None}, "git_commit": "0" * 40,
        "machine": {"system": "Linux", "cpus": 2}, "starts": [{"wall": 12.5, "kernels": 9.25}],
        "trials": {t.pop("trial"): t for t in trials.drop(columns=list(OUTCOME)).to_dict("records")},
    }  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(about))
    if name == "few_shot":
        _rollouts().to_csv(folder / "rollouts.csv", index=False)
    return folder


def _noise() -> pd.DataFrame:
    points = itertools.product(
        ("gridworld", "navigation"), ("initial", "trained"), range(10),
        enumerate(("paper", "causal", "causal_baseline", "causal_value")), (10, 100, 1000),
    )  # fmt: skip
    rows = [
        (population, name, seed, curvature, m_h, x := (40 + seed) / m_h / 2**better, x / 2)
        for population, name, seed, (better, curvature), m_h in points
    ]
    columns = ["population", "parameters", "seed", "curvature", "m_h", "squared_error", "relative_error"]
    return pd.DataFrame(rows, columns=columns)


def _rollouts() -> pd.DataFrame:
    r = np.random.default_rng(0)
    goal, rows = np.array([0.78, 0.17]), []
    for phase, noise in (("before", 0.9), ("after", 0.35), ("from scratch", 0.9)):
        for episode, start in enumerate(np.random.default_rng(1).uniform(-1, 1, (12, 2))):
            at = start
            for h in range(21):
                rows.append((*goal, phase, episode, h, *at))
                towards = goal - at + noise * r.normal(size=2)
                at = np.clip(at + 0.15 * towards / np.linalg.norm(towards), -1, 1)
    return pd.DataFrame(rows, columns=["goal_x", "goal_y", "phase", "episode", "h", "x", "y"])


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every sweep, made up; read only."""
    directory = tmp_path_factory.mktemp("results")
    for name in SWEEPS:
        write(directory, name, 24 if name.endswith("_100") else 10)
    (directory / "curvature_noise").mkdir()
    _noise().to_csv(directory / "curvature_noise" / "noise.csv", index=False)
    shutil.copytree(RESULTS / "table1", directory / "table1")  # not made up: its panels read each sweep in its own way
    return directory


@pytest.fixture
def write_sweep() -> Callable[[Path, str, int], Path]:
    """Writes one made-up sweep: (directory, name, seeds) -> its folder."""
    return write
