"""Populations: SPEC's numbers, and their gymnasium environments."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from raypfrl import RunConfig, SettingsError
from raypfrl.oracles import covering
from raypfrl.populations import POPULATIONS, Simulated, gridworld, navigation
from raypfrl.populations.gridworld import SIZE, cell_of, move
from raypfrl.settings import own_settings

FAMILIES = [name for name, family in POPULATIONS.items() if isinstance(family.build().train[0], Simulated)]


def built(family):
    """The population with its own settings."""
    return POPULATIONS[family].build()


def rolled_out(env, decisions, seed=0, action_seed=1):
    """Observations (decisions + 1), rewards and infos of one episode under random actions of our own."""
    rng = np.random.default_rng(action_seed)
    observation, _ = env.reset(seed=seed)
    observations, actions, rewards, infos, ends = [observation], [], [], [], []
    for _ in range(decisions):
        actions.append(int(rng.integers(env.action_space.n)))
        observation, reward, terminated, truncated, info = env.step(actions[-1])
        observations.append(observation)
        rewards.append(reward)
        infos.append(info)
        ends.append((terminated, truncated))
    return observations, actions, rewards, infos, ends


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore:.*WARN:UserWarning")
def test_gymnasiums_checker_finds_nothing(family):
    """Its advice on how to write an environment is for the author: gymnasium's own do not all follow it."""
    for task in built(family).tasks:
        env = gymnasium.make(task.env_id, **task.env_kwargs)
        check_env(env.unwrapped, skip_render_check=True)
        env.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_episode_is_at_most_H_plus_1_decisions(family):
    """The paper's two families truncate it there themselves; another world may end before, or go on for ever."""
    population = built(family)
    task = population.train[0]
    env = gymnasium.make(task.env_id, **task.env_kwargs)
    env.action_space.seed(0)
    for _ in range(2):  # the second episode counts anew
        env.reset(seed=3)
        ends = []
        while len(ends) <= population.horizon and not any(any(each) for each in ends):
            ends.append(env.step(env.action_space.sample())[2:4])
        terminated, truncated = ends[-1]
        assert not truncated or len(ends) == population.horizon + 1
        assert family not in ("gridworld", "navigation") or (terminated, truncated) == (False, True)


@pytest.mark.parametrize("family", FAMILIES)
def test_make_vec_gives_the_environments_of_make(family):
    population = built(family)
    task = population.train[-1]
    envs = gymnasium.make_vec(task.env_id, 3, **task.env_kwargs)
    observations, _ = envs.reset(seed=[5, 6, 7])
    envs.action_space.seed(0)
    actions = envs.action_space.sample()
    after, rewards, *_ = envs.step(actions)
    for lane, seed in enumerate((5, 6, 7)):
        env = gymnasium.make(task.env_id, **task.env_kwargs)
        assert np.array_equal(observations[lane], env.reset(seed=seed)[0])
        observation, reward, *_ = env.step(actions[lane])
        assert np.array_equal(after[lane], observation)
        assert rewards[lane] == reward
    envs.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_agents_differ_and_the_held_out_ones_are_unseen(family):
    population = built(family)
    assert population.name == family
    assert len(population.train) == own_settings(POPULATIONS[family].build)["n"].default
    assert population.held_out or family == "gymnasium", "copies of one environment: none is unseen"
    assert population.tasks == population.train + population.held_out
    assert len(set(population.tasks)) == len(population.tasks)
    assert covering(population.train[0], population.policy), "no oracle covers it"


@pytest.mark.parametrize("family", ["gridworld", "quadratic"])
def test_n_outside_the_family_is_refused(family):
    build = POPULATIONS[family].build
    most = len(build().train)
    assert len(build(n=1).train) == 1
    for n in (0, most + 1):
        with pytest.raises(ValueError, match=rf"n = {n}: the {family}.* has 1 to {most} training agents"):
            build(n=n)


# --- gridworld --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [SIZE, 6, 7, 20, 50])
def test_gridworlds_goals_are_the_corners_and_the_edge_midpoints(size):
    """And the unseen ones lie on the border between them; no two are the same."""
    population = gridworld(size=size)
    goals = {task.goal for task in population.train}
    ends, middle = (0, size - 1), (size - 1) // 2
    assert goals == {(r, c) for r in ends for c in ends} | {(r, middle) for r in ends} | {(middle, c) for c in ends}
    assert len({task.goal for task in population.tasks}) == 16
    assert all(0 in goal or size - 1 in goal for goal in (task.goal for task in population.held_out))


def test_a_grid_of_another_size_is_an_option_and_the_papers_is_the_default():
    settings = {"population": "gridworld", "method": "exact", "horizon": 40}
    assert RunConfig(**settings).key() == RunConfig(**settings, size=5).key() != RunConfig(**settings, size=20).key()
    assert RunConfig(**settings, size=20).build_population().policy.dim == 1600
    with pytest.raises(SettingsError, match="size = 4"):
        RunConfig(**settings, size=4)


def test_moves_off_the_grid_stay():
    up, down, left, right = range(4)
    assert [move((2, 2), action) for action in (up, down, left, right)] == [(1, 2), (3, 2), (2, 1), (2, 3)]
    assert move((0, 3), up) == (0, 3)
    assert move((4, 3), down) == (4, 3)
    assert move((3, 0), left) == (3, 0)
    assert move((3, 4), right) == (3, 4)


def test_gridworld_rewards_the_current_state_and_the_goal_does_not_absorb():
    env = gymnasium.make("raypfrl/Gridworld-v0", goal=(0, 4), horizon=399)
    states, actions, rewards, infos, _ = rolled_out(env, 400)
    for h in range(400):
        row, column = cell_of(int(states[h]))
        assert rewards[h] == float((row, column) == (0, 4))
        assert infos[h] == {"success": (row, column) == (0, 4), "distance": row + (4 - column)}
        assert cell_of(int(states[h + 1])) == move((row, column), actions[h])
    at_goal = [h for h in range(400) if rewards[h]]
    assert any(not rewards[h + 1] for h in at_goal[:-1]), "the goal was never left"
    assert any(rewards[h + 1] for h in at_goal[:-1]), "a move off the grid never stayed on the goal"


def test_gridworld_starts_uniformly_on_the_other_cells():
    """A chi-square statistic of 23 degrees of freedom is above 49.7 once in a thousand."""
    env = gymnasium.make("raypfrl/Gridworld-v0", goal=(2, 0))
    env.reset(seed=1)
    starts = np.bincount([env.reset()[0] for _ in range(2400)], minlength=25)
    assert starts[10] == 0
    others = np.delete(starts, 10)
    assert ((others - 100) ** 2 / 100).sum() < 49.7


@pytest.mark.parametrize("task", [*gridworld().tasks, *gridworld(size=8).tasks[6:9]], ids=lambda task: str(task.goal))
def test_the_mdp_is_the_environment(task):
    after, r, mu, distance = task.mdp()
    P, cells = after.dense(), task.size**2
    assert np.array_equal(P.sum(-1), np.ones((cells, 4)))
    assert mu.sum() == pytest.approx(1, abs=1e-14)
    assert np.count_nonzero(mu) == cells - 1
    env = gymnasium.make(task.env_id, **{**task.env_kwargs, "horizon": 99})
    states, actions, rewards, infos, _ = rolled_out(env, 100)
    for h in range(100):
        s, a = states[h], actions[h]
        assert P[s, a, states[h + 1]] == 1
        assert r[s, a] == rewards[h]
        assert distance[s] == infos[h]["distance"]
    assert mu[states[0]] == 1 / (cells - 1)


def test_gridworld_as_text():
    env = gymnasium.make("raypfrl/Gridworld-v0", goal=(0, 4), render_mode="ansi")
    state, _ = env.reset(seed=0)
    text = env.render()
    lines = [line.split() for line in text.splitlines()]
    assert [len(line) for line in lines] == [5] * 5
    assert lines[0][4] == "G"
    row, column = cell_of(state)
    assert lines[row][column] == "A"
    assert text.count(".") == 23


# --- navigation -------------------------------------------------------------------------------------------------------


def test_navigations_goals():
    """Six on the arc of radius 0.8 at linspace(-0.5, 0.5) rad; held out: midpoints 0, 2, 4 of the five gaps."""
    population = navigation()
    angles = [math.atan2(y, x) for x, y in (task.goal for task in population.train)]
    assert angles == pytest.approx([-0.5, -0.3, -0.1, 0.1, 0.3, 0.5], abs=1e-15)
    unseen = [math.atan2(y, x) for x, y in (task.goal for task in population.held_out)]
    assert unseen == pytest.approx([-0.4, 0.0, 0.4], abs=1e-15)
    for task in population.tasks:
        assert math.hypot(*task.goal) == pytest.approx(0.8, abs=1e-15)


def test_navigation_moves_015_in_eight_directions_and_is_clipped_to_the_box():
    env = gymnasium.make("raypfrl/Navigation-v0", goal=(0.8, 0.0), horizon=399)
    positions, actions, rewards, infos, _ = rolled_out(env, 400)
    clipped = 0
    for h in range(400):
        angle = 2 * math.pi * actions[h] / 8
        free = positions[h] + 0.15 * np.array([math.cos(angle), math.sin(angle)])
        assert positions[h + 1] == pytest.approx(np.clip(free, -1, 1), abs=1e-15)
        clipped += bool((np.abs(free) > 1).any())
        distance = math.dist(positions[h], (0.8, 0.0))
        assert rewards[h] == float(distance <= 0.2)
        assert infos[h] == {"success": distance <= 0.2, "distance": pytest.approx(distance)}
    assert 0 < clipped < 400
    assert 0 < sum(rewards) < 400


def test_navigation_starts_uniformly_on_the_box():
    """The goal region included: its share of the box is pi 0.04 / 4. Standard errors of 4000 starts."""
    env = gymnasium.make("raypfrl/Navigation-v0", goal=(0.0, 0.0))
    env.reset(seed=1)
    starts = np.array([env.reset()[0] for _ in range(4000)])
    assert np.abs(starts.mean(0)).max() < 3.5 * math.sqrt(1 / 3 / 4000)
    assert starts.min() < -0.99
    assert starts.max() > 0.99
    share, p = (np.hypot(*starts.T) <= 0.2).mean(), math.pi * 0.04 / 4
    assert abs(share - p) < 3.5 * math.sqrt(p * (1 - p) / 4000)


@pytest.mark.parametrize(("n", "unseen"), [(1, 0), (2, 1), (3, 1), (7, 3)])
def test_navigation_of_another_size(n, unseen):
    population = navigation(n=n, hidden=(8, 8))
    assert (len(population.train), len(population.held_out)) == (n, unseen)
    assert population.policy.sizes == (2, 8, 8, 8)


# --- pictures and bad input -------------------------------------------------------------------------------------------

AGENT = (0, 70, 140)


@pytest.mark.parametrize(("name", "goal"), [("Gridworld", (0, 4)), ("Navigation", (0.8, 0.0))])
def test_the_picture_shows_the_goal_and_follows_the_agent(name, goal):
    env = gymnasium.make(f"raypfrl/{name}-v0", goal=goal, render_mode="rgb_array")
    env.reset(seed=3)
    before = env.render()
    assert before.dtype == np.uint8
    assert before.ndim == 3
    assert before.shape[-1] == 3
    agent = (before == AGENT).all(-1)
    assert 0.0005 < agent.mean() < 0.05
    for action in (1, 2, 3, 0):  # some move is not against a wall
        env.step(action)
    assert (before != env.render()).any()
    check_env(env.unwrapped)
    env.close()


def test_navigations_picture_has_y_upwards():
    env = gymnasium.make("raypfrl/Navigation-v0", goal=(0.0, 0.8), render_mode="rgb_array")
    env.reset(seed=0)
    rows, columns = np.nonzero((env.render() == (150, 215, 190)).all(-1))
    assert rows.mean() == pytest.approx(20, abs=3)
    assert columns.mean() == pytest.approx(100, abs=3)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("Gridworld", {"goal": (0, 5)}, r"goal = \(0, 5\) is no cell of the grid; give \(row, column\) in 0..4"),
        ("Gridworld", {"goal": (0, 1, 2)}, r"goal = \(0, 1, 2\) is no cell"),
        ("Navigation", {"goal": (1.5, 0.0)}, r"goal = \(1.5, 0.0\) is not in the box; give \(x, y\)"),
        ("Bandit", {"rewards": (1.0,)}, "at least two arms"),
    ],
)
def test_a_wrong_environment_is_refused_with_the_remedy(name, settings, message):
    with pytest.raises(ValueError, match=message):
        gymnasium.make(f"raypfrl/{name}-v0", **settings)
