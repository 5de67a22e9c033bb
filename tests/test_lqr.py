"""Linear-quadratic control against finite differences, rollouts and Riccati; and what the methods reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny import central_difference

from raypfrl import RunConfig, SettingsError, Training
from raypfrl.oracles import ORACLES, Diverged, Guarded
from raypfrl.oracles.exact import F, gradient_of_F
from raypfrl.populations import lqr
from raypfrl.streams import Purpose, Stream

POPULATION = lqr()
K_0 = POPULATION.initial()
STREAM = Stream(0, 0, 0, 0, Purpose.INNER)
FORMS = [task.closed_form() for task in POPULATION.tasks]  # type: ignore[union-attr]


def made(name: str, **options: Any) -> list[Any]:
    population = lqr(**options)
    return [ORACLES[name](task, population.policy, 1.0, population.horizon) for task in population.train]


def relative(x: Any, y: Any) -> float:
    return float(np.abs(x - y).max() / np.abs(y).max())


def test_the_objective_is_what_rollouts_cost() -> None:
    """x_0 along each axis, until nothing is left."""
    for task, form in zip(POPULATION.tasks, FORMS, strict=True):
        thetas = np.tile(K_0, (3, 1))
        returns, settled = task.rollouts(thetas, np.eye(3), 400)  # type: ignore[union-attr]
        assert form.objective(K_0) == pytest.approx(returns.sum(), rel=1e-12)
        assert settled.all()


def test_gradient_and_hessian_are_finite_differences() -> None:
    for form in FORMS:
        gradient = form.gradient(K_0)
        assert relative(central_difference(form.objective, K_0), gradient) < 3e-9
        hessian = np.array([form.hessian_vector_product(K_0, e) for e in np.eye(K_0.size)])
        assert relative(central_difference(form.gradient, K_0), hessian) < 1e-8
        assert np.allclose(hessian, hessian.T, rtol=1e-12)


def test_a_gradient_without_the_states_that_are_visited_is_none() -> None:
    """The control: 2 E in the place of 2 E S."""
    from raypfrl.populations.lqr import closed_loop

    task = POPULATION.tasks[0]
    loop = closed_loop(task, K_0.tobytes())  # type: ignore[arg-type]
    assert loop is not None
    assert relative(-2 * loop.E.ravel(), central_difference(FORMS[0].objective, K_0)) > 0.1


def test_the_gradient_of_the_meta_objective_is_its_finite_difference() -> None:
    oracles = made("exact")
    numeric = central_difference(lambda K: F(oracles, K, 0.01), K_0)
    assert relative(gradient_of_F(oracles, K_0, 0.01), numeric) < 2.5e-8
    without = sum(form.gradient(K_0 + 0.01 * form.gradient(K_0)) for form in FORMS[:4]) / 4
    assert relative(without, numeric) > 0.1


def test_the_riccati_feedback_is_stationary_and_nothing_near_it_is_better() -> None:
    rng = np.random.default_rng(0)
    for task, form in zip(POPULATION.tasks, FORMS, strict=True):
        best = task.optimum()  # type: ignore[union-attr]
        assert np.abs(form.gradient(best)).max() < 1e-13
        assert all(form.objective(best + 0.01 * v) < form.objective(best) for v in rng.standard_normal((20, best.size)))
        assert np.abs(form.gradient(best + 0.01)).max() > 1e-2


def test_what_is_not_stable_is_worth_nothing_and_is_told() -> None:
    for name in ("exact", "zeroth_order"):
        oracle = Guarded(made(name)[0])
        with pytest.raises(
            Diverged, match="agent 0, round 0, local step 0, inner batch: the returns came out not finite"
        ):
            oracle.returns(np.zeros(6), 20, STREAM)
    assert made("exact")[0].returns(np.zeros(6)).return_ == -np.inf


@pytest.mark.parametrize(("points", "m"), [(2, 200), (1, 4000)])
def test_zeroth_order_gradients_are_unbiased(points: int, m: int) -> None:
    """Their component along the true gradient over that gradient's size: 1 within four standard errors, which are
    small enough to tell it from what the other number of points would give."""
    oracle = made("zeroth_order", smoothing=0.1 if points == 2 else 0.2, points=points)[0]
    g = FORMS[0].gradient(K_0)
    drawn = [oracle.policy_gradient(K_0, m, Stream(0, 0, k, 0, Purpose.INNER)) @ g / (g @ g) for k in range(30)]
    error = np.std(drawn, ddof=1) / np.sqrt(30)
    bias = {2: 0.02, 1: 0.05}[points]  # of the radius: J is not linear within it
    assert abs(np.mean(drawn) - 1) < 4 * error + bias
    assert 4 * error + bias < 0.5, "twice and half would be told from once"
    assert oracle.meter.trajectories == 30 * m * points
    assert oracle.meter.env_steps == oracle.meter.trajectories * (POPULATION.horizon + 1)


def test_steins_product_is_unbiased() -> None:
    oracle, v = made("zeroth_order", smoothing=0.1)[0], np.array([1.0, 0, 0, 0, 0.5, 0])
    product = FORMS[0].hessian_vector_product(K_0, v)
    streams = [Stream(0, 0, k, 0, Purpose.HESSIAN) for k in range(30)]
    drawn = [oracle.hessian_vector_product(K_0, v, 1000, s) @ product / (product @ product) for s in streams]
    error = np.std(drawn, ddof=1) / np.sqrt(30)
    assert abs(np.mean(drawn) - 1) < 4 * error + 0.1
    assert 4 * error + 0.1 < 0.4
    assert oracle.meter.trajectories == 30 * 3 * 1000


def test_adapted_costs_come_in_the_order_of_what_the_methods_aim_at() -> None:
    """Exact < first order < shared < shared and not adapted, all above what each system could have alone."""
    ends = {}
    for method in ("maml_lqr", "maml_lqr_first_order", "fedavg_pg"):
        *_, ends[method] = Training(RunConfig(population="lqr", method=method, evaluate=60))
    alone = float(np.mean([form.objective(t.optimum()) for form, t in zip(FORMS[:4], POPULATION.train, strict=True)]))  # type: ignore[union-attr]
    costs = [-ends[name]["after/return"] for name in ("maml_lqr", "maml_lqr_first_order", "fedavg_pg")]
    assert [-alone, *costs, -ends["fedavg_pg"]["before/return"]] == pytest.approx(
        [7.7988, 7.9912, 8.0966, 8.1167, 8.2524], abs=5e-5
    )


def test_alone_the_meta_optimum_is_the_systems_own() -> None:
    """n = 1: K* is stationary for F, and it is where MAML-LQR ends; heterogeneity is what keeps it from there."""
    training = Training(RunConfig(population="lqr", method="maml_lqr", n=1, rounds=200, evaluate=200))
    list(training)
    best = lqr(n=1).train[0].optimum()  # type: ignore[union-attr]
    assert training.server.theta == pytest.approx(best, abs=1e-7)
    assert not np.allclose(best, lqr(n=2).train[1].optimum(), atol=1e-2)  # type: ignore[union-attr]


def test_without_scipy_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    with pytest.raises(SettingsError, match=r"^lqr needs SciPy: pip install 'raypfrl\[analysis\]'$"):
        RunConfig(population="lqr", method="exact", n=3, horizon=7)
