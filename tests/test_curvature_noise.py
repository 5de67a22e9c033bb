"""The study of the noise in H_hat v: what it measures, and what it writes."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tiny import small

from raypfrl import SettingsError
from raypfrl.federation import build_agent
from raypfrl.methods.curvature import ESTIMATORS
from raypfrl.streams import LocalStep
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.results import Results, pack
from raypfrl.sweeps.table import write

FILE = Path(__file__).parent.parent / "tune_configs" / "curvature_noise.py"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The study's file, with few draws."""
    spec = importlib.util.spec_from_file_location("curvature_noise", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DRAWS", 1)
    monkeypatch.setattr(module, "M_H", (30, 480))
    monkeypatch.setattr(module, "M_TRUTH", 3000)
    return module


def test_the_errors_are_against_the_exact_product_and_fall_with_m_h(study: ModuleType) -> None:
    config = small("gridworld", m_h=1)
    theta = 0.1 * np.random.default_rng(0).normal(size=100)
    found = {(name, m_h): errors for name, m_h, *errors in study.noise(config, theta, batches=9)}
    assert set(found) == {(name, m_h) for name in ESTIMATORS for m_h in (30, 480)}
    by_hand = []
    for number in config.agents():
        agent, step = build_agent(config, number), LocalStep(0, number, 9, 0)
        v = study.outer_gradient(config, agent, theta, step)
        error = agent.oracle.hessian_vector_product(theta, v, 30, step.hessian)
        error = error - agent.judge.hessian_vector_product(theta, v, 0, step.hessian)
        by_hand.append([error @ error, config.alpha**2 * (error @ error) / (v @ v)])
    assert found["paper", 30] == pytest.approx(np.mean(by_hand, axis=0))
    for name in ESTIMATORS:  # 16 times the trajectories, of which the first are the same
        assert found[name, 480][0] < found[name, 30][0] / 3


def test_a_row_for_every_trial_parameters_estimator_and_m_h(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [small("gridworld", "fedavg_pg"), small("navigation", "fedavg_pg")]
    monkeypatch.setattr(Sweep, "trials", lambda sweep: configs)
    results = Results(tmp_path, "curvature_noise")
    results.begin(configs, {})
    with pytest.raises(SettingsError, match=f"no theta of a finished trial {configs[0].key()}"):
        study.measure(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    for config in configs:
        theta = 0.3 * np.random.default_rng(0).normal(size=config.build_population().policy.dim)
        write(
            results.checkpoint(config.key()),
            pack({"theta": theta, "round": config.rounds, "drift": 0.0, "seconds": 1.0}),
        )
        results.end(config.key(), config, {"status": "finished", "round": config.rounds})
    with study.measure(tmp_path).open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * len(ESTIMATORS) * 2
    assert {row["parameters"] for row in rows} == {"initial", "trained"}
    assert all(float(row["squared_error"]) > 0 for row in rows)
