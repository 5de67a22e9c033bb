"""MAML-LQR: a step is taken only where every agent can act with it, and can adapt from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import arrays_after, few

from raypfrl import RunConfig, Training
from raypfrl.populations.lqr import LqrTask

TOO_LARGE = {"population": "lqr", "beta": 0.3, "rounds": 30, "evaluate": 30}  # 10 times what suits


def stable(task: Any, theta: Any) -> bool:
    """The spectral radius of A - B K is below 1: by the eigenvalues, not by J."""
    assert isinstance(task, LqrTask)
    K = theta.reshape(len(task.R), len(task.A))
    return bool(np.abs(np.linalg.eigvals(np.array(task.A) - np.array(task.B) @ K)).max() < 1)


def safe(config: RunConfig, theta: Any) -> bool:
    """theta keeps every system stable, and so does an adaptation step of each from it."""
    tasks = config.build_population().train
    steps = [theta + config.alpha * task.closed_form().gradient(theta) for task in tasks]  # type: ignore[union-attr]
    return all(stable(task, theta) and stable(task, step) for task, step in zip(tasks, steps, strict=True))


def test_every_iterate_keeps_every_system_stable_and_what_was_refused_is_counted() -> None:
    config = RunConfig(method="maml_lqr", **TOO_LARGE)
    server = Training(config).server
    refused = 0
    for _ in range(config.rounds):
        before = server.theta
        server.run_round()
        stayed = np.array_equal(server.theta, before)
        refused += stayed
        assert safe(config, server.theta)
        assert np.isfinite(server.theta).all()
    assert 0 < refused < config.rounds
    assert server.arrays["refused"] == refused
    *_, last = Training(config)
    assert (last["status"], last["refused"]) == ("finished", refused)


def test_the_same_steps_untried_leave_the_set() -> None:
    """The control: it ends with a word, and theta stays at the last finite one."""
    training = Training(RunConfig(method="exact", **TOO_LARGE))
    *_, last = training
    assert last["status"] == "diverged"
    assert "the policy gradient came out not finite" in last["message"]
    assert np.isfinite(training.server.theta).all()


@pytest.mark.parametrize("oracle", ["exact", "zeroth_order"])
@pytest.mark.parametrize("method", ["exact", "first_order"])
def test_where_nothing_is_refused_the_bytes_are_those_of_the_direction(method: str, oracle: str) -> None:
    guarded = {"exact": "maml_lqr", "first_order": "maml_lqr_first_order"}[method]
    runs = [
        arrays_after(few("lqr", name, oracle=oracle, cohort=3, horizon=20, smoothing=0.2, beta=1e-3, m_adapt=(0,)))
        for name in (guarded, method)
    ]
    assert runs[0].server.arrays["refused"] == 0
    assert runs[0].server.theta.tobytes() == runs[1].server.theta.tobytes()


def test_from_rollouts_alone_a_step_is_refused_too() -> None:
    """That a system is stable is then seen by its coming to rest."""
    config = RunConfig(method="maml_lqr", oracle="zeroth_order", **{**TOO_LARGE, "rounds": 8, "beta": 0.5, "m_h": 50})
    server = Training(config).server
    for _ in range(config.rounds):
        server.run_round()
        assert all(stable(task, server.theta) for task in config.build_population().train)
    assert server.arrays["refused"] > 0


def test_it_needs_everyone() -> None:
    with pytest.raises(ValueError, match="maml_lqr needs every agent in every round"):
        RunConfig(population="lqr", method="maml_lqr", cohort=2)
