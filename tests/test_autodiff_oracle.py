"""The autodiff oracle: both estimators against enumeration, the exact oracle and full matrices; episodes by hand."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from tiny import GymTask, as_batch, by_hand, central_difference, enumerated, random_mdp
from torch.func import grad, hessian

from raypfrl.oracles import ORACLES, autodiff
from raypfrl.oracles.autodiff import AutodiffOracle, Trajectories
from raypfrl.oracles.exact import ExactOracle
from raypfrl.policies import MLPGaussian, MLPSoftmax, TabularSoftmax
from raypfrl.populations import gridworld
from raypfrl.populations.population import MDP
from raypfrl.streams import LocalStep, Purpose, Stream

GAMMA = 0.8


def stream(number=0, purpose=Purpose.INNER):
    """Some batch's name."""
    return Stream(0, 0, number, 0, purpose)


# --- expectations by enumeration: no sampling, no tolerance to argue about --------------------------------------------


class Enumerated(NamedTuple):
    """Every trajectory of a small MDP with its probability, an oracle to ask, and the exact answers."""

    oracle: AutodiffOracle
    exact: ExactOracle
    batches: list[Trajectories]
    q: list[float]
    theta: np.ndarray
    v: np.ndarray

    def mean(self, function):
        """E over one trajectory."""
        return sum(q * function(batch) for q, batch in zip(self.q, self.batches, strict=True))


def enumerate_all(mdp, horizon, alive=None, seed=2):
    """``alive``: what becomes of a batch of one, for an MDP with a terminal state."""
    states, actions = mdp.r.shape
    policy = TabularSoftmax(states, actions)
    rng = np.random.default_rng(seed)
    theta, v = rng.normal(size=(2, policy.dim))
    trajectories = [xi for xi in enumerated(mdp, theta, horizon) if xi.q > 0]
    batches = [as_batch(mdp, xi) for xi in trajectories]
    return Enumerated(
        AutodiffOracle(GymTask("no environment is made"), policy, GAMMA, horizon),
        ExactOracle(mdp, policy, GAMMA, horizon),
        [alive(batch) for batch in batches] if alive else batches,
        [xi.q for xi in trajectories],
        theta,
        v,
    )


@pytest.fixture(scope="module")
def small():
    """Three states, two actions, three decisions: 216 trajectories."""
    return enumerate_all(random_mdp(1), horizon=2)


def test_every_trajectorys_g_and_uv_are_those_written_by_hand():
    """Equations (2) and (3) with full matrices, without automatic differentiation."""
    mdp = random_mdp(1)
    problem = enumerate_all(mdp, horizon=2)
    for xi, batch in list(zip(enumerated(mdp, problem.theta, 2), problem.batches, strict=True))[::7]:
        hand = by_hand(mdp, problem.theta, GAMMA, xi)
        assert problem.oracle.policy_gradient_on(batch, problem.theta) == pytest.approx(hand.g, abs=1e-12)
        product = problem.oracle.hessian_vector_product_on(batch, problem.theta, problem.v)
        u = hand.score_term + hand.second_term
        assert product == pytest.approx(u @ problem.v, abs=1e-12)


def test_a_batch_gives_the_mean_over_its_trajectories(small):
    several = Trajectories(
        *(torch.cat(column) for column in zip(*(batch[:4] for batch in small.batches[3:9]), strict=True)),
        np.zeros(6),
        np.zeros(6),
    )
    for question in (
        lambda batch: small.oracle.policy_gradient_on(batch, small.theta),
        lambda batch: small.oracle.hessian_vector_product_on(batch, small.theta, small.v),
        lambda batch: small.oracle.causal_hessian_vector_product_on(batch, small.theta, small.v, None),
    ):
        one_by_one = np.mean([question(batch) for batch in small.batches[3:9]], axis=0)
        assert question(several) == pytest.approx(one_by_one, abs=1e-12)


def test_g_is_unbiased(small):
    mean = small.mean(lambda batch: small.oracle.policy_gradient_on(batch, small.theta))
    assert mean == pytest.approx(small.exact.policy_gradient(small.theta), abs=1e-12)


ESTIMATORS = {
    "paper": lambda small, batch: small.oracle.hessian_vector_product_on(batch, small.theta, small.v),
    "causal": lambda small, batch: small.oracle.causal_hessian_vector_product_on(batch, small.theta, small.v, None),
    "causal with baseline": lambda small, batch: small.oracle.causal_hessian_vector_product_on(
        batch, small.theta, small.v, np.array([0.7, -0.4, 0.2])
    ),
}


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS.keys())
def test_uv_is_unbiased(small, estimator):
    """hess J v by every estimator, with a baseline that is any constant."""
    mean = small.mean(lambda batch: estimator(small, batch))
    assert mean == pytest.approx(small.exact.hessian_vector_product(small.theta, small.v), abs=1e-12)


def test_without_g_zT_the_curvature_is_wrong(small):
    """The negative control: the surrogate differentiated twice, as much code does, is not hess J."""
    mdp = random_mdp(1)
    second = sum(xi.q * by_hand(mdp, small.theta, GAMMA, xi).second_term for xi in enumerated(mdp, small.theta, 2))
    exact = small.exact.hessian_vector_product(small.theta, small.v)
    assert np.linalg.norm(second @ small.v - exact) > 0.5 * np.linalg.norm(exact)


def test_a_baseline_from_D_in_is_unbiased_and_one_from_D_h_is_not():
    """Two batches of one trajectory each, all pairs of them. Taken from D_h itself the baseline cancels everything."""
    problem = enumerate_all(random_mdp(1, states=2), horizon=1)
    discounts = GAMMA ** np.arange(2)

    def product(D_h, baseline):
        return problem.oracle.causal_hessian_vector_product_on(D_h, problem.theta, problem.v, baseline)

    def baseline_of(batch):
        return batch.rewards.numpy()[0] * discounts

    exact = problem.exact.hessian_vector_product(problem.theta, problem.v)
    independent = problem.mean(lambda D_in: problem.mean(lambda D_h: product(D_h, baseline_of(D_in))))
    assert independent == pytest.approx(exact, abs=1e-12)
    assert problem.mean(lambda D_h: product(D_h, baseline_of(D_h))) == pytest.approx(np.zeros(4), abs=1e-12)
    assert np.linalg.norm(exact) > 0.05


@pytest.mark.parametrize("baseline", [None, (0.7, -0.4, 0.2)])
def test_the_estimators_stay_unbiased_where_episodes_terminate(baseline):
    """State 2 ends the episode: its decisions never happen, but whether they happen depends on theta."""
    P, r, mu, _ = random_mdp(4)
    P[2], r[2] = [0, 0, 1], 0
    mdp = MDP(P, r, mu, None)

    def cut(batch):
        alive = (batch.observations != 2).double()
        return batch._replace(alive=alive, actions=batch.actions * alive.long())

    problem = enumerate_all(mdp, horizon=2, alive=cut)
    exact = problem.exact.hessian_vector_product(problem.theta, problem.v)
    products = [
        problem.mean(lambda batch: problem.oracle.hessian_vector_product_on(batch, problem.theta, problem.v)),
        problem.mean(
            lambda batch: problem.oracle.causal_hessian_vector_product_on(
                batch, problem.theta, problem.v, None if baseline is None else np.array(baseline)
            )
        ),
    ]
    for product in products:
        assert product == pytest.approx(exact, abs=1e-12)
    mean = problem.mean(lambda batch: problem.oracle.policy_gradient_on(batch, problem.theta))
    assert mean == pytest.approx(problem.exact.policy_gradient(problem.theta), abs=1e-12)


# --- Monte Carlo on the gridworld -------------------------------------------------------------------------------------


class Sampled(NamedTuple):
    """Independent batches of the gridworld, an oracle, theta and v."""

    oracle: AutodiffOracle
    exact: ExactOracle
    batches: list[Trajectories]
    theta: np.ndarray
    v: np.ndarray


@pytest.fixture(scope="module")
def sampled():
    """24 batches of 100 trajectories; v is the gradient's direction, along which the curvature is not small."""
    population = gridworld()
    arguments = (population.train[4], population.policy, population.gamma, population.horizon)
    oracle, exact = AutodiffOracle(*arguments), ORACLES["exact"](*arguments)
    theta = 0.5 * np.random.default_rng(0).normal(size=100)
    v = exact.policy_gradient(theta)
    batches = [oracle.sample(theta, 100, stream(number, Purpose.HESSIAN)) for number in range(24)]
    return Sampled(oracle, exact, batches, theta, v / np.linalg.norm(v))


def off_by(replicates, exact):
    """How many standard errors, computed from the replicates, their mean is off in each of six directions: the exact
    answer's own and five random ones."""
    directions = np.vstack([exact, np.random.default_rng(1).normal(size=(5, exact.size))])
    values = np.array(replicates) @ directions.T
    standard_error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.abs(values.mean(axis=0) - directions @ exact) / standard_error


MONTE_CARLO = {
    "paper": lambda s, D_h, D_in: s.oracle.hessian_vector_product_on(D_h, s.theta, s.v),
    "causal": lambda s, D_h, D_in: s.oracle.causal_hessian_vector_product_on(D_h, s.theta, s.v, None),
    "causal with baseline": lambda s, D_h, D_in: s.oracle.causal_hessian_vector_product_on(
        D_h, s.theta, s.v, (D_in.rewards.numpy() * 0.9 ** np.arange(16)).mean(0)
    ),
}


@pytest.mark.parametrize("estimator", MONTE_CARLO.values(), ids=MONTE_CARLO.keys())
def test_the_mean_of_H_hat_v_is_within_three_standard_errors(sampled, estimator):
    pairs = zip(sampled.batches, sampled.batches[1:] + sampled.batches[:1], strict=True)
    products = [estimator(sampled, D_h, D_in) for D_h, D_in in pairs]
    assert off_by(products, sampled.exact.hessian_vector_product(sampled.theta, sampled.v)).max() < 3


def test_the_mean_of_g_is_within_three_standard_errors(sampled):
    gradients = [sampled.oracle.policy_gradient_on(batch, sampled.theta) for batch in sampled.batches]
    assert off_by(gradients, sampled.exact.policy_gradient(sampled.theta)).max() < 3


def test_three_standard_errors_are_enough_to_see_that_g_zT_is_missing(sampled):
    """The negative control at the same sample size."""

    def second_term_only(batch):
        R = sampled.oracle._reward_to_go(batch)

        def nu_bar(theta):
            return (sampled.oracle._log_prob(batch, theta) * R).sum(1).mean()

        gradient = grad(nu_bar)
        return torch.func.jvp(gradient, (torch.tensor(sampled.theta),), (torch.tensor(sampled.v),))[1].numpy()

    products = [second_term_only(batch) for batch in sampled.batches]
    assert off_by(products, sampled.exact.hessian_vector_product(sampled.theta, sampled.v)).max() > 10


def test_the_causal_estimators_vary_less(sampled):
    """What they are for: the summed variance of u_c is below that of u at equal batches, with baseline lower still."""
    pairs = list(zip(sampled.batches, sampled.batches[1:] + sampled.batches[:1], strict=True))
    spread = [np.var([estimator(sampled, *pair) for pair in pairs], axis=0).sum() for estimator in MONTE_CARLO.values()]
    assert spread[0] > 1.2 * spread[1]
    assert spread[1] > spread[2]


# --- neural policies --------------------------------------------------------------------------------------------------

NEURAL = {
    "softmax-4": (GymTask("raypfrl/Navigation-v0", (("goal", (0.1, 0.3)), ("horizon", 5))), MLPSoftmax(2, 8, (4,))),
    "softmax-3-3": (GymTask("raypfrl/Navigation-v0", (("goal", (0.1, 0.3)), ("horizon", 5))), MLPSoftmax(2, 8, (3, 3))),
    "gaussian-4": (GymTask("tiny/Reach-v0"), MLPGaussian(2, 2, (4,))),
    "pendulum": (GymTask("Pendulum-v1"), MLPGaussian(3, 1, (4,))),
    "countdown": (GymTask("tiny/Countdown-v0", (("longest", 6),)), MLPSoftmax(2, 2, (4,))),
}


@pytest.mark.parametrize(("task", "policy"), NEURAL.values(), ids=NEURAL.keys())
def test_neural_estimates_against_finite_differences_and_full_matrices(task, policy):
    """On fixed trajectories: g is the derivative of nu_bar; u v is the mean of (g z^T + hess nu) v, trajectory by
    trajectory with whole matrices; the same without a baseline for u_c, reward by reward."""
    oracle = AutodiffOracle(task, policy, 0.9, horizon=5)
    rng = np.random.default_rng(3)
    theta, v = 0.5 * rng.normal(size=(2, policy.dim))
    batch = oracle.sample(theta, 4, stream())
    assert batch.rewards.abs().sum() > 0
    discounted = batch.rewards * torch.tensor(0.9 ** np.arange(6))
    R = torch.stack([discounted[:, h:].sum(1) for h in range(6)], 1)

    def nu_bar(theta):
        return (oracle._log_prob(batch, torch.tensor(theta)) * R).sum(1).mean().item()

    scale = max(1.0, float(R.abs().max()))
    gradient = oracle.policy_gradient_on(batch, theta)
    assert np.abs(gradient - central_difference(nu_bar, theta)).max() <= 6e-7 * scale

    u, u_c = np.zeros((2, policy.dim, policy.dim))
    for row in range(4):

        def log_prob(theta, row=row):
            return oracle._log_prob(batch, theta)[row]

        psi = torch.func.jacrev(log_prob)(torch.tensor(theta))
        Psi = torch.stack([hessian(lambda x, h=h: log_prob(x)[h])(torch.tensor(theta)) for h in range(6)])
        g, z = R[row] @ psi, psi.sum(0)
        u += (torch.outer(g, z) + torch.tensordot(R[row], Psi, 1)).numpy() / 4
        for t in range(6):
            z_t = psi[: t + 1].sum(0)
            u_c += (discounted[row, t] * (torch.outer(z_t, z_t) + Psi[: t + 1].sum(0))).numpy() / 4
    assert oracle.hessian_vector_product_on(batch, theta, v) == pytest.approx(u @ v, abs=1e-10 * scale)
    causal = oracle.causal_hessian_vector_product_on(batch, theta, v, None)
    assert causal == pytest.approx(u_c @ v, abs=1e-10 * scale)
    oracle.close()


# --- episodes ---------------------------------------------------------------------------------------------------------


def countdown(horizon, mode=None, **settings):
    """An oracle of the countdown environment in an autoreset mode (left out: make_vec's own)."""

    class Chosen(AutodiffOracle):
        def _vector_env(self):
            if self._envs is None and mode is not None:
                self._envs = gymnasium.make_vec(
                    self._task.env_id, autodiff.LANES, "sync", {"autoreset_mode": mode}, **self._task.env_kwargs
                )
            return super()._vector_env()

    task = GymTask("tiny/Countdown-v0", tuple(settings.items()))
    return Chosen(task, MLPSoftmax(inputs=2, actions=2, hidden=(3,)), 0.9, horizon)


THETA = np.random.default_rng(0).normal(size=MLPSoftmax(2, 2, (3,)).dim)
MODES = [None, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_an_episode_of_three_decisions_in_a_horizon_of_nine_by_hand(end, mode):
    """Observation (remaining, elapsed), reward 10 elapsed + action + 1. A second wave follows the first."""
    oracle = countdown(9, mode, end=end)
    batch = oracle.sample(THETA, autodiff.LANES + 3, stream())
    for row in range(autodiff.LANES + 3):
        a = batch.actions[row].tolist()
        assert batch.alive[row].tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
        assert batch.observations[row, :3].tolist() == [[3, 0], [2, 1], [1, 2]]
        assert batch.rewards[row].tolist() == [a[0] + 1, 10 + a[1] + 1, 20 + a[2] + 1, 0, 0, 0, 0, 0, 0, 0]
    assert not batch.success.any(), "the next episode's state was taken for this one's"
    assert (batch.final_distance == 1).all()
    assert oracle.meter.env_steps == 3 * (autodiff.LANES + 3)
    assert oracle.meter.trajectories == autodiff.LANES + 3
    oracle.close()


@pytest.mark.parametrize("mode", MODES)
def test_episodes_of_different_lengths_hold_only_what_happened(mode):
    """Starts at 1..6: some end at once, some are cut by the horizon; lanes end at different times."""
    batch = countdown(4, mode, longest=6).sample(THETA, 2 * autodiff.LANES + 5, stream())
    starts = batch.observations[:, 0, 0]
    assert set(starts.tolist()) == {1, 2, 3, 4, 5, 6}
    for row, start in enumerate(starts.tolist()):
        length = min(int(start), 5)
        assert batch.alive[row].tolist() == [1] * length + [0] * (5 - length)
        assert batch.observations[row, :length].tolist() == [[start - h, h] for h in range(length)]
        expected = [10 * h + 1 + batch.actions[row, h].item() for h in range(length)]
        assert batch.rewards[row].tolist() == expected + [0] * (5 - length)
        assert batch.success[row] == (start >= 4)
        assert batch.final_distance[row] == start - length + 1


@pytest.mark.parametrize("mode", MODES[1:])
def test_the_autoreset_mode_changes_no_bit_of_the_answers(mode):
    reference, other = countdown(7, longest=6), countdown(7, mode, longest=6)
    for question in (
        lambda oracle: oracle.policy_gradient(THETA, 70, stream()),
        lambda oracle: oracle.hessian_vector_product(THETA, THETA, 70, stream()),
        lambda oracle: oracle.hessian_vector_product(THETA, THETA, 70, stream(), curvature="causal"),
        lambda oracle: oracle.mean_rewards(THETA, 70, stream()),
        lambda oracle: np.array(oracle.returns(THETA, 70, stream())),
    ):
        assert question(other).tobytes() == question(reference).tobytes()
    assert (other.meter.trajectories, other.meter.env_steps) == (
        reference.meter.trajectories,
        reference.meter.env_steps,
    )


def test_padding_after_the_end_changes_no_derivative():
    """The same episodes in a longer horizon: only dead decisions are added."""
    short, long = countdown(5, longest=6), countdown(11, longest=6)
    batch = short.sample(THETA, 8, stream())
    padded = batch._replace(
        **{name: autodiff._padded(getattr(batch, name), 12) for name in ("observations", "actions", "rewards", "alive")}
    )
    for question in ("policy_gradient_on", "hessian_vector_product_on", "causal_hessian_vector_product_on"):
        v = {"policy_gradient_on": (), "hessian_vector_product_on": (THETA,)}.get(question, (THETA, None))
        answer, other = getattr(short, question)(batch, THETA, *v), getattr(long, question)(padded, THETA, *v)
        assert other == pytest.approx(answer, abs=1e-12)


# --- streams, lanes, meters -------------------------------------------------------------------------------------------


def prefix(batch, m):
    """The bytes of the first m trajectories, as far as they happened."""
    happened = batch.alive[:m].bool()
    columns = [np.asarray(column[:m][happened]).tobytes() for column in batch[:4]]
    return [*columns, happened.numpy().tobytes(), *(column[:m].tobytes() for column in batch[4:])]


def grid_oracle():
    """A gridworld of four decisions."""
    population = gridworld(horizon=3)
    return AutodiffOracle(population.train[0], population.policy, 0.9, 3)


@pytest.mark.parametrize("make", [grid_oracle, lambda: countdown(5, longest=6)], ids=["gridworld", "countdown"])
def test_trajectories_do_not_depend_on_the_size_of_the_batch(make):
    """The first five of 150 are those of a batch of five."""
    oracle = make()
    theta = np.zeros(oracle._policy.dim)
    few, many = (oracle.sample(theta, m, stream()) for m in (5, 150))
    assert prefix(few, 5) == prefix(many, 5)


@pytest.mark.parametrize("lanes", [1, 7, 200])
def test_trajectories_do_not_depend_on_the_lanes(lanes, monkeypatch):
    reference = prefix(countdown(5, longest=6).sample(THETA, 20, stream()), 20)
    monkeypatch.setattr(autodiff, "LANES", lanes)
    assert prefix(countdown(5, longest=6).sample(THETA, 20, stream()), 20) == reference


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
    oracle.hessian_vector_product(theta, v, 5, stream(), curvature="causal", baseline=baseline)
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
    outcome = AutodiffOracle(GymTask("tiny/Reach-v0"), MLPGaussian(2, 2, (3,)), 0.9, 3).returns(
        np.zeros(MLPGaussian(2, 2, (3,)).dim), 6, stream()
    )
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


def test_an_environment_that_brings_its_own_vectorisation():
    """CartPole's takes one seed for all lanes; ours do not depend on it. Episodes end early, by termination."""
    policy = MLPSoftmax(inputs=4, actions=2, hidden=(4,))
    oracle, theta = AutodiffOracle(GymTask("CartPole-v1"), policy, 1.0, horizon=40), np.zeros(policy.dim)
    batch = oracle.sample(theta, 30, stream())
    lengths = batch.alive.sum(1).int().tolist()
    assert 0 < min(lengths) < max(lengths)
    assert torch.equal(batch.rewards, batch.alive), "a reward of 1 for each decision that happened"
    for row, length in enumerate(lengths):
        happened = batch.observations[row, :length]
        assert happened[0].abs().max() <= 0.05, "not a start"
        assert (happened[1:, 2].diff().abs() < 0.1).all(), "a pole that jumps: the next episode's start"
        assert (happened[:, 2].abs() < 12.5 * np.pi / 180).all()
    assert prefix(oracle.sample(theta, 4, stream()), 4) == prefix(batch, 4)
    oracle.close()
