"""Families of any gymnasium environment: what agents differ in, what is covered and what is refused, and why."""

from __future__ import annotations

import random

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple
from misbehaving import Walk

from raypfrl import RunConfig, SettingsError, train
from raypfrl.methods import METHODS
from raypfrl.oracles import ORACLES
from raypfrl.policies import MLPGaussian, MLPMultiSoftmax, MLPSoftmax, TabularSoftmax
from raypfrl.populations import Estimator, Variant, environments
from raypfrl.populations.environments import View, variant_of
from raypfrl.streams import Purpose, Stream

STREAM = Stream(0, 0, 0, 0, Purpose.INNER)
OPTIONS = {"gamma": 0.9, "horizon": 7}


def oracle_of(population, number=0):
    task = population.tasks[number]
    return ORACLES["autodiff"](task, population.policy, population.gamma, population.horizon)


def registered(name, env):
    """The id of an environment class that is made here."""
    gymnasium.registry.pop(f"tiny/{name}-v0", None)
    gymnasium.register(id=f"tiny/{name}-v0", entry_point=env)
    return f"tiny/{name}-v0"


# --- what agents differ in ------------------------------------------------------------------------------------------


def test_arguments_and_attributes_reach_the_environment_and_agents_differ():
    heavy = [Variant(attributes={"gravity": g}) for g in (9.8, 30.0)]
    poles = environments("poles", "CartPole-v1", heavy, held_out=[Variant(attributes={"gravity": 20.0})], **OPTIONS)
    gravities = [gymnasium.make(t.env_id, **t.env_kwargs).unwrapped.gravity for t in poles.tasks]
    assert gravities == [9.8, 30.0, 20.0]
    assert (len(poles.train), len(poles.held_out)) == (2, 1)
    swings = environments("swings", "Pendulum-v1", [Variant({"g": g}) for g in (0.0, 10.0)], **OPTIONS)
    theta = swings.policy.init(np.random.default_rng(0))
    light, strong = (oracle_of(swings, i).returns(theta, 20, STREAM).return_ for i in (0, 1))
    assert light != strong
    env = gymnasium.make("raypfrl/Variant-v0", **swings.tasks[1].env_kwargs, render_mode="rgb_array")
    assert (env.unwrapped.g, env.render_mode) == (10.0, "rgb_array")


def test_nothing_that_a_variant_holds_is_shared_with_an_environment():
    class Keeper(Walk):
        def __init__(self, goal):
            super().__init__()
            self.goal, self.wind = goal, None

        def step(self, action):
            self.goal.append(1)
            self.wind.append(1)
            return super().step(action)

    goal, wind = [0.5], [0.1]
    variant = Variant({"goal": goal}, {"wind": wind})
    env = variant_of(registered("Keeper", Keeper), variant, View())
    env.reset()
    env.step(np.zeros(2, np.float32))
    assert (goal, wind) == ([0.5], [0.1])
    assert env.unwrapped.goal == [0.5, 1]


def test_the_familys_estimator_is_its_oracles():
    plain = environments("w", "tiny/Walk-v0", [Variant()], **OPTIONS)
    own = environments("w", "tiny/Walk-v0", [Variant()], estimator=Estimator("linear", True, True), **OPTIONS)
    theta = plain.policy.init(np.random.default_rng(0))
    one, other = (oracle_of(p).policy_gradient(theta, 9, STREAM) for p in (plain, own))
    assert np.linalg.norm(one - other) > 1e-3


# --- spaces -----------------------------------------------------------------------------------------------------------


class Choices(Walk):
    """Two choices at once, which start at 1; they push along the axes."""

    def __init__(self):
        super().__init__()
        self.action_space = MultiDiscrete([2, 3], start=[1, 1])

    def step(self, action):
        assert self.action_space.contains(action)
        return super().step(np.float32(0.2) * (np.array(action, np.float32) - 1.5))


def test_the_policy_follows_from_the_spaces():
    registered("Choices", Choices)
    for of, hidden, policy in (
        ("CartPole-v1", (16,), MLPSoftmax(4, 2, (16,))),
        ("Pendulum-v1", (16,), MLPGaussian(3, 1, (16,))),
        ("FrozenLake-v1", (), TabularSoftmax(16, 4)),
        ("FrozenLake-v1", (8,), MLPSoftmax(16, 4, (8,))),
        ("tiny/Choices-v0", (4,), MLPMultiSoftmax(2, (2, 3), (4,))),
    ):
        population = environments("x", of, [Variant()], hidden=hidden, **OPTIONS)
        assert population.policy == policy
        outcome = oracle_of(population).returns(policy.init(np.random.default_rng(0)), 5, STREAM)
        assert np.isfinite(outcome.return_)
    assert environments("x", "Pendulum-v1", [Variant()], std=0.5, **OPTIONS).policy == MLPGaussian(3, 1, std=0.5)


def test_a_gaussian_of_fixed_std_has_no_log_std():
    learned, fixed = MLPGaussian(2, 2, (3,)), MLPGaussian(2, 2, (3,), std=0.5)
    assert fixed.dim == learned.dim - 2
    theta = np.random.default_rng(0).normal(size=fixed.dim)
    whole = np.append(theta, np.log([0.5, 0.5]))
    x, noise = np.ones((4, 2)), np.random.default_rng(1).normal(size=(4, 2))
    action = fixed.act(theta, x, noise)
    assert action == pytest.approx(learned.act(whole, x, noise))
    log_prob = [
        p.log_prob(torch.tensor(t), torch.tensor(x), torch.tensor(action))
        for p, t in ((fixed, theta), (learned, whole))
    ]
    assert torch.allclose(*log_prob)
    with pytest.raises(ValueError, match="std = 0: give a number above 0"):
        MLPGaussian(2, 2, std=0)


def test_what_is_clipped_or_squashed_is_what_the_environment_gets_and_the_density_is_of_what_was_drawn():
    class Told(Walk):
        given = []

        def step(self, action):
            self.given.append(np.array(action))
            return super().step(action)

    of = registered("Told", Told)
    for squash in (False, True):
        population = environments("x", of, [Variant()], squash=squash, std=3.0, **OPTIONS)
        oracle = oracle_of(population)
        Told.given.clear()
        batch = oracle.sample(population.policy.init(np.random.default_rng(0)), 1, STREAM)
        drawn, given = batch.actions, np.array(Told.given)
        assert np.abs(drawn).max() > 0.5
        assert given.dtype == np.float32
        expected = 0.5 * np.tanh(drawn) if squash else np.clip(drawn, -0.5, 0.5)
        assert given == pytest.approx(expected, abs=1e-6)


def test_centre_and_scale_are_constants_of_the_family():
    plain = environments("x", "tiny/Walk-v0", [Variant()], **OPTIONS)
    seen = environments("x", "tiny/Walk-v0", [Variant()], centre=(1, 0), scale=(2, 0.5), **OPTIONS)
    theta = np.zeros(plain.policy.dim)
    raw, own = (oracle_of(p).sample(theta, 5, STREAM).observations for p in (plain, seen))
    assert own == pytest.approx((raw - [1, 0]) / [2, 0.5])
    for wrong, words in (({"centre": (1,)}, "centre has 1 numbers"), ({"scale": (1, 0)}, "scale not 0")):
        with pytest.raises(ValueError, match=words):
            environments("x", "tiny/Walk-v0", [Variant()], **wrong, **OPTIONS)


# --- what is refused, before anything runs --------------------------------------------------------------------------


class Pair(Walk):
    def __init__(self):
        super().__init__()
        self.observation_space = Tuple([Discrete(2), Discrete(2)])


class Whole(Walk):
    def __init__(self):
        super().__init__()
        self.action_space = Box(0, 3, (2,), np.int64)


class Curriculum(Walk):
    """Harder with every episode."""

    episodes = 0

    def reset(self, **options):
        observation, info = super().reset(**options)
        self.episodes += 1
        self.x = observation * np.float32(1 + self.episodes)
        return self.x.copy(), info


class Global(Walk):
    """Draws from a generator of everybody's."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + random.random(), *rest


class Forgetful(Walk):
    wind = 0.0

    def reset(self, **options):
        self.wind = 0.0
        return super().reset(**options)


class Broken(Walk):
    def step(self, action):
        raise OSError("no\nsensor")


REFUSED = {
    "observations": (Pair, {}, "observations of a Tuple space are not covered: Box and Discrete are"),
    "actions": (Whole, {}, r"actions of a Box \(int64\) space are not covered: Discrete, Mul"),
    "own state": (Curriculum, {}, "tiny/Refused-v0 keeps a state between its episodes: make reset set all of it"),
    "own generator": (Global, {}, "does not play the same episode from the same seed: it draws from another g"),
    "an attribute that goes": (Forgetful, {"wind": 0.3}, "sets its attribute 'wind' anew in reset: 0.3 does not stay"),
    "an attribute that is not": (Forgetful, {"wnd": 0.3}, r"tiny/Refused-v0 has no attribute 'wnd'"),
    "an environment that breaks": (Broken, {}, r"tiny/Refused-v0 breaks: OSError: no\\nsensor"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_before_anything_runs(case):
    env, attributes, words = REFUSED[case]
    with pytest.raises(ValueError, match=words) as refusal:
        environments("x", registered("Refused", env), [Variant(attributes=attributes)], **OPTIONS)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"env_id": "Blackjack-v1"}, "observations of a Tuple space are not covered"),
        ({"env_id": "CartPol-v1"}, "CartPol-v1 cannot be made: .*Did you mean: `CartPole`"),
        ({"vary": "lenght"}, "CartPole-v1 has no attribute 'lenght': did you mean 'length'"),
        ({"squash": True}, "actions cannot be squashed into Discrete"),
        ({"baseline": "critic"}, "baseline = 'critic'"),
    ],
)
def test_the_command_lines_family_refuses_in_one_line(settings, words):
    with pytest.raises(SettingsError, match=words):
        RunConfig(population="gymnasium", method="first_order", **settings)


def test_vary_is_an_argument_where_the_constructor_takes_it_and_else_an_attribute():
    def tasks(**settings):
        return (
            RunConfig(population="gymnasium", method="first_order", n=3, low=4, high=8, **settings)
            .build_population()
            .tasks
        )

    assert [task.variant.attributes for task in tasks(vary="force_mag")] == [{"force_mag": x} for x in (4, 6, 8, 5, 7)]
    assert [task.variant.kwargs for task in tasks(env_id="Pendulum-v1", vary="g")] == [
        {"g": x} for x in (4, 6, 8, 5, 7)
    ]
    assert len(set(tasks(vary=""))) == 3


def own_ids(package):
    """The ids of one of gymnasium's packages, the newest version of each name."""
    specs = [s for s in gymnasium.registry.values() if str(s.entry_point).startswith(f"gymnasium.envs.{package}.")]
    newest = {spec.name: spec.id for spec in sorted(specs, key=lambda spec: spec.version or 0)}
    return sorted(newest.values())


REFUSED_IDS = {"Blackjack-v1": "observations of a Tuple space are not covered"}
MADE = {"Pendulum-v1": {"baseline": "linear"}, "MountainCarContinuous-v0": {"squash": True}}
OF_METHODS = ("m_in", "m_h", "m_out", "alpha", "beta")  # of some and not of others
QUICK = {"CartPole-v1", "Pendulum-v1", "FrozenLake-v1"}
IDS = [*own_ids("classic_control"), *own_ids("toy_text")]


def test_the_ids_are_gymnasiums_own():
    assert {*QUICK, *REFUSED_IDS, "Acrobot-v1", "Taxi-v4", "CliffWalking-v1"} <= set(IDS)


@pytest.mark.parametrize("env_id", [pytest.param(i, marks=[pytest.mark.slow] * (i not in QUICK)) for i in IDS])
def test_every_id_of_gymnasiums_runs_two_rounds_of_each_method_or_is_refused(env_id):
    """Classic control and toy text. Warnings are errors."""
    if env_id in REFUSED_IDS:
        with pytest.raises(SettingsError, match=REFUSED_IDS[env_id]):
            RunConfig(population="gymnasium", method="first_order", env_id=env_id)
        return
    hidden = () if env_id in own_ids("toy_text") and env_id != "Taxi-v4" else (4,)  # a table, or states one-hot
    small = {"n": 2, "horizon": 9, "hidden": hidden, "rounds": 2, "m_in": 3, "m_h": 3, "m_out": 3, "m_eval": 2}
    settings = {**small, "evaluate": (), "m_adapt": (0, 3), "alpha": 1e-3, "beta": 1e-3, "baseline": "none"}
    settings |= MADE.get(env_id, {})
    ran = 0
    for method in METHODS:
        known = {name: value for name, value in settings.items() if name not in OF_METHODS}
        known |= {name: settings[name] for name in METHODS[method].settings if name in settings}
        try:
            config = RunConfig(population="gymnasium", method=method, env_id=env_id, **known)
        except SettingsError as refusal:
            assert "asks" in str(refusal), "no other reason"  # noqa: PT017
            continue
        *_, last = train(config)
        ran += 1
        assert last["status"] == "finished"
        assert np.isfinite(last["before/return"])
    assert ran >= 5


def test_half_cheetahs_that_run_either_way_have_opposite_gradients(tmp_path, monkeypatch):
    """Their reward is the speed alone, forwards or backwards."""
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)  # it writes a log where it is
    agents = [Variant(kwargs={"forward_reward_weight": way, "ctrl_cost_weight": 0.0}) for way in (1.0, -1.0)]
    population = environments("x", "HalfCheetah-v5", agents, gamma=0.9, horizon=9, hidden=(4,))
    theta = population.initial()
    forwards, backwards = (oracle_of(population, i).policy_gradient(theta, 5, STREAM) for i in (0, 1))
    assert np.abs(forwards).max() > 0
    assert backwards == pytest.approx(-forwards)
