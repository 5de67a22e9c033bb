"""Episodes: by hand, in any number of lanes, from named streams, charged once."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import GymTask

from raypfrl.oracles import episodes
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.policies import MLPGaussian, MLPSoftmax, TabularSoftmax
from raypfrl.populations import gridworld
from raypfrl.streams import LocalStep, Purpose, Stream

POLICY = MLPSoftmax(inputs=2, actions=2, hidden=(3,))
THETA = np.random.default_rng(0).normal(size=POLICY.dim)


def stream(number=0, purpose=Purpose.INNER):
    """Some batch's name."""
    return Stream(0, 0, number, 0, purpose)


def countdown(horizon, **options):
    """An oracle of the countdown environment."""
    return AutodiffOracle(GymTask("tiny/Countdown-v0", tuple(options.items())), POLICY, 0.9, horizon)


def grid_oracle():
    """A gridworld of four decisions."""
    population = gridworld(horizon=3)
    return AutodiffOracle(population.train[0], population.policy, 0.9, 3)


def each(batch):
    """(observations, actions, rewards) of every episode."""
    ends = batch.lengths.cumsum()[:-1]
    return zip(*(np.split(x, ends) for x in (batch.observations, batch.actions, batch.rewards)), strict=True)


def prefix(batch, m):
    """The bytes of the first m episodes."""
    happened = batch.lengths[:m].sum()
    flat = [column[:happened].tobytes() for column in (batch.observations, batch.actions, batch.rewards)]
    return [*flat, *(column[:m].tobytes() for column in (batch.lengths, batch.success, batch.final_distance))]


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_an_episode_of_three_decisions_in_a_horizon_of_nine_by_hand(end):
    """Observation (remaining, elapsed), reward 10 elapsed + action + 1. Every lane plays more than one."""
    oracle, m = countdown(9, end=end), episodes.LANES + 3
    batch = oracle.sample(THETA, m, stream())
    assert batch.lengths.tolist() == [3] * m
    for observations, a, rewards in each(batch):
        assert observations.tolist() == [[3, 0], [2, 1], [1, 2]]
        assert rewards.tolist() == [a[0] + 1, 10 + a[1] + 1, 20 + a[2] + 1]
    assert not batch.success.any(), "the next episode's state was taken for this one's"
    assert (batch.final_distance == 1).all()
    assert (oracle.meter.trajectories, oracle.meter.env_steps) == (m, 3 * m)


def test_episodes_of_different_lengths_hold_only_what_happened():
    """Starts at 1..6: some end at once, some are cut by the horizon; lanes end at different times."""
    batch = countdown(4, longest=6).sample(THETA, 2 * episodes.LANES + 5, stream())
    starts = set()
    for e, (observations, actions, rewards) in enumerate(each(batch)):
        start = int(observations[0, 0])
        starts.add(start)
        length = min(start, 5)
        assert observations.tolist() == [[start - h, h] for h in range(length)]
        assert rewards.tolist() == [10 * h + 1 + actions[h] for h in range(length)]
        assert batch.success[e] == (start >= 4)
        assert batch.final_distance[e] == start - length + 1
    assert starts == {1, 2, 3, 4, 5, 6}


def test_a_batch_by_row_and_column_is_the_table_of_its_episodes():
    batch = countdown(4, longest=6).sample(THETA, 9, stream())
    table, R = batch.table(batch.rewards, 7), batch.reward_to_go(0.5 ** np.arange(5))
    assert table.shape == (9, 7)
    at = 0
    for row, (_, _, rewards) in zip(table, each(batch), strict=True):
        assert row.tolist() == [*rewards, *[0] * (7 - len(rewards))]
        for h in range(len(rewards)):
            assert R[at + h] == pytest.approx(sum(0.5**t * rewards[t] for t in range(h, len(rewards))))
        at += len(rewards)


# --- lanes ------------------------------------------------------------------------------------------------------------


class ScriptedEnv(gymnasium.Env):
    """Episodes of the lengths that it is told, one after another by their seed; wild numbers after the end."""

    def __init__(self, lengths):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._lengths, self._left = lengths, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = self._lengths[seed % len(self._lengths)]
        return self.np_random.normal(size=2), {}

    def step(self, action):
        assert self._left > 0, "an action after the end"
        self._left -= 1
        over = self._left == 0
        observation = np.full(2, np.nan) if over else self.np_random.normal(size=2)
        return observation, float(self.np_random.normal() + action), over, False, {}


gymnasium.register(id="tiny/Scripted-v0", entry_point=ScriptedEnv)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    m=st.integers(1, 40),
    lanes=st.integers(1, 12),
    horizon=st.integers(0, 8),
)
def test_no_number_depends_on_the_lanes_whatever_the_lengths(lengths, m, lanes, horizon):
    """Against one episode at a time: the episodes' bytes, and so every estimate."""

    def sampled(side_by_side):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(episodes, "LANES", side_by_side)
            oracle = AutodiffOracle(GymTask("tiny/Scripted-v0", (("lengths", lengths),)), POLICY, 0.9, horizon)
            return oracle.sample(THETA, m, stream()), oracle

    (reference, _), (batch, oracle) = sampled(1), sampled(lanes)
    assert prefix(batch, m) == prefix(reference, m)
    assert batch.lengths.max() <= horizon + 1
    assert oracle.meter.env_steps == batch.lengths.sum() == len(batch.rewards)


@pytest.mark.parametrize("policy", [POLICY, MLPSoftmax(2, 2, (64, 64))], ids=["3", "64-64"])
def test_what_a_lane_decides_does_not_depend_on_the_others_in_a_single_bit(policy):
    rng = np.random.default_rng(0)
    theta = policy.init(rng)
    task = GymTask("tiny/Countdown-v0", (("longest", 6),))
    reference = prefix(AutodiffOracle(task, policy, 0.9, 5).sample(theta, 70, stream()), 70)
    for lanes in (1, 7, 200):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(episodes, "LANES", lanes)
            assert prefix(AutodiffOracle(task, policy, 0.9, 5).sample(theta, 70, stream()), 70) == reference
    gaussian = MLPGaussian(17, 6, (64, 64))
    theta, x = gaussian.init(rng), rng.normal(size=(64, 17))
    noise = gaussian.noise(rng, (64,))
    together = gaussian.act(theta, x, noise)
    alone = np.concatenate([gaussian.act(theta, x[i : i + 1], noise[i : i + 1]) for i in range(64)])
    assert together.tobytes() == alone.tobytes()


@pytest.mark.parametrize("make", [grid_oracle, lambda: countdown(5, longest=6)], ids=["gridworld", "countdown"])
def test_episodes_do_not_depend_on_the_size_of_the_batch(make):
    """The first five of 150 are those of a batch of five."""
    oracle = make()
    theta = np.zeros(oracle._policy.dim)
    few, many = (oracle.sample(theta, m, stream()) for m in (5, 150))
    assert prefix(few, 5) == prefix(many, 5)


class CountingEnv(ScriptedEnv):
    """Counts what is asked of all its kind."""

    counts = {"made": 0, "resets": 0, "steps": 0}

    def __init__(self):
        super().__init__([3])
        self.counts["made"] += 1

    def reset(self, **options):
        self.counts["resets"] += 1
        return super().reset(**options)

    def step(self, action):
        self.counts["steps"] += 1
        return super().step(action)


gymnasium.register(id="tiny/Counting-v0", entry_point=CountingEnv)


def test_what_is_metered_is_what_is_done():
    """Environments for the episodes that there are, one reset an episode, no step beside; a baseline of a batch that
    was paid for plays nothing again."""
    CountingEnv.counts.update(made=0, resets=0, steps=0)
    oracle = AutodiffOracle(GymTask("tiny/Counting-v0"), POLICY, 0.9, 5)
    oracle.policy_gradient(THETA, 3, stream(0))
    assert CountingEnv.counts == {"made": 3, "resets": 3, "steps": 9}
    oracle.policy_gradient(THETA, 5, stream(1))
    oracle.hessian_vector_product(THETA, THETA, 70, stream(2))
    assert CountingEnv.counts == {"made": episodes.LANES, "resets": 78, "steps": 234}
    assert (oracle.meter.trajectories, oracle.meter.env_steps) == (78, 234)
    oracle.mean_rewards(THETA, 3, stream(0))
    oracle.value_baseline(THETA, 5, stream(1))
    assert CountingEnv.counts["resets"] == 78


def test_a_batch_that_is_no_longer_at_hand_is_played_again_and_not_charged():
    oracle, fresh = countdown(5, longest=6), countdown(5, longest=6)
    oracle.policy_gradient(THETA, 5, stream(0))
    for number in range(1, 5):
        oracle.policy_gradient(THETA, 5, stream(number))
    spent = oracle.meter.trajectories, oracle.meter.env_steps
    again = oracle.mean_rewards(THETA, 5, stream(0))
    assert (oracle.meter.trajectories, oracle.meter.env_steps) == spent
    assert again.tobytes() == fresh.mean_rewards(THETA, 5, stream(0)).tobytes()
    other = oracle.mean_rewards(2 * THETA, 5, stream(0))
    assert other.tobytes() != again.tobytes(), "a batch of another theta"


# --- streams, meters --------------------------------------------------------------------------------------------------


def test_the_same_stream_gives_the_same_bits_and_another_stream_others():
    step = LocalStep(0, 0, 0, 0)
    theta = np.random.default_rng(0).normal(size=100)
    first, second = grid_oracle(), grid_oracle()
    second.returns(theta, 9, step.outer)  # what was asked before does not matter
    answers = [oracle.policy_gradient(theta, 9, step.inner).tobytes() for oracle in (first, second, second)]
    assert len(set(answers)) == 1
    others = [first.policy_gradient(theta, 9, name).tobytes() for name in (step.inner, step.hessian, step.outer)]
    assert len(set(others)) == 3


def test_theta_may_be_read_only_and_is_never_changed():
    oracle, theta = grid_oracle(), np.random.default_rng(0).normal(size=100)
    before, v, baseline = theta.copy(), np.ones(100), np.zeros(4)
    for vector in (theta, v, baseline):
        vector.setflags(write=False)
    oracle.policy_gradient(theta, 5, stream())
    oracle.hessian_vector_product(theta, v, 5, stream())
    oracle.hessian_vector_product(theta, v, 5, stream(), credit="causal", baseline=baseline)
    oracle.returns(theta, 5, stream())
    assert theta.tobytes() == before.tobytes()


def test_the_meter_counts_every_trajectory_once():
    """mean_rewards names a batch that was paid for."""
    oracle, theta, spent = grid_oracle(), np.zeros(100), []
    for question, arguments in (
        (oracle.policy_gradient, (theta, 5)),
        (oracle.hessian_vector_product, (theta, theta, 7)),
        (oracle.returns, (theta, 11)),
        (oracle.mean_rewards, (theta, 5)),
    ):
        question(*arguments, stream())
        spent.append((oracle.meter.trajectories, oracle.meter.env_steps))
    assert spent == [(5, 20), (12, 48), (23, 92), (23, 92)]
    assert oracle.meter.seconds > 0


def test_mean_rewards_and_returns_tell_of_the_same_batch():
    oracle, theta = grid_oracle(), np.random.default_rng(0).normal(size=100)
    means = oracle.mean_rewards(theta, 40, stream())
    assert means.shape == (4,)
    assert oracle.returns(theta, 40, stream()).return_ == pytest.approx(means.sum(), abs=1e-12)
    assert means.sum() > 0


def test_an_environment_without_a_goal_tells_neither_success_nor_distance():
    policy = MLPGaussian(2, 2, (3,))
    outcome = AutodiffOracle(GymTask("tiny/Reach-v0"), policy, 0.9, 3).returns(np.zeros(policy.dim), 6, stream())
    assert outcome.return_ < 0
    assert np.isnan([outcome.success, outcome.final_distance]).all()


def test_close_is_idempotent_and_the_oracle_answers_afterwards():
    oracle, theta = grid_oracle(), np.zeros(100)
    before = oracle.policy_gradient(theta, 3, stream())
    oracle.close()
    oracle.close()
    assert oracle.policy_gradient(theta, 3, stream()).tobytes() == before.tobytes()


def test_torch_runs_on_one_thread():
    grid_oracle()
    assert torch.get_num_threads() == 1


def test_cartpole_falls_and_no_episode_sees_the_next_ones_start():
    policy = MLPSoftmax(inputs=4, actions=2, hidden=(4,))
    oracle, theta = AutodiffOracle(GymTask("CartPole-v1"), policy, 1.0, horizon=40), np.zeros(policy.dim)
    batch = oracle.sample(theta, 30, stream())
    assert 0 < batch.lengths.min() < batch.lengths.max()
    assert (batch.rewards == 1).all()
    for happened, *_ in each(batch):
        assert np.abs(happened[0]).max() <= 0.05, "not a start"
        assert (np.abs(np.diff(happened[1:, 2])) < 0.1).all(), "a pole that jumps: the next episode's start"
        assert (np.abs(happened[:, 2]) < 12.5 * np.pi / 180).all()
    assert prefix(oracle.sample(theta, 4, stream()), 4) == prefix(batch, 4)


def test_how_long_an_episode_may_be_is_the_horizons_word_and_not_the_registrations():
    """Pendulum-v1 is registered with a limit of 200 decisions and never ends by itself."""
    policy = MLPGaussian(3, 1, (3,))
    for horizon in (9, 219):
        oracle = AutodiffOracle(GymTask("Pendulum-v1"), policy, 0.9, horizon)
        assert oracle.sample(np.zeros(policy.dim), 2, stream()).lengths.tolist() == [horizon + 1] * 2


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_toy_text(env_id):
    env = gymnasium.make(env_id)
    policy = TabularSoftmax(int(env.observation_space.n), int(env.action_space.n))
    batch = AutodiffOracle(GymTask(env_id), policy, 0.9, 30).sample(np.zeros(policy.dim), 8, stream())
    assert batch.observations.dtype == np.int64
    assert len(set(batch.observations.tolist())) > 2
