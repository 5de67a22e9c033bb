"""Compression of what goes up: the two compressors' theorems, and what error feedback never loses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import few
from tiny import small

from raypfrl import Training, train
from raypfrl.federation import Call, InProcess
from raypfrl.methods import METHODS, Arrays, Method, Phase, Reply
from raypfrl.methods.compression import compressed, random_k, top_k
from raypfrl.methods.method import average
from raypfrl.streams import LocalStep

RNG = np.random.default_rng(0)


def sent(x: Any, at: Any, scale: float = 1.0) -> Any:
    """C(x): the entries at these places, 0 elsewhere."""
    C = np.zeros_like(x)
    C[at] = scale * x[at]
    return C


@pytest.mark.parametrize("k", [1, 3, 19, 20])
def test_top_k_is_a_contraction(k: int) -> None:
    """||C(x) - x||^2 <= (1 - k/d) ||x||^2, with equality where all entries are as large."""
    for x in RNG.standard_normal((200, 20)) ** 3:
        at = top_k(x, k)
        assert len(at) == len(set(at)) == k
        assert ((sent(x, at) - x) ** 2).sum() <= (1 - k / 20) * (x**2).sum() * (1 + 1e-12)
        assert np.abs(x[at]).min() >= np.abs(np.delete(x, at)).max(initial=0)
    ones = np.ones(20)
    assert ((sent(ones, top_k(ones, k)) - ones) ** 2).sum() == 20 - k
    assert top_k(ones, k).tolist() == list(range(k)), "of equal ones the first, on every machine"


@pytest.mark.parametrize("k", [1, 5, 20])
def test_random_k_scaled_is_unbiased_and_unscaled_a_contraction_in_the_mean(k: int) -> None:
    """E C(x) = x with d/k, within four standard errors over all entries; E ||C(x) - x||^2 = (1 - k/d) ||x||^2
    without."""
    x, rng = RNG.standard_normal(20), np.random.default_rng(1)
    places = [random_k(x, k, rng) for _ in range(4000)]
    scaled = np.stack([sent(x, at, 20 / k) for at in places])
    error = scaled.std(axis=0) / np.sqrt(len(scaled)) + 1e-12
    assert (np.abs(scaled.mean(axis=0) - x) / error).max() < 4
    lost = np.array([((sent(x, at) - x) ** 2).sum() for at in places])
    assert abs(lost.mean() - (1 - k / 20) * (x**2).sum()) <= 4 * lost.std() / np.sqrt(len(lost)) + 1e-9
    biased = np.stack([sent(x, at) for at in places])
    assert k == 20 or (np.abs(biased.mean(axis=0) - x) / error).max() > 10, "without the scale it is not"


class Ups(InProcess):
    """Writes down what the agents send, and what they keep."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.seen: list[tuple[Call, Reply]] = []

    def answers(self, phase: int, round: int, calls: Any) -> Any:
        answers = super().answers(phase, round, calls)
        self.seen += [(call, answer.reply) for call, answer in zip(calls, answers, strict=True)]
        return answers


@pytest.mark.parametrize("way", ["top_k", "random_k"])
def test_values_and_places_are_counted_and_nothing_else(way: str) -> None:
    """d floats down, k values and k places up; SCAFFOLD's second array has no array to be a change of, and goes
    whole."""
    config = few("gridworld", "exact", compression=way, compress_k=7)
    server = Training(config).server
    server.run_round()
    assert server.spent.floats_sent == config.cohort * (100 + 7 + 7)
    config = few("gridworld", "scaffold", compression=way, compress_k=7)
    server = Training(config).server
    server.run_round()
    assert server.spent.floats_sent == config.cohort * (200 + 7 + 7 + 100)


@pytest.mark.parametrize("method", ["exact", "fast_fedpg", "gossip"])
@pytest.mark.parametrize("way", ["top_k", "random_k"])
def test_the_server_finds_its_own_array_plus_what_was_sent(method: str, way: str) -> None:
    """Its average moves by the mean of the C(e_i + Delta_i); fast_fedpg's theta is compressed too, though the phase
    that sends it up is sent g, and of gossip each agent's own row."""
    config = few("gridworld", method, compression=way, compress_k=7, cohort="all", rounds=1)
    agents = Ups(config)
    server = Training(config, agents).server
    name = "theta_i" if method == "gossip" else "theta"
    before = server.arrays[name]
    server.run_round()
    moves = np.zeros((3, 100))
    for move, (_, reply) in zip(moves, agents.seen[-3:], strict=True):
        assert set(reply.up) == {f"{name}.values", f"{name}.at"}
        move[reply.up[f"{name}.at"].astype(int)] = reply.up[f"{name}.values"]
    assert np.abs(moves).max() > 1e-4
    assert server.arrays[name] == pytest.approx(before + moves.mean(axis=0), abs=1e-14)


CHANGES = RNG.standard_normal((6, 20))


def told(agent: Any, down: Arrays, kept: Arrays) -> Reply:
    """theta plus a given change."""
    return Reply({"theta": down["theta"] + CHANGES[agent.round]})


class Numbered:
    """What a local function sees of an agent."""

    round = 0

    def step(self) -> LocalStep:
        return LocalStep(0, 0, self.round, 0)


PLAIN = Method((Phase(("theta",), told, average),))


@pytest.mark.parametrize("way", ["top_k", "random_k"])
def test_what_was_sent_and_what_is_owed_are_all_changes(way: Any) -> None:
    """sum_k m^k + e^K = sum_k Delta^k: error feedback loses nothing; and without it most is lost for good."""
    method, agent = compressed(PLAIN, compression=way, compress_k=4), Numbered()
    down = {"theta": np.zeros(20)}
    kept = method.join(agent, down)
    total = np.zeros(20)
    for agent.round in range(len(CHANGES)):
        up, kept = method.phases[0].local(agent, down, kept)
        assert up["theta.at"].dtype == up["theta.values"].dtype == np.float64
        server = method.phases[0].combine(down, [up], 1)
        total += server["theta"]
    assert total + kept["e_i.theta"] == pytest.approx(CHANGES.sum(axis=0), abs=1e-13)
    assert np.abs(kept["e_i.theta"]).max() > 0.1

    bare = compressed(PLAIN, compression=way, compress_k=4, error_feedback=False)
    assert not any(owed.any() for owed in bare.join(agent, down).values())
    owed = bare.join(agent, down)
    assert not any(x.any() for x in bare.phases[0].local(agent, down, owed).kept.values())


def test_what_is_kept_and_sent_but_is_no_array_of_the_servers_goes_up_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an error memory of the method's own does."""

    def own_memory(agent: Any, down: Any, kept: Any, *, beta: Any, m_in: Any) -> Reply:
        g = kept["g"] + agent.oracle.policy_gradient(down["theta"], m_in, agent.step().inner)
        return Reply({"theta": down["theta"] + beta * g, "g": g}, {"g": g})

    method = Method((Phase(("theta",), own_memory, average),), join=lambda agent, down: {"g": 0 * down["theta"]})
    monkeypatch.setitem(METHODS, "own_memory", method)
    for feedback in (True, False):
        config = small("gridworld", "own_memory", oracle="exact", compression="top_k", compress_k=3,
                       error_feedback=feedback)  # fmt: skip
        assert [*train(config)][-1]["status"] == "finished"
