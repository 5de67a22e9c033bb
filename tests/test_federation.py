"""The federation in this process: Algorithm 1, what a run counts, and when it is evaluated."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import run, small

from raypfrl import RunConfig, train
from raypfrl.federation import Call, InProcess, Update, build_agent
from raypfrl.methods import METHODS, averaged, temporal_differences
from raypfrl.methods.per_fedavg_pg import exact
from raypfrl.metrics import METRICS, OTHER_SPLIT
from raypfrl.populations import POPULATIONS
from raypfrl.settings import own_settings
from raypfrl.streams import LocalStep


def as_it_is(agent, down, kept, m):
    """No adaptation."""
    return down["theta"]


def test_algorithm_1_written_out():
    """tau steps theta + beta d from the broadcast theta in every agent, then the average in agent order."""
    config = small("gridworld", n=3, oracle="exact")
    agents = [build_agent(config, number) for number in range(3)]
    theta = config.build_population().initial()
    settings = {name: config.letters[name] for name in own_settings(exact)}
    for round_ in range(config.rounds):
        locals_ = []
        for agent in agents:
            local = theta
            for t in range(config.tau):
                place = LocalStep(config.seed, agent.number, round_, t)
                local = local + config.beta * exact(agent.oracle, local, place, **settings)
            locals_.append(local)
        theta = (locals_[0] + locals_[1] + locals_[2]) / 3
    assert run(config)[0][0] == [("theta", theta.tobytes())]


def test_agents_know_their_round_and_local_step():
    """Fresh batches: no stream is used twice in a run, and none is another agent's."""
    seen = []

    def direction(oracle, theta, step):
        seen.extend([step.inner, step.hessian, step.outer])
        return np.zeros_like(theta)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "spy", averaged(direction, personalise=as_it_is))
        run(small("gridworld", "spy", n=3, rounds=3, tau=4, seed=9))
    assert len(seen) == len(set(seen)) == 3 * 3 * 4 * 3
    assert {stream.seed for stream in seen} == {9}
    assert {stream.agent for stream in seen} == {0, 1, 2}
    assert {(stream.round, stream.step) for stream in seen} == {(k, t) for k in range(3) for t in range(4)}


def test_the_counts_of_a_run():
    """Per agent: rounds x tau x (m_in + m_h + m_out) trajectories; 2 d floats an agent a round."""
    *_, last = train(small("gridworld", n=3, rounds=2, tau=2, oracle="autodiff"))
    assert last["round"] == 2
    assert last["trajectories"] == 2 * 2 * (63 + 64 + 62)
    assert last["env_steps"] == 3 * last["trajectories"] * 6
    assert last["floats_sent"] == 2 * 2 * 100 * 3
    assert 0 < last["kernel_seconds"] < last["seconds"]
    assert 0 < last["evaluation_seconds"] < last["seconds"]


def test_client_drift_is_recorded():
    """The root mean square distance of what came back from its average."""
    config = small("gridworld", n=3, rounds=1, oracle="exact")
    first, last = train(config)
    down = {"theta": config.build_population().initial()}
    updates = InProcess(config).answers(0, 0, [Call(i, down, None) for i in range(3)])
    results = np.array([update.reply.up["theta"] for update in updates])
    distances = np.linalg.norm(results - results.mean(axis=0), axis=1)
    assert first["drift"] == 0
    assert last["drift"] == pytest.approx(np.sqrt((distances**2).mean()))
    assert last["drift"] > 0


def test_one_agent_alone_does_not_drift():
    assert [metrics["drift"] for metrics in train(small("gridworld", n=1, oracle="exact"))] == [0, 0, 0]


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_any_number_of_agents(n):
    config = small("gridworld", n=n, oracle="exact")
    training = train(config)
    *_, last = training
    assert last["status"] == "finished"
    assert training.server.theta.shape == (100,)
    assert last["after/return"] > last["before/return"] > 0.05


SAMPLED = {  # where the exact oracle does not answer all that a method asks: batches large enough to see it learn
    "sg_mrl": {"tau": 5, "alpha": 0.5, "beta": 0.5, "m_in": 10, "m_out": 1000, "m_baseline": 1000, "horizon": 8},
    "shared_representation": {
        "tau": 5, "population": "navigation", "hidden": (8,), "horizon": 15, "beta": 0.5, "beta_head": 0.5,
        "m_eval": 4000, "m_in": 1000, "m_h": 1000, "m_out": 1000, "m_adapt": (0, 1000),
    },
    **{method: {"oracle": "continuing"} for method in ("fed_npg", "qavg", "pavg")},
    **{method: {"tau": 5, "population": "garnet", "oracle": "continuing"} for method in temporal_differences.METHODS},
    "fed_td_rep": {  # rounds enough to forget the features that were drawn
        "tau": 1, "population": "garnet", "oracle": "continuing", "rounds": 60, "beta": 8.0, "tau_head": 20,
        "beta_head": 0.8,
    },
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(method):
    """A few rounds raise what the method climbs (adaptation included)."""
    settings = {"rounds": 5, **SAMPLED.get(method, {"oracle": "exact", "tau": 5})}
    first, *_, last = train(small(method=method, n=3, **settings))
    assert last["before/return"] > first["before/return"]
    assert last["after/return"] > first["after/return"]


def test_the_first_metrics_are_those_of_theta_0():
    config = small("gridworld", oracle="exact", n=8, horizon=15)
    first = next(train(config))
    assert first["round"] == 0
    assert first["before/return"] == pytest.approx(0.2439, abs=5e-5)
    assert (first["trajectories"], first["env_steps"], first["floats_sent"], first["drift"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("population", POPULATIONS)
def test_metrics_are_in_the_glossary(population):
    for metrics in train(small(population)):
        names = set(metrics) - {"status", "evaluations", "message"}
        assert names >= {"round", "trajectories", "before/return", "after/return"}
        for name in names:
            assert name.removeprefix(OTHER_SPLIT) in METRICS
        rows = metrics["evaluations"]
        splits = {name for name, agents in small(population).splits().items() if agents}
        assert {row["split"] for row in rows} == splits
        assert len(rows) == 2 * len(splits)  # two entries of m_adapt
        assert rows[0]["return"] == metrics["before/return"]
        assert rows[1]["return"] == metrics["after/return"]


def test_after_is_the_largest_adaptation_step():
    """exact counts as the largest; the order of the list does not matter."""
    for m_adapt, largest in (((20, 0, 5), 20), ((0, "exact", 20), "exact"), ((0,), 0)):
        metrics = next(train(small("gridworld", m_adapt=m_adapt, oracle="autodiff")))
        rows = {row["m_adapt"]: row["return"] for row in metrics["evaluations"] if row["split"] == "train"}
        assert tuple(rows) == m_adapt
        assert metrics["after/return"] == rows[largest]
        assert metrics["before/return"] == rows[0]
    assert "before/return" not in next(train(small("gridworld", m_adapt=(5,), oracle="autodiff")))


def test_held_out_agents_learn_where_they_are_the_participants():
    """And the training agents are the ones that are only evaluated."""
    config = small("navigation", participants="held_out", n=3, oracle="autodiff")
    assert config.agents() == (3,)
    metrics = next(train(config))
    rows = {row["split"]: row["return"] for row in metrics["evaluations"] if row["m_adapt"] == 0}
    assert metrics["before/return"] == rows["held_out"]
    assert metrics["train/before/return"] == rows["train"]


@pytest.mark.parametrize(("evaluate", "rounds"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 2, 4, 5]), (9, [0, 5]),
                                                  ((1, 4), [0, 1, 4, 5]), ((), [0, 5])])  # fmt: skip
def test_when_a_run_is_evaluated(evaluate, rounds):
    metrics = list(train(small("bandit", rounds=5, evaluate=evaluate, oracle="exact")))
    assert [row["round"] for row in metrics] == rounds
    assert [row["status"] for row in metrics] == ["running"] * (len(rounds) - 1) + ["finished"]


def test_an_updates_fields():
    """What an agent sends back: one vector of d floats, and what it spent."""
    config = small("gridworld", oracle="exact")
    update = build_agent(config, 0).answer(0, 0, {"theta": np.zeros(100)}, None)
    assert isinstance(update, Update)
    assert update.reply.up["theta"].dtype == np.float64
    assert update.reply.up["theta"].nbytes == 8 * 100


def test_the_readmes_example():
    """The Python interface in three lines."""
    for metrics in train(RunConfig(population="gridworld", method="exact", rounds=1, oracle="exact")):
        assert set(metrics) >= {"round", "after/return"}
