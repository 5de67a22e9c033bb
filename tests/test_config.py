"""RunConfig: the defaults are the paper's, and every wrong setting is one clear line."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import get_args

import pytest
from own import offered
from pydantic import ValidationError

from raypfrl import RunConfig, SettingsError
from raypfrl.config import EXECUTION, every_setting, known
from raypfrl.federation import train
from raypfrl.methods import METHODS
from raypfrl.populations import POPULATIONS


def grid(**settings):
    """The paper's gridworld run."""
    return RunConfig(**{"population": "gridworld", "method": "exact", **settings})


def neural(**settings):
    """The paper's navigation run."""
    return RunConfig(**{"population": "navigation", "method": "exact", **settings})


def test_the_papers_settings():
    config = grid()
    assert (config.n, config.gamma, config.horizon, config.hidden) == (8, 0.9, 15, ())
    assert (config.rounds, config.tau, config.alpha, config.beta) == (80, 5, 2.0, 0.3)
    assert (config.m_in, config.m_h, config.m_out) == (10, 10, 10)
    config = neural()
    assert (config.n, config.gamma, config.horizon, config.hidden) == (6, 0.9, 20, (32,))
    assert (config.rounds, config.tau, config.alpha, config.beta) == (150, 5, 1.0, 0.2)
    assert config.build_population().policy.dim == 360
    assert (config.seed, config.m_eval, config.m_adapt) == (0, 512, (0, 256))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("population", POPULATIONS)
def test_every_method_runs_on_every_population_that_answers_what_it_asks(population, method):
    config = settled(population, method)
    assert config is None or config.oracle != "auto"
    assert config is None or METHODS[method].everyone or config.cohort == len(config.agents())


WRONG = [
    ({"population": "gridwrld"}, "unknown population 'gridwrld': did you mean 'gridworld'?"),
    ({"method": "first-order"}, "unknown method 'first-order': did you mean 'first_order'?"),
    ({"method": "zzz"}, f"unknown method 'zzz': known: {', '.join(METHODS)}"),
    ({"alhpa": 1.0}, "unknown setting 'alhpa': did you mean 'alpha'?"),
    ({"learning_rate": 1.0}, "unknown setting 'learning_rate': known: population, method"),
    ({"oracle": "autodif"}, "unknown oracle 'autodif': did you mean 'autodiff'?"),
    ({"curvature": "casual"}, "curvature = 'casual': value error, unknown estimator 'casual': did you mean 'causal'?"),
    ({"alpha": -1}, "alpha = -1: input should be greater than or equal to 0 (adaptation step size)"),
    ({"alpha": "large"}, "alpha = 'large': input should be a valid number"),
    ({"alpha": True}, "alpha = True: value error, should be a number, not true or false"),
    ({"alpha": math.nan}, "alpha = nan: input should be a finite number"),
    ({"alpha": math.inf}, "alpha = inf: input should be a finite number"),
    ({"beta": 0}, "beta = 0: input should be greater than 0 (step size of a local step)"),
    ({"beta": math.nan}, "beta = nan: input should be a finite number"),
    ({"beta": -0.1}, "beta = -0.1: input should be greater than 0"),
    ({"gamma": 1.1}, "gamma = 1.1: input should be less than or equal to 1"),
    ({"gamma": math.nan}, "gamma = nan"),
    ({"tau": 0}, "tau = 0: input should be greater than or equal to 1 (local steps a round)"),
    ({"tau": 2**24}, f"tau = {2**24}: input should be less than"),
    ({"rounds": 1.5}, "rounds = 1.5: input should be a valid integer"),
    ({"rounds": 0}, "rounds = 0"),
    ({"rounds": math.inf}, "rounds = inf"),
    ({"rounds": math.nan}, "rounds = nan"),
    ({"horizon": -1}, "horizon = -1"),
    ({"seed": -1}, "seed = -1"),
    ({"seed": 2**32}, f"seed = {2**32}"),
    ({"n": 9}, "n = 9: the gridworld has 1 to 8 training agents"),
    ({"n": 0}, "n = 0"),
    ({"hidden": (32,)}, "hidden = [32]: the policy of gridworld has no hidden layers; leave it out"),
    ({"cohort": 9}, "cohort = 9: 8 agents learn; give all, or 1 to 8"),
    ({"cohort": -1}, "cohort = -1"),
    ({"m_h": 0}, "m_h = 0: the method exact needs at least one trajectory in it"),
    ({"m_in": 0, "method": "first_order"}, "m_in = 0: the method first_order needs at least one trajectory in it"),
    ({"m_out": -1}, "m_out = -1"),
    ({"m_out": 2.5}, "m_out = 2.5: input should be a valid integer"),
    (
        {"m_in": 0, "m_h": 0, "m_out": 0, "method": "fedavg_pg"},
        "m_in + m_h + m_out = 0: the method fedavg_pg needs at least one trajectory",
    ),
    ({"m_eval": 0}, "m_eval = 0"),
    ({"m_adapt": ()}, "m_adapt = ()"),
    ({"m_adapt": (0, 0)}, "m_adapt = [0, 0]: give each number once"),
    ({"m_adapt": (-5,)}, "m_adapt = [-5]: give numbers from 0 to 16777215, or exact"),
    ({"m_adapt": ("exakt",)}, "m_adapt"),
    ({"evaluate": 0}, "evaluate = 0: give a number of rounds, or rounds, from 1 up"),
    ({"evaluate": (0, 5)}, "evaluate = (0, 5): give a number of rounds, or rounds, from 1 up"),
    ({"curvature_clip": -1}, "curvature_clip = -1"),
    ({"curvature_clip": math.nan}, "curvature_clip = nan"),
    ({"participants": "all"}, "participants = 'all': input should be 'train' or 'held_out'"),
    ({"actors": -1}, "actors = -1: give auto, a number, or 0 for in process"),
    ({"actors": "many"}, "actors = 'many'"),
    ({"min_agents": 9}, "min_agents = 9 is above the 8 agents of a round; lower it"),
    ({"min_agents": 2, "actors": 0}, "min_agents needs actors: in process (actors = 0) no agent is ever late"),
    ({"round_timeout": 0}, "round_timeout = 0"),
    ({"population": "navigation", "oracle": "exact"}, "oracle = exact does not cover navigation; choose from"),
    ({"population": "navigation", "m_adapt": (0, "exact")}, "m_adapt = exact: navigation has no exact oracle"),
    ({"population": "navigation", "hidden": (0,)}, "hidden = 0"),
    (
        {"population": "navigation", "n": 1, "participants": "held_out"},
        "participants = held_out: navigation with n = 1",
    ),
    ({"population": "quadratic", "horizon": 3}, "horizon = 3: the quadratic population has one decision an episode"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[str(settings) for settings, _ in WRONG])
def test_a_wrong_setting_is_one_clear_line(settings, message):
    with pytest.raises(SettingsError) as refused:
        grid(**settings)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert "pydantic" not in str(refused.value)


@pytest.mark.parametrize("setting", ["evaluate", "m_adapt", "hidden", "method", "alpha", "no such"])
def test_a_long_value_is_not_told_to_its_end(setting):
    wrong = tuple(range(-9, 1000)) if setting in ("evaluate", "m_adapt", "hidden") else "x" * 10_000
    with pytest.raises(SettingsError) as error:
        RunConfig(**{"population": "gridworld", "method": "exact", setting: wrong})
    assert setting in str(error.value)
    assert len(str(error.value)) < 1000


def test_two_wrong_settings_are_told_at_once():
    with pytest.raises(SettingsError, match=r"^tau = 0: .*; alpha = -1: .*"):
        grid(alpha=-1, tau=0)


@pytest.mark.parametrize("missing", ["population", "method"])
def test_what_is_missing_is_named(missing):
    settings = {"population": "gridworld", "method": "exact"}
    del settings[missing]
    with pytest.raises(SettingsError, match=missing):
        RunConfig(**settings)


def test_numbers_as_yaml_and_the_command_line_give_them():
    config = grid(rounds="1e3", tau=5.0, m_h="100", alpha="2", seed="7", evaluate="20", m_adapt="exact", cohort="3")
    assert (config.rounds, config.tau, config.m_h, config.alpha, config.seed) == (1000, 5, 100, 2.0, 7)
    assert (config.evaluate, config.m_adapt, config.cohort) == (20, ("exact",), 3)
    assert all(type(value) is int for value in (config.rounds, config.tau, config.m_h, config.seed))
    assert grid(evaluate=[1, "5", 25.0]).evaluate == (1, 5, 25)
    assert grid(m_adapt=["0", 20, "exact"]).m_adapt == (0, 20, "exact")
    assert neural(hidden=64).hidden == (64,)
    assert neural(hidden=["64", 32.0]).hidden == (64, 32)
    assert grid(curvature_clip="inf").curvature_clip is None
    assert grid(curvature_clip=None).curvature_clip is None


def test_a_config_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        grid().alpha = 3.0


# --- the key ----------------------------------------------------------------------------------------------------------


def changed(name, letter, value):
    """Another value of a setting than the one it has."""
    others = {
        "population": "bandit", "method": "first_order", "oracle": "exact", "curvature": "causal", "size": 6,
        "theta0": "paper", "evaluation_seed": 5,
    }  # fmt: skip
    if name in others:
        return others[name]
    if isinstance(value, str | bool):
        choices = (True, False) if isinstance(value, bool) else get_args(get_args(letter.type)[0])
        return next(choice for choice in choices if choice != value)
    if isinstance(value, tuple):
        return (*value[:1], 17)
    return 1.0 if value is None else value / 2 if isinstance(value, float) else value - 1 if value > 1 else value + 2


def test_the_key_changes_with_every_setting_that_results_depend_on():
    keys = {}
    for name, letter in known("gridworld", "exact").items():
        if name in (*EXECUTION, "uses", "task_times"):
            continue
        base = neural if name == "hidden" else grid
        keys[name] = base(**{name: changed(name, letter, getattr(base(), name))}).key()
        assert keys[name] != base().key(), f"{name} changes nothing"
    assert len(set(keys.values())) == len(keys)
    assert grid(actors=0).key() == grid(actors=3).key() == grid(round_timeout=5).key() == grid().key()
    assert grid(min_agents=2, round_timeout=5).key() != grid(min_agents=2).key(), "who is late is left out"
    assert grid(clock="events", task_times=2).key() != grid(clock="events").key(), "without that clock it is refused"


def test_what_a_sweep_varies_is_described_at_its_default_too():
    """It names no trial, but a row without it could not be told from others."""
    config = grid()
    assert "size" not in config.identity()
    assert config.described(("size", "method", "m_h", "lam")) == {**config.identity(), "size": 5}
    assert grid(size=6).described(("size",))["size"] == grid(size=6).identity()["size"] == 6


RESULTS = Path(__file__).parent.parent / "analysis" / "results"


def test_every_committed_trial_has_the_key_that_it_had():
    """The names of 6000 trials, and what they were named by, in the order of their tables' columns."""
    trials = 0
    for planned in RESULTS.rglob("sweep.json"):
        about = json.loads(planned.read_text(encoding="utf-8"))
        with offered(about["sweep"]):
            for key, settings in about["trials"].items():
                config = RunConfig(**settings)
                trials += 1
                assert config.key() == key
                assert list(config.identity().items()) == list(settings.items())
    assert trials >= 6000


KEYS = json.loads((Path(__file__).parent / "keys.json").read_text(encoding="utf-8"))


def settled(population, method):
    """The run by default; None where the method asks for what nobody there answers."""
    try:
        return RunConfig(population=population, method=method)
    except SettingsError as refused:
        if f"{method} asks for " not in str(refused):
            raise
        return None


@pytest.mark.parametrize("run", KEYS)
def test_a_setting_that_came_later_renames_no_trial(run):
    """The keys of every method on every population as they were when it was born: add to keys.json, and change none."""
    assert settled(*run.split()).key() == KEYS[run]


def test_every_method_and_population_has_its_keys_written_down():
    assert set(KEYS) == {f"{p} {m}" for p in POPULATIONS for m in METHODS if settled(p, m)}


def test_equal_runs_have_equal_keys_however_they_are_written():
    config = grid()
    assert grid(oracle=config.oracle, cohort=8, alpha="2.0", m_h=10.0, evaluate="10").key() == config.key()
    assert grid(curvature_clip=math.inf).key() == grid(curvature_clip=None).key() == config.key()
    assert grid(m_adapt=[0, "exact"]).key() == config.key()
    assert neural(hidden=[32]).key() == neural().key()
    assert len(config.key()) == 12
    assert int(config.key(), 16) >= 0


def test_identity_makes_the_same_run_again():
    """It is what results are stored with: plain JSON."""
    config = neural(alpha=0.25, curvature_clip=0.5, cohort=3, evaluate=(1, 5))
    assert RunConfig(**config.identity()).key() == config.key()
    assert RunConfig(**grid().identity()).key() == grid().key()
    assert not EXECUTION & set(config.identity())


def test_pickles_and_compares_equal():
    """Configs travel to the actors, which keep their agents as long as an equal one comes."""
    for config in (grid(cohort=3, actors=2), neural(m_adapt=(0, 20), curvature_clip=1.0)):
        copy = pickle.loads(pickle.dumps(config))
        assert copy == config
        assert copy.key() == config.key()
        assert copy.build_population() is config.build_population()
    assert grid() == grid()
    assert grid() != grid(seed=1)


def test_every_setting_says_what_it_means():
    for name, letter in every_setting().items():
        assert letter.description, name
        assert "\n" not in letter.description


@pytest.mark.parametrize(("participants", "numbers"), [("train", range(6)), ("held_out", range(6, 9))])
def test_the_agents_that_learn(participants, numbers):
    config = neural(participants=participants)
    assert config.agents() == tuple(numbers)
    assert config.cohort == len(numbers)


def test_nothing_runs_before_the_settings_are_sound():
    with pytest.raises(SettingsError):
        train(grid(oracle="exact", population="navigation"))
