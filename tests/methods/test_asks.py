"""What a method asks of an oracle is what it has declared, no more and no less, and it is settled at configuration."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cases import PAIRS, few, home
from tiny import small

from raypfrl import RunConfig, SettingsError
from raypfrl.config import known
from raypfrl.federation import Agent
from raypfrl.methods import METHODS, averaged_tables, natural_gradient, temporal_differences
from raypfrl.methods.curvature import ESTIMATORS
from raypfrl.methods.method import asks, averaged
from raypfrl.oracles import Meter, Oracle, Outcome, answers
from raypfrl.policies import PARTS
from raypfrl.populations import POPULATIONS

EVERY_ORACLE = {"policy_gradient", "returns"}


class Recording(Oracle):
    """Answers every question with small numbers, and writes down which."""

    def __init__(self) -> None:
        self.meter, self.asked = Meter(), set[str]()

    def ask(self, question: str, *arguments: Any, **options: Any) -> Any:
        self.asked.add(question)
        if question == "returns":
            return Outcome(0.1, np.nan, np.nan)
        if question == "transitions":
            return np.array([[1.0, 0.0, 0.1, 0.0]])
        return np.full_like(arguments[0], 0.1)


VARIANTS = [
    *((method, {}) for method in METHODS),
    *((m, {"curvature": name}) for m in METHODS if "curvature" in METHODS[m].settings for name in ESTIMATORS),
    ("moreau", {"penalty": "kl"}),
    ("exact", {"inner_steps": 3}),
    ("exact", {"compression": "random_k", "compress_k": 3}),
]


@pytest.mark.parametrize(("method", "settings"), VARIANTS, ids=[f"{m}-{s}" for m, s in VARIANTS])
def test_what_is_asked_is_what_was_declared(method: str, settings: dict[str, Any]) -> None:
    """In a whole round and in an adaptation, on an oracle that answers everything."""
    config = few(home(method), method, **settings)
    recording, built = Recording(), config.build_method()
    agent = Agent(0, recording, recording, built, config.build_population(), 0, 0)
    server, kept = built.begin(config.build_population()), None
    server = {name: np.tile(x, (1, 1)) if name.endswith("_i") else x for name, x in server.items()}
    for number, phase in enumerate(built.phases):
        down = {name: server[name][0] if name.endswith("_i") else server[name] for name in phase.down}
        reply = agent.answer(number, 0, down, kept).reply
        kept = reply.kept
        server = {**server, **phase.combine(server, [reply.up], 1)}
    down = {name: x[0] if name.endswith("_i") else x for name, x in server.items()}
    for m in (0, 3):
        built.personalise(agent, down, kept, m)
    declared = METHODS[method].asks(config.letters)
    assert recording.asked - EVERY_ORACLE == declared - PARTS.keys()
    assert ("blocks" in declared) == (method == "shared_representation")
    assert ("table" in declared) == (method in ("fed_npg", "qavg", "pavg", "fed_td_rep"))


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_auto_is_an_oracle_that_answers_all_or_the_run_is_refused(population: str, method: str) -> None:
    suggested = POPULATIONS[population].suggested.get("oracle", "auto")
    try:
        config = RunConfig(population=population, method=method)
    except SettingsError as refused:
        message = str(refused)
        assert message.startswith(f"{method} asks for ")
        assert suggested != "auto" or re.search("asks for (blocks|table)|choose another method", message)
    else:
        task, policy = config.build_population().train[0], config.build_population().policy
        assert METHODS[method].asks(config.letters) - PARTS.keys() <= answers(config.oracle, task, policy)


@pytest.mark.parametrize(
    ("population", "method", "settings", "message"),
    [
        ("gridworld", "sg_mrl", {"oracle": "exact"},
         "sg_mrl asks for score_sum, which exact does not answer on gridworld; choose oracle = fused or autodiff"),
        ("navigation", "svrpg", {"oracle": "fused"},
         "svrpg asks for weighted_gradient, which fused does not answer on navigation; choose oracle = autodiff"),
        ("gridworld", "moreau", {"oracle": "fused", "penalty": "kl"},
         "moreau asks for kl_gradient, which fused does not answer on gridworld; choose oracle = autodiff or exact"),
        ("gridworld", "shared_representation", {},
         "shared_representation asks for blocks, which the policy of gridworld has not; take one with a network"),
        ("bandit", "fed_npg", {},
         "fed_npg asks for table, which the policy of bandit has not; take one with a table"),
        ("gridworld", "qavg", {"oracle": "table"},
         "qavg asks for backup, which table does not answer on gridworld; choose oracle = continuing"),
        ("gridworld", "qavg", {"oracle": "continuing", "gamma": 1.0},
         "oracle = continuing does not cover gridworld; choose from fused, autodiff, exact, table"),
        ("gridworld", "gossip", {"cohort": 2},
         "gossip needs every agent in every round; leave out cohort and min_agents"),
    ],
)  # fmt: skip
def test_a_pair_that_cannot_be_is_refused_with_the_remedy(
    population: str, method: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        RunConfig(population=population, method=method, **settings)
    assert str(refused.value) == message


def test_where_no_oracle_answers_another_method_is_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    @asks("transitions")
    def sarsa(oracle: Any, theta: Any, step: Any) -> Any:
        """Nothing."""

    monkeypatch.setitem(METHODS, "sarsa", averaged(sarsa))
    with pytest.raises(SettingsError) as refused:
        RunConfig(population="navigation", method="sarsa")
    assert str(refused.value) == (
        "sarsa asks for transitions, which fused does not answer on navigation; choose another method or population"
    )


def test_only_what_has_no_answer_is_refused() -> None:
    """Every method runs on navigation but those of finite MDPs, and all but those that a scalar or a table cannot hold
    elsewhere."""
    refused = {(p, m) for p in ("gridworld", "navigation", "quadratic") for m in METHODS} - {*PAIRS}
    chains = {*natural_gradient.METHODS, *averaged_tables.METHODS, *temporal_differences.METHODS}
    assert refused == {
        *((p, "shared_representation") for p in ("gridworld", "quadratic")),
        *((p, method) for p in ("navigation", "quadratic") for method in chains),
    }
    assert "penalty" in known("navigation", "moreau")
    assert small("gridworld", "moreau").oracle == "fused", "the squared distance asks for nothing"
