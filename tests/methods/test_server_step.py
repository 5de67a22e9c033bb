"""The server's step: against its recursion written out, and through kills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import arrays_after, few
from test_state import through_disk

from raypfrl import Training
from raypfrl.federation import InProcess

BETA, DECAY, SQUARES, FLOOR = 0.3, 0.8, 0.95, 1e-2
GIVEN = {"beta_server": BETA, "server_decay": DECAY, "server_squares": SQUARES, "server_floor": FLOOR}


class Averages(InProcess):
    """Writes down the average of what comes up."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.seen: list[Any] = []

    def answers(self, phase: int, round: int, calls: Any) -> Any:
        answers = super().answers(phase, round, calls)
        self.seen.append(np.mean([answer.reply.up["theta"] for answer in answers], axis=0))
        return answers


@pytest.mark.parametrize("step", ["average", "momentum", "adam"])
def test_a_servers_step_is_its_recursion(step: str) -> None:
    """FedAvgM: p = decay p + Delta, theta + beta p. FedAdam: p and q the running means of Delta and Delta^2, theta +
    beta p / (sqrt q + floor)."""
    config = few("gridworld", "exact", rounds=4, server_step=step, **GIVEN)
    agents = Averages(config)
    server = Training(config, agents).server
    theta, p, q = server.theta, np.zeros(100), np.zeros(100)
    for k in range(config.rounds):
        server.run_round()
        Delta = agents.seen[k] - theta
        assert np.abs(Delta).max() > 1e-4
        if step == "average":
            theta = theta + BETA * Delta
        elif step == "momentum":
            p = DECAY * p + Delta
            theta = theta + BETA * p
        else:
            p = DECAY * p + (1 - DECAY) * Delta
            q = SQUARES * q + (1 - SQUARES) * Delta**2
            theta = theta + BETA * p / (np.sqrt(q) + FLOOR)
        assert server.theta == pytest.approx(theta, abs=1e-14)


@pytest.mark.parametrize(("step", "moments"), [("average", set()), ("momentum", {"p"}), ("adam", {"p", "q"})])
def test_its_moments_are_in_checkpoints_and_make_a_difference(step: str, moments: set[str]) -> None:
    """A kill after each round changes no byte; a checkpoint that has lost them does."""
    config = few("gridworld", "exact", rounds=3, server_step=step, **GIVEN)
    whole = arrays_after(config).server
    state = None
    for _ in range(config.rounds + 1):
        training = Training(config, state=state)
        next(training)
        state = through_disk(training.state())
    assert training.server.theta.tobytes() == whole.theta.tobytes()
    assert {name for name in state or {} if name.startswith("server/")} == {f"server/theta.{one}" for one in moments}

    lossy = arrays_after(config.model_copy(update={"rounds": 2})).state() | {"round": 2}
    lost = {name: np.zeros_like(x) if name.startswith("server/") else x for name, x in lossy.items()}
    training = Training(config, state=lost)
    training.server.run_round()
    assert (training.server.theta.tobytes() == whole.theta.tobytes()) == (not moments)


def test_only_what_agents_send_anew_is_stepped() -> None:
    """SCAFFOLD's c is combined as ever: mean c_i = c with any step."""
    server = arrays_after(few("gridworld", "scaffold", cohort="all", server_step="adam", **GIVEN)).server
    mean = np.mean([server.kept[i]["c_i"] for i in range(3)], axis=0)
    assert np.abs(mean - server.arrays["c"]).max() < 1e-15
    assert np.abs(mean).max() > 1e-2


def test_the_step_sees_what_compression_has_restored() -> None:
    """The wrappers' order: adam moves at most k of the entries that k of each agent's can reach, and it moves some."""
    settings = {"compression": "top_k", "compress_k": 4, "server_step": "adam", "cohort": "all", "rounds": 1}
    config = few("gridworld", "exact", **settings, **GIVEN)
    server = arrays_after(config).server
    moved = np.flatnonzero(server.theta)
    assert 4 <= len(moved) <= 12
    size = (1 - DECAY) / (1 - SQUARES) ** 0.5  # where the floor is small against sqrt q
    assert np.abs(server.theta).max() < BETA * size
    assert np.abs(server.arrays["theta.p"]).max() > 0
