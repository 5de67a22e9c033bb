"""What an agent's failure is told as, here and from an actor: diverged or failed, with the cause in one line."""

from __future__ import annotations

import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import ray
from misbehaving import H, breaking
from tiny import GymTask

from raypfrl import AgentError, Diverged, RunConfig
from raypfrl.cli import main
from raypfrl.federation.actors import AgentHost, OnActors
from raypfrl.federation.server import Call
from raypfrl.oracles import Guarded, telling
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.policies import MLPGaussian
from raypfrl.streams import Purpose, Stream
from raypfrl.sweeps.cluster import connected
from raypfrl.sweeps.results import opened
from raypfrl.sweeps.table import Table


def overflow() -> float:
    return float(np.float64(1e300)) ** 2


def no_float() -> Any:
    with np.errstate(all="raise"):
        return np.array([1e300]) ** 2


def raising(error: BaseException) -> Callable[[], Any]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "kind", "said"),
    [
        (overflow, Diverged, "OverflowError: .*; lower beta or alpha"),
        (no_float, Diverged, "FloatingPointError: overflow .*; lower beta or alpha"),
        (lambda: 1 / 0, Diverged, "ZeroDivisionError: .*; lower beta or alpha"),
        (raising(ValueError("two\nlines")), AgentError, r"ValueError: two\\nlines"),
        (raising(SystemExit(3)), AgentError, "SystemExit: 3"),
    ],
)
def test_arithmetic_diverges_and_all_else_fails(work: Callable[[], Any], kind: type[Exception], said: str) -> None:
    with pytest.raises((AgentError, Diverged)) as told, telling("agent 3, round 12"):
        work()
    assert type(told.value) is kind
    assert re.fullmatch(f"agent 3, round 12: {said}", str(told.value))


@pytest.mark.parametrize("work", [overflow, lambda: 1 / 0, raising(FloatingPointError("the scale"))])
def test_what_a_users_environment_raises_is_its_own_failure(work: Callable[[], Any]) -> None:
    gymnasium.register(id="tiny/Failing-v0", entry_point=breaking(lambda given: work()))
    try:
        policy = MLPGaussian(2, 2, (3,))
        oracle = Guarded(AutodiffOracle(GymTask("tiny/Failing-v0"), policy, 0.9, H))
        with pytest.raises(AgentError, match="agent 0, round 0, local step 0, inner batch: episode 0, decision "):
            oracle.ask("policy_gradient", np.zeros(policy.dim), 3, Stream(0, 0, 0, 0, Purpose.INNER))
    finally:
        del gymnasium.registry["tiny/Failing-v0"]


def test_what_is_told_already_keeps_its_place() -> None:
    for error in (AgentError("agent 1"), Diverged("agent 2")):
        with pytest.raises(type(error)) as told, telling("agent 3"):
            raise error
        assert told.value is error


def test_a_population_of_ours_that_overflows_has_diverged(tmp_path: Path) -> None:
    """The quadratic's own environment squares Python floats. A diverged trial is over: it is not tried again."""
    command = ["run", "quadratic", "exact", "--out", str(tmp_path), "--actors", "0", "--tracking", "off"]
    settings = ("oracle=autodiff", "beta=1e200", "rounds=3", "n=2", "m_eval=4", "evaluate=1")
    main([*command, *(word for setting in settings for word in ("--set", setting))])
    (row,) = opened(tmp_path).trials.rows
    assert row["status"] == "diverged"
    results = opened(tmp_path)
    assert results.left([RunConfig(**results.about["trials"][row["trial"]])]) == []


class Unpicklable(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.open = lambda: None


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def of_a_kind_made_here() -> Exception:
    class Local(Unpicklable):
        def __reduce__(self) -> Any:
            raise TypeError("cannot be pickled")

    return Local("of its own kind")


ERRORS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "surrogate": (lambda: ValueError("caf\udce9"), "ValueError: caf\\udce9"),
    "lines": (lambda: ValueError("a\nb\r\n"), "ValueError: a\\nb\\r\\n"),
    "NUL": (lambda: ValueError("a\0b"), "ValueError: a\\x00b"),
    "long": (lambda: ValueError("x" * 1_000_000), "ValueError: xxx"),
    "unpicklable": (of_a_kind_made_here, "Local: of its own kind"),
    "mute": (Mute, "Mute: (its message cannot be had)"),
    "told": (lambda: AgentError("agent 3, round 12: why"), "agent 3, round 12: why"),
    "diverged": (lambda: Diverged("agent 3, round 12: why"), "agent 3, round 12: why"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_leaves_its_process_as_text(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, said = ERRORS[name]
    monkeypatch.setattr(AgentHost, "_hosted", lambda *_: raising(made())())
    for ask in (lambda: AgentHost().answers(None, [], 0, 0), lambda: AgentHost().evaluations(None, [], 0)):  # type: ignore[arg-type]
        with pytest.raises((AgentError, Diverged)) as told:
            ask()
        assert str(told.value).startswith(said)
        assert len(str(told.value)) < 5000
        assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)
        "".join(traceback.format_exception(told.value)).encode()
    table = Table(tmp_path / "t.csv", ("message",))
    table.append([{"message": str(told.value), "round": 1}])
    assert Table(table.path, ("message",)).rows == table.rows


def hosts_that_raise() -> Any:
    """An actor's class whose agents raise what ``ERRORS`` has by the name that is sent as the settings. Made here, so
    that Ray takes it along by value."""
    made = {name: make for name, (make, _) in ERRORS.items()}

    class Host(AgentHost):
        def _hosted(self, config: Any) -> Any:
            raise made[config.name]()

    return Host


class Named:
    """Stands for settings; all that the actors' side asks of them."""

    round_timeout, min_agents = 60.0, 0

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture(scope="module")
def one_cpu() -> Iterator[None]:
    with connected(1):
        ray.cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))
        yield


def test_the_cause_arrives_from_an_actor(one_cpu: None) -> None:
    actor = ray.remote(num_cpus=1, max_restarts=0)(hosts_that_raise()).remote()
    for name, (_, said) in ERRORS.items():
        agents = OnActors(Named(name), [actor], lambda: pytest.fail("its process died"))  # type: ignore[arg-type]
        with pytest.raises((AgentError, Diverged)) as told:
            agents.evaluations(0, [Call(0, {}, None)])
        assert str(told.value).startswith(said)
