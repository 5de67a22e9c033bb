"""Observations standardised by an agent's own data: its own constants, the same wherever they are made."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from misbehaving import Walk
from tiny import run, small

from raypfrl import RunConfig, SettingsError, config
from raypfrl.oracles import ORACLES
from raypfrl.populations import Variant, environments
from raypfrl.populations.environments import View, variant_of
from raypfrl.streams import Purpose, Stream

OPTIONS = {"gamma": 0.9, "horizon": 30}


def pendulums(*gravities, **more):
    agents = [Variant({"g": g}) for g in gravities]
    return environments("x", "Pendulum-v1", agents, held_out=[Variant({"g": 5.0})], standardise=4, **OPTIONS, **more)


def test_the_constants_are_those_of_the_agents_own_random_episodes():
    """Played again by hand; and what the agent then sees has about mean 0 and deviation 1."""
    task = pendulums(2.0, 10.0).tasks[1]
    env = variant_of(task.of, task.variant, View())
    rng = Stream(0, 1, 0, 0, Purpose.STANDARDISE).generator()
    env.action_space.seed(int(rng.integers(2**31)))
    shown = []
    for _ in range(4):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        for _ in range(31):
            shown.append(np.array(observation, np.float64))
            observation, *_ = env.step(env.action_space.sample())
    assert task.seen.centre == pytest.approx(np.mean(shown, axis=0))
    assert task.seen.scale == pytest.approx(np.std(shown, axis=0))
    population = pendulums(2.0, 10.0)
    oracle = ORACLES["autodiff"](task, population.policy, population.gamma, population.horizon)
    seen = oracle.sample(population.initial(), 50, Stream(0, 1, 0, 0, Purpose.INNER)).observations
    assert np.abs(seen.mean(0)).max() < 1
    assert np.abs(np.log(seen.std(0))).max() < 1


def test_an_agents_constants_are_nobody_elses():
    """They follow from its own number and environment alone: not from who else is there, not from the policy."""
    few, more = pendulums(2.0, 10.0), pendulums(2.0, 7.0, hidden=(3,))
    assert few.tasks[0].seen == more.tasks[0].seen
    assert len({task.seen for task in (*few.tasks, *more.tasks)}) == 4, "the first and the last are the same agents"
    assert np.all([np.isfinite(task.seen.centre + task.seen.scale) for task in few.tasks])


def test_they_are_the_same_bytes_when_they_are_found_again():
    """As in a process that begins anew: populations and agents are made again in the middle of a run."""
    settings = small("gymnasium", env_id="Pendulum-v1", vary="g", standardise=3)
    expected = run(settings)
    config._built.cache_clear()
    assert run(settings) == expected
    assert run(small("gymnasium", env_id="Pendulum-v1", vary="g")) != expected


class Still(Walk):
    """Shows a place and a constant."""

    def reset(self, **options):
        observation, info = super().reset(**options)
        return np.array([observation[0], 1e5], np.float32), info

    def step(self, action):
        observation, *rest = super().step(action)
        return np.array([observation[0], 1e5], np.float32), *rest


class Blind(Walk):
    def step(self, action):
        _, *rest = super().step(action)
        return np.full(2, np.nan, np.float32), *rest


for _env in (Still, Blind):
    gymnasium.register(id=f"tiny/{_env.__name__}-v0", entry_point=_env)


def test_what_never_changes_is_moved_and_not_scaled():
    (task,) = environments("x", "tiny/Still-v0", [Variant()], standardise=5, **OPTIONS).train
    assert task.seen.scale[1] == 1
    assert task.seen.centre[1] == pytest.approx(1e5)
    assert 0.1 < task.seen.scale[0] < 1


def test_what_cannot_be_standardised_is_refused_in_one_line():
    with pytest.raises(
        ValueError, match="tiny/Blind-v0 breaks: ValueError: tiny/Blind-v0 shows an observation that is"
    ):
        environments("x", "tiny/Blind-v0", [Variant()], standardise=5, **OPTIONS)
    with pytest.raises(ValueError, match="standardise = 4: centre and scale are given; leave one out"):
        pendulums(1.0, scale=(1, 1, 8))
    with pytest.raises(SettingsError, match=r"standardise = 4: FrozenLake-v1 shows states of Discrete\(16\)"):
        RunConfig(population="gymnasium", method="exact", env_id="FrozenLake-v1", standardise=4)
    with pytest.raises(SettingsError, match="standardise = -1"):
        RunConfig(population="gymnasium", method="exact", standardise=-1)


def test_it_is_a_setting_that_renames_no_trial_at_its_default():
    plain, own = (small("gymnasium", standardise=m) for m in (0, 3))
    assert small("gymnasium").key() == plain.key() != own.key()
    assert "standardise" not in plain.identity()
