"""``raypfrl check``: nothing is wrong with what comes with the library, and each kind of fault is found and named."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from own import forgotten, study

from raypfrl.check import check_method, check_population, places
from raypfrl.cli import main
from raypfrl.methods import METHODS, Method, Phase, Reply, asks, averaged
from raypfrl.methods.method import average, local_steps
from raypfrl.methods.per_fedavg_pg import fedavg_pg
from raypfrl.policies import TabularSoftmax
from raypfrl.populations import MDP, POPULATIONS, Family, Population
from raypfrl.populations.gridworld import GridworldEnv, GridworldTask, gridworld


def verdicts(found: Any) -> dict[str, list[str]]:
    """What was said, by verdict."""
    said: dict[str, list[str]] = {"ok": [], "advice": [], "wrong": []}
    for one in found:
        assert "\n" not in one.said
        said[one.verdict].append(one.said)
    return said


def first_place(method: str) -> tuple[str, str]:
    """The first that answers what a method asks."""
    return next(tuple(place) for place in places.places() if not place.lacking(METHODS[method]))


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=[pytest.mark.slow] * (first_place(m)[0] != "quadratic")) for m in METHODS]
)
def test_nothing_is_wrong_with_any_method(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In that place."""
    monkeypatch.setattr(places, "USUAL", (first_place(method),))
    said = verdicts(check_method(method))
    assert said["wrong"] == []
    assert len(said["ok"]) + len(said["advice"]) == 8
    assert all("not asked with these settings" in advice for advice in said["advice"])


@pytest.mark.parametrize(
    "population",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("bandit", "quadratic"))) for name in POPULATIONS],
)
def test_nothing_is_wrong_with_any_population(population: str) -> None:
    said = verdicts(check_population(population))
    assert said["wrong"] == []
    about = ("its agents differ: ", "gymnasium's checker ") if population == "gymnasium" else ()  # copies, of any id
    assert [advice for advice in said["advice"] if not advice.startswith(about)] == []
    assert len(said["ok"]) + len(about) >= 7


def test_a_file_and_its_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a file offers, in a line for each thing looked at; 1 where something is wrong."""
    monkeypatch.setattr(places, "USUAL", ())
    with forgotten():
        assert main(["check", str(study(tmp_path))]) == 0
    out = capsys.readouterr().out
    for line in ("population walk", "method variates on walk, autodiff", "SWEEP of my_study.py", "nothing is wrong"):
        assert line in out.splitlines()
    assert max(map(len, out.splitlines())) <= 100
    with forgotten():
        assert (
            main(["check", str(study(tmp_path, "(theta_i - theta) / (tau * beta)", "np.random.rand() * theta"))]) == 1
        )
    out = capsys.readouterr().out
    assert "\n  wrong   global generators are neither read nor moved: " in out
    assert out.endswith(" wrong\n")
    with forgotten():
        assert main(["check", str(study(tmp_path, '"population": "walk"', '"population": "wlak"'))]) == 1
    assert "did you mean 'walk'" in capsys.readouterr().out
    for name, says in (("exakt", "did you mean 'exact'"), ("none.py", "no such Python file")):
        assert main(["check", name]) == 2
        assert says in capsys.readouterr().err


# --- faults of a method -----------------------------------------------------------------------------------------------


def gradient(oracle: Any, theta: Any, step: Any, *, m_in: int) -> Any:
    return oracle.policy_gradient(theta, m_in, step.inner)


def copied(function: Any) -> Any:
    """Another function with the same code."""
    copy = FunctionType(function.__code__, function.__globals__)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
    return copy


def remembers(seen: list[float], oracle: Any, theta: Any, step: Any, *, m_in: int) -> Any:
    seen.append(1.0)
    return gradient(oracle, theta, step, m_in=m_in) * len(seen)


def reads_numpy(oracle: Any, theta: Any, step: Any, *, m_in: int) -> Any:
    return gradient(oracle, theta, step, m_in=m_in) + np.random.rand()  # noqa: NPY002


def moves_torch(oracle: Any, theta: Any, step: Any, *, m_in: int) -> Any:
    torch.rand(1)
    return gradient(oracle, theta, step, m_in=m_in)


def asks_more(oracle: Any, theta: Any, step: Any, *, m_in: int) -> Any:
    g = gradient(oracle, theta, step, m_in=m_in)
    return g + oracle.hessian_vector_product(theta, g, m_in, step.hessian)


def nan(oracle: Any, theta: Any, step: Any, *, m_in: int) -> Any:
    return theta * np.nan


def in_place(agent: Any, down: Any, kept: Any, *, tau: int, beta: float, m_in: int) -> Reply:
    theta = down["theta"]
    for _ in range(tau):
        theta += beta * gradient(agent.oracle, theta, agent.step(), m_in=m_in)
    return Reply({"theta": theta})


def grows(agent: Any, down: Any, kept: Any, *, tau: int, beta: float, m_in: int) -> Reply:
    return Reply(down, {"v": np.append(kept["v"], 1.0)})


def sends(what: Any, agent: Any, down: Any, kept: Any, *, tau: int, beta: float, m_in: int) -> Reply:
    return Reply({"theta": what(down["theta"])})


def one_phase(local: Any, **more: Any) -> Method:
    return Method((Phase(("theta",), local, average),), **more)


SEEN: list[float] = []


@pytest.mark.parametrize(
    ("method", "verdict", "says"),
    [
        (averaged(partial(remembers, SEEN)), "wrong", "agents that are made anew for every call: other bytes in theta"),
        (averaged(partial(remembers, SEEN)), "wrong", "killed after every round and restored: other bytes"),
        (averaged(reads_numpy), "wrong", "global generators are neither read nor moved: other bytes in theta"),
        (averaged(moves_torch), "wrong", "global generators are neither read nor moved: they are moved: draw from"),
        (averaged(asks_more), "wrong", "it asks hessian_vector_product; put @asks('hessian_vector_product') before"),
        (averaged(asks("mean_rewards")(copied(gradient))), "advice", "it declares mean_rewards and has not"),
        (averaged(asks("oracles")(copied(gradient))), "wrong", "oracles, which nothing that it could be tried"),
        (averaged(nan), "wrong", "its steps are finite: agent 0, round 0: its theta is not finite"),
        (one_phase(in_place), "wrong", "agent 0, round 0, phase 0: ValueError: output array is read-only"),
        (one_phase(grows, join=lambda agent, down: {"v": np.zeros(1)}), "wrong", "names and shapes of what is"),
        (one_phase(partial(sends, lambda x: x[None])), "wrong", "theta has the shape (1, 1)"),
        (one_phase(partial(sends, lambda x: x)), "advice", "its steps are finite: two rounds have changed nothing"),
        (averaged(gradient, begin=lambda population: 1 / 0), "wrong", "its steps are finite: "),
        (averaged(gradient), "ok", "it declares what it asks: policy gradients alone"),
        (averaged(gradient), "advice", "but the method has no docstring to be listed with"),
    ],
)  # fmt: skip
def test_a_fault_of_a_method_is_found(method: Method, verdict: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "USUAL", (("quadratic", "exact"),))
    SEEN.clear()
    before = dict(METHODS)
    said = verdicts(check_method(method))
    assert any(says in one for one in said[verdict]), said
    assert verdict != "ok" or said["wrong"] == []
    assert before == METHODS


# --- faults of a population -------------------------------------------------------------------------------------------


class BrokenEnv(GridworldEnv):
    """It shows a cell that there is not."""

    def reset(self, **given: Any) -> Any:
        _, info = super().reset(**given)
        return 99, info


class Plain(GridworldTask):
    """Without a kernel, which would have to be compiled."""

    kernel = None


class Tilted(Plain):
    """A table that is not the environment: the reward is a tenth more."""

    def mdp(self) -> MDP:
        P, r, mu, distance = super().mdp()
        return MDP(P, r + 0.1, mu, distance)


class Broken(Plain):
    env_id = "tiny/Broken-v0"


class Nowhere(Plain):
    env_id = "tiny/Nowhere-v0"


class Restless(TabularSoftmax):
    """Another theta^0 each time."""

    def init(self, rng: Any) -> Any:
        return np.random.rand(self.dim)  # noqa: NPY002


class Short(TabularSoftmax):
    def init(self, rng: Any) -> Any:
        return np.zeros(3)


def of(*tasks: Any, policy: Any = None) -> Family:
    """Small gridworlds."""

    def build(*, n: int = 2, gamma: float = 0.9, horizon: int = 5) -> Population:
        return Population("given", tasks[:n], (), policy or TabularSoftmax(25, 4), gamma, horizon)

    return Family(build, POPULATIONS["gridworld"].suggested)


@pytest.fixture
def broken() -> Iterator[None]:
    gymnasium.register(id="tiny/Broken-v0", entry_point=BrokenEnv)
    yield
    del gymnasium.registry["tiny/Broken-v0"]


A, B = (Plain(**vars(task)) for task in gridworld(n=2, horizon=5).train)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("family", "verdict", "says"),
    [
        (of(A, A), "wrong", "its agents differ: agents 0 and 1 have the same task"),
        (of(A, Tilted(**vars(A))), "advice", "agents 0 and 1 have the same environment, raypfrl/Gridworld-v0"),
        (of(Tilted(**vars(A)), B), "wrong", "the exact oracle is the environment: the return is "),
        (of(A, Broken(**vars(B))), "wrong", "gymnasium's checker on tiny/Broken-v0: AssertionError"),
        (of(A, Nowhere(**vars(B))), "wrong", "gymnasium's checker on tiny/Nowhere-v0: NameNotFound"),
        (of(A, B, policy=Restless(25, 4)), "wrong", "theta^0 is finite, and one for all: it is another each time"),
        (of(A, B, policy=Short(25, 4)), "wrong", "it is float64 (3,), and the policy says dim = 100"),
        (of(A, B, policy=TabularSoftmax(25, 5)), "advice", "is outside of Discrete(4)"),
        (of(SimpleNamespace(), B), "wrong", "some oracle covers it: none does"),
        (Family(lambda: 3), "wrong", "it is built with its defaults: <lambda> gives int and not a Population"),  # type: ignore[arg-type, return-value]
        (Family(lambda *, slope=1.0: gridworld()), "advice", "any value is taken for slope"),
    ],
)  # fmt: skip
def test_a_fault_of_a_population_is_found(family: Family, verdict: str, says: str) -> None:
    before = dict(POPULATIONS)
    said = verdicts(check_population(family))
    assert any(says in one for one in said[verdict]), said
    assert before == POPULATIONS


def test_the_checks_own_gridworld_is_sound() -> None:
    """Else every fault above could be the fault of what it is shown on."""
    said = verdicts(check_population(of(A, B)))
    assert said["wrong"] == said["advice"] == []


def test_a_method_given_is_looked_at_as_one_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lines, but for the name."""
    monkeypatch.setattr(places, "USUAL", (("quadratic", "exact"),))
    given, named = (verdicts(check_method(one))["ok"] for one in (METHODS["fedavg_pg"], "fedavg_pg"))
    assert given == named
    assert METHODS["fedavg_pg"].phases[0].local.func is local_steps  # type: ignore[attr-defined]
    assert METHODS["fedavg_pg"].direction is fedavg_pg
