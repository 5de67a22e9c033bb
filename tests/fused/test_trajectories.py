"""The fused oracle's trajectories: the environment's dynamics, the policy's distribution, the stream's addresses."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch
from scipy import stats

from raypfrl.oracles.fused import Trajectories
from raypfrl.populations import Compiled, Population
from raypfrl.streams import Stream
from tests.fused.families import FAMILIES, STREAM, fused, vectors


def same(x: Trajectories, y: Trajectories) -> bool:
    """To the last bit."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(x, y, strict=True))


def head(x: Trajectories, m: int) -> Trajectories:
    """The first m trajectories."""
    return Trajectories(*(np.ascontiguousarray(part[:m]) for part in x))


def probabilities(population: Population, observations: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """pi(a|s) for all actions, in float64, by the policy's own log_prob; shape (..., actions)."""
    theta = torch.tensor(vectors(population.policy)[0])
    flat = torch.tensor(observations.reshape(-1, *observations.shape[2:]))
    actions = range(population.policy.actions)  # type: ignore[attr-defined]
    log_p = [population.policy.log_prob(theta, flat, torch.full((len(flat),), a)) for a in actions]
    return np.exp(torch.stack(log_p, -1).numpy()).reshape(*observations.shape[:2], -1)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_environment_goes_the_same_way(family: str) -> None:
    """The actions of 40 trajectories, replayed from the same starts."""
    population = FAMILIES[family]
    task = population.train[0]
    batch = fused(population).trajectories(vectors(population.policy)[0], 40, STREAM)
    env = gymnasium.make(task.env_id, **task.env_kwargs).unwrapped
    for i in range(40):
        env.reset(seed=0)
        start = batch.observations[i, 0]
        if family == "gridworld":
            env._cell = divmod(int(start), 5)  # type: ignore[attr-defined]
        else:
            env._position = start.copy()  # type: ignore[attr-defined]
        success = False
        for h in range(population.horizon + 1):
            observation, reward, _, _, info = env.step(batch.actions[i, h])
            assert reward == batch.rewards[i, h]
            success |= info["success"]
            if h < population.horizon:
                np.testing.assert_allclose(batch.observations[i, h + 1], observation, atol=1e-6)  # float32 positions
        assert success == batch.success[i]
        np.testing.assert_allclose(batch.final_distance[i], info["distance"], atol=1e-6)
    assert 0 < batch.success.mean() < 1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tasks_functions_run_as_plain_numpy(family: str) -> None:
    population = FAMILIES[family]
    task = population.train[0]
    assert isinstance(task, Compiled)
    functions = task.kernel
    assert functions is not None
    batch = fused(population).trajectories(vectors(population.policy)[0], 40, STREAM)
    constants = np.array(functions.constants(task), np.float32)
    if family == "gridworld":
        row, column = np.divmod(batch.observations[:, 0], 5)
        state = row.astype(np.float32), column.astype(np.float32)
    else:
        state = tuple(batch.observations[:, 0].astype(np.float32).T)
    for h in range(population.horizon + 1):
        observation = np.stack(functions.observe(constants, state), -1).squeeze()
        np.testing.assert_array_equal(observation, batch.observations[:, h])
        np.testing.assert_array_equal(functions.measure(constants, state)[0], batch.rewards[:, h])
        state = functions.transition(constants, state, batch.actions[:, h])


def test_a_gridworld_episode_starts_anywhere_but_in_the_goal() -> None:
    population = FAMILIES["gridworld"]
    m = 24_000
    batch = fused(population).trajectories(vectors(population.policy)[0], m, STREAM)
    counts = np.bincount(batch.observations[:, 0], minlength=25)
    assert counts[0] == 0  # the goal (0, 0)
    assert stats.chisquare(counts[1:]).pvalue > 1e-4


def test_a_navigation_episode_starts_anywhere_in_the_box() -> None:
    population = FAMILIES["navigation"]
    m = 25_600
    starts = fused(population).trajectories(vectors(population.policy)[0], m, STREAM).observations[:, 0]
    assert np.abs(starts).max() <= 1
    counts, _, _ = np.histogram2d(*starts.T, bins=16, range=[(-1, 1), (-1, 1)])
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_actions_are_drawn_from_the_policy(family: str) -> None:
    """1[a = a_h] - pi(a|s_h) sums to zero over all decisions, with variance sum pi (1 - pi) (a martingale): for every
    action, at every decision number h, and weighted by pi."""
    population = FAMILIES[family]
    batch = fused(population).trajectories(vectors(population.policy)[0], 4000, STREAM)
    p = probabilities(population, batch.observations)
    excess = np.eye(p.shape[-1])[batch.actions] - p
    variance = p * (1 - p)
    assert np.abs(excess.sum((0, 1)) / np.sqrt(variance.sum((0, 1)))).max() < 4.5
    assert np.abs(excess.sum(0) / np.sqrt(variance.sum(0))).max() < 4.5
    assert np.abs((p * excess).sum((0, 1)) / np.sqrt((p**2 * variance).sum((0, 1)))).max() < 4.5
    wrong = np.roll(p, 1, axis=-1)
    off = (np.eye(p.shape[-1])[batch.actions] - wrong).sum((0, 1)) / np.sqrt((wrong * (1 - wrong)).sum((0, 1)))
    assert np.abs(off).max() > 4.5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_trajectory_does_not_depend_on_its_batch(family: str) -> None:
    population = FAMILIES[family]
    oracle, (theta, _) = fused(population), vectors(population.policy)
    longest = oracle.trajectories(theta, 100, STREAM)
    for m in (1, 2, 15, 16, 17, 64, 99):
        assert same(oracle.trajectories(theta, m, STREAM), head(longest, m))
    longer = dataclasses.replace(population, horizon=population.horizon + 5)
    episode = fused(longer).trajectories(theta, 20, STREAM)
    assert (episode.actions[:, : population.horizon + 1] == longest.actions[:20]).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_part_of_a_streams_name_matters(family: str) -> None:
    population = FAMILIES[family]
    oracle, (theta, _) = fused(population), vectors(population.policy)
    names = [STREAM] + [
        dataclasses.replace(STREAM, **{part: getattr(STREAM, part) - 1})
        for part in ("seed", "agent", "round", "step", "purpose")
    ]
    names += [dataclasses.replace(STREAM, part=part) for part in (1, 2**20 - 1)]
    batches = [oracle.trajectories(theta, 30, name).actions.tobytes() for name in names]
    assert len(set(batches)) == len(names)


def test_the_numbers_of_a_name_never_change() -> None:
    """They are part of every result that was ever written; the first row had no part when it was."""
    oracle = fused(FAMILIES["gridworld"])
    for part, start, actions in (
        (0, 22, [0, 1, 3, 3, 3, 2, 2, 1, 3, 1, 0, 3, 1, 0, 3, 1]),
        (3, 15, [0, 0, 3, 1, 3, 1, 0, 2, 2, 2, 2, 1, 3, 3, 2, 2]),
    ):
        batch = oracle.trajectories(np.zeros(100), 1, dataclasses.replace(STREAM, part=part))
        assert batch.observations[0, 0] == start
        assert batch.actions[0].tolist() == actions


def test_no_two_trajectories_of_a_batch_are_the_same() -> None:
    population = FAMILIES["navigation"]
    batch = fused(population).trajectories(vectors(population.policy)[0], 4096, STREAM)
    assert len(np.unique(batch.observations[:, 0], axis=0)) == 4096


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_stream_gives_the_same_trajectories_again(family: str) -> None:
    population = FAMILIES[family]
    theta, _ = vectors(population.policy)
    again = Stream(STREAM.seed, STREAM.agent, STREAM.round, STREAM.step, STREAM.purpose)
    first = fused(population).trajectories(theta, 50, STREAM)
    oracle = fused(population)
    oracle.policy_gradient(theta, 3, dataclasses.replace(STREAM, seed=1))
    assert same(first, oracle.trajectories(theta, 50, again))
