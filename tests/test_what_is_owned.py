"""What a method is given is not its own, what it gives is not kept uncopied; and what is kept of results."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import bytes_of, small

from raypfrl import AgentError, RunConfig, SettingsError, Training
from raypfrl.methods import METHODS, Method, Phase, Reply
from raypfrl.methods.method import average, mean
from raypfrl.sweeps.results import Results, opened, pack, unpack

COMMITTED = Path(__file__).parent.parent / "analysis" / "results" / "personalization"
BUFFER = np.zeros(100)


def sound(agent: Any, down: Any, kept: Any, *, beta: float, m_in: int) -> Reply:
    """A step, and a count that is kept."""
    g = agent.oracle.policy_gradient(down["theta"], m_in, agent.step().inner)
    return Reply({"theta": down["theta"] + beta * (g + 1e-3 * kept["t"])}, {"t": kept["t"] + 1 / 3})


def in_place(agent: Any, down: Any, kept: Any, *, beta: float, m_in: int) -> Reply:
    """The same, written over what was sent."""
    theta = down["theta"]
    theta += beta * agent.oracle.policy_gradient(theta, m_in, agent.step().inner)
    return Reply({"theta": theta}, kept)


def one_buffer(agent: Any, down: Any, kept: Any, *, beta: float, m_in: int) -> Reply:
    """The same as ``sound``, answered in one buffer by all agents."""
    BUFFER[:] = sound(agent, down, kept, beta=beta, m_in=m_in).up["theta"]
    return Reply({"theta": BUFFER}, {"t": kept["t"] + 1 / 3})


def single(agent: Any, down: Any, kept: Any, *, beta: float, m_in: int) -> Reply:
    """Keeps float32."""
    return Reply(sound(agent, down, kept, beta=beta, m_in=m_in).up, {"t": np.float32(kept["t"] + 1 / 3)})


def started(agent: Any, down: Any) -> Any:
    return {"t": np.zeros(1)}


def still(agent: Any, down: Any, kept: Any, m: Any) -> Any:
    return down["theta"]


def run(monkeypatch: pytest.MonkeyPatch, local: Any, combine: Any = average, *, resumed: bool = False) -> Any:
    method = Method((Phase(("theta",), local, combine),), join=started, personalise=still)
    monkeypatch.setitem(METHODS, "mine", method)
    config = small("gridworld", "mine", n=3, oracle="autodiff", rounds=3)
    training = Training(config)
    for _ in range(4):
        next(training)
        if resumed:
            over = training.server.round == config.rounds
            training = Training(config, state=unpack(pack(training.state())))
            if not over:
                training._started = True
    return bytes_of(training.server)


def test_what_is_sent_cannot_be_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AgentError, match="agent 0, round 0, phase 0: ValueError: output array is read-only"):
        run(monkeypatch, in_place)

    def over_the_server(server: Any, ups: Any, n: int) -> Any:
        server["theta"][:] = mean(ups, "theta")
        return server

    with pytest.raises(AgentError, match="round 0, the server's step: ValueError: assignment destination is read-only"):
        run(monkeypatch, sound, over_the_server)


def test_what_is_answered_is_copied_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, one_buffer) == run(monkeypatch, sound)


@pytest.mark.parametrize("local", [sound, single])
def test_a_resumed_run_keeps_what_a_whole_one_does(monkeypatch: pytest.MonkeyPatch, local: Any) -> None:
    assert run(monkeypatch, local, resumed=True) == run(monkeypatch, local)


@pytest.mark.parametrize("odd", [[1.0], "text", np.ones(2, complex), np.array([None]), np.array([True])])
def test_what_is_no_array_of_real_numbers_is_refused(monkeypatch: pytest.MonkeyPatch, odd: Any) -> None:
    def local(agent: Any, down: Any, kept: Any, *, beta: float, m_in: int) -> Reply:
        return Reply({"theta": odd}, kept)

    with pytest.raises(AgentError, match=r"agent 0, round 0, phase 0: TypeError: theta is of type .*real numbers"):
        run(monkeypatch, local)


def test_committed_results_go_on_without_being_computed_again(tmp_path: Path) -> None:
    folder = tmp_path / "personalization"
    shutil.copytree(COMMITTED, folder)
    results = Results(folder, "personalization")
    planned = [RunConfig(**settings) for settings in results.about["trials"].values()]
    assert results.left(planned) == []
    more = planned[0].model_copy(update={"seed": 77})
    assert results.left([*planned, more]) == [more]
    results.begin([*planned, more], {}, [more])
    results.close()
    assert len(opened(folder).trials.rows) == len(planned)


@pytest.mark.parametrize("column", ["status", "round"])
def test_a_table_without_a_column_that_is_needed_is_named(tmp_path: Path, column: str) -> None:
    folder = tmp_path / "personalization"
    shutil.copytree(COMMITTED, folder)
    path = folder / "trials.csv"
    path.write_text(path.read_text().replace(f",{column},", ",other,", 1))
    with pytest.raises(SettingsError, match=f"damaged .no column {column}"):
        Results(folder, "personalization")
