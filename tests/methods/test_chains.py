"""Methods of finite MDPs without episodes end where linear algebra and value iteration say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from cases import arrays_after
from tiny import softmax

from raypfrl import RunConfig
from raypfrl.methods.averaged_tables import nearest_policy
from raypfrl.methods.gossip import weights
from raypfrl.oracles import BEGIN, ORACLES
from raypfrl.populations import MDP, POPULATIONS, Family, Population, garnet
from raypfrl.populations.population import Successors
from raypfrl.streams import Purpose, Stream

STREAM = Stream(0, 1, 2, 3, Purpose.INNER)
GAMMA = 0.9


def server(method: str, **settings: Any) -> Any:
    return arrays_after(
        RunConfig(population="garnet", method=method, **{"gamma": GAMMA, "m_adapt": (0,), **settings})
    ).server


def dense(mdp: MDP) -> tuple[Any, Any]:
    assert isinstance(mdp.P, Successors)
    return mdp.P.dense(), mdp.r


def averaged(population: Population) -> tuple[Any, Any]:
    """The kernel and the reward of the averaged MDP."""
    P, r = zip(*(dense(task.mdp()) for task in population.train), strict=True)  # type: ignore[union-attr]
    return np.mean(P, axis=0), np.mean(r, axis=0)


def values_of(P: Any, r: Any, pi: Any, gamma: float = GAMMA) -> Any:
    """Q of a policy (S, A), by a solve over states and decisions."""
    S, A = r.shape
    onward = (P[..., None] * pi).reshape(S * A, S * A)
    return np.linalg.solve(np.eye(S * A) - gamma * onward, r.reshape(-1)).reshape(S, A)


# --- FedNPG -----------------------------------------------------------------------------------------------------------

OMEGA = 0.3


def distance_to_the_soft_optimum(**settings: Any) -> float:
    """Of the farthest agent's policy, to soft value iteration on the averaged reward."""
    world = {"n": 5, "eps_p": 0.0, "eps_r": 1.0}
    P, r = averaged(garnet(**world))
    V = np.zeros(len(r))
    for _ in range(500):
        Q = r + GAMMA * P @ V
        V = OMEGA * np.log(np.exp(Q / OMEGA).sum(-1))
    rows = server("fed_npg", **world, omega=OMEGA, eta=0.3, **settings).arrays["theta_i"]
    return float(max(np.abs(softmax(row.reshape(r.shape)) - softmax(Q / OMEGA)).max() for row in rows))


def test_fed_npg_is_soft_value_iteration_on_the_averaged_reward() -> None:
    assert distance_to_the_soft_optimum(topology="star", rounds=350) < 1e-12
    assert distance_to_the_soft_optimum(topology="ring", rounds=350) < 1e-12


def test_and_without_tracking_or_without_neighbours_it_is_not() -> None:
    untracked = distance_to_the_soft_optimum(topology="ring", tracking=False, rounds=350)
    alone = distance_to_the_soft_optimum(topology="none", rounds=350)
    assert 1e-2 < untracked < alone


def test_a_step_that_is_too_large_is_refused_with_the_largest() -> None:
    with pytest.raises(Exception, match=r"eta = 2 is above \(1 - gamma\) / omega = 1; lower eta or omega"):
        server("fed_npg", eta=2.0, omega=0.1, rounds=1)


@pytest.mark.parametrize("topology", ["star", "ring", "none"])
def test_weights_are_symmetric_and_doubly_stochastic(topology: str) -> None:
    W = weights(topology, 6)
    assert pytest.approx(W.T) == W
    assert W.sum(0) == pytest.approx(np.ones(6))


# --- QAvg and PAvg ----------------------------------------------------------------------------------------------------


def optimum(P: Any, r: Any) -> Any:
    Q = np.zeros_like(r)
    for _ in range(500):
        Q = r + GAMMA * P @ Q.max(-1)
    return Q


def test_qavg_solves_the_averaged_mdp_at_tau_1_alone() -> None:
    world = {"n": 4, "eps_p": 0.8, "eps_r": 0.5}
    Q = optimum(*averaged(garnet(**world))).reshape(-1)
    away = [np.abs(server("qavg", **world, tau=tau, beta=1.0, rounds=350).arrays["Q"] - Q).max() for tau in (1, 5)]
    assert away[0] < 1e-13
    assert away[1] > 1e-2


def test_pavg_of_equal_agents_ends_at_an_optimal_policy_and_its_rows_are_policies() -> None:
    world = {"n": 2, "eps_p": 0.0, "eps_r": 0.0}
    P, r = averaged(garnet(**world))
    Q, pi = optimum(P, r), server("pavg", **world, tau=1, beta=5.0, rounds=60).arrays["pi"].reshape(r.shape)
    assert pi.sum(-1) == pytest.approx(np.ones(len(r)))
    assert np.abs(values_of(P, r, pi) - Q).max() < 1e-12
    assert np.abs(values_of(P, r, np.full(r.shape, 1 / 3)) - Q).max() > 0.1


def test_the_nearest_policy_is_nearer_than_others() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=8)
    nearest = nearest_policy(x, 4).reshape(2, 4)
    assert nearest.min() == 0
    assert nearest.sum(-1) == pytest.approx(np.ones(2))
    assert nearest_policy(nearest.reshape(-1), 4) == pytest.approx(nearest.reshape(-1))
    others = rng.dirichlet(np.ones(4), (500, 2))
    away = ((others - x.reshape(2, 4)) ** 2).sum((1, 2))
    assert away.min() > ((nearest - x.reshape(2, 4)) ** 2).sum()


# --- temporal differences ---------------------------------------------------------------------------------------------


def td_parts(population: Population, number: int) -> tuple[Any, Any]:
    """A = Phi' D (I - gamma P Pi) Phi and b = Phi' D r under the uniform policy, so that the fixed point is A^-1 b."""
    P, r = dense(population.train[number].mdp())  # type: ignore[union-attr]
    S, A = r.shape
    chain = P.mean(1)
    rho = np.linalg.lstsq(np.vstack([chain.T - np.eye(S), np.ones(S)]), np.eye(S + 1)[-1], rcond=None)[0]
    D = np.diag(np.repeat(rho / A, A))
    Phi = np.array(population.policy.features).reshape(S * A, -1)  # type: ignore[attr-defined]
    onward = (P[..., None] * np.full((S, A), 1 / A)).reshape(S * A, S * A)
    return Phi.T @ D @ (np.eye(S * A) - GAMMA * onward) @ Phi, Phi.T @ D @ r.reshape(-1)


def test_td_ends_at_the_fixed_point_of_the_averaged_equations_at_tau_1_alone() -> None:
    world = {"n": 3, "eps_p": 0.8, "eps_r": 0.8, "features": 4}
    parts = [td_parts(garnet(**world), i) for i in range(3)]
    fixed = np.linalg.solve(np.mean([A for A, _ in parts], axis=0), np.mean([b for _, b in parts], axis=0))
    ends = np.mean([np.linalg.solve(A, b) for A, b in parts], axis=0)
    settings: dict[str, Any] = {**world, "oracle": "continuing", "tau": 1}
    assert server("fed_td", **settings, beta=3.0, rounds=400).theta == pytest.approx(fixed, abs=1e-6)
    assert np.abs(server("fed_td", **{**settings, "tau": 8}, beta=3.0, rounds=40).theta - fixed).max() > 1e-3
    assert np.abs(ends - fixed).max() > 1e-2, "it is not the mean of the agents' own ends"


def squared_errors(n: int, **world: Any) -> Any:
    """||theta - Q^pi of the shared MDP||^2 of the first n agents, after a run of each of some seeds."""
    shared = garnet(n=1, states=5, branches=2, eps_p=0.0, eps_r=0.0)
    Q = values_of(*averaged(shared), np.full((5, 3), 1 / 3), 0.5).reshape(-1)
    settings = {"states": 5, "branches": 2, "n": n, "oracle": "table", "tau": 10, "beta": 0.5, "rounds": 50, **world}
    return np.array([((server("fed_td", **settings, gamma=0.5, seed=seed).theta - Q) ** 2).sum() for seed in range(8)])


def test_the_error_of_equal_agents_falls_like_1_over_n_and_that_of_others_does_not() -> None:
    """Within four standard errors of the means over seeds."""
    same = {"eps_p": 0.0, "eps_r": 0.0}
    one, four = squared_errors(1, **same), squared_errors(4, **same)
    error = np.hypot(one.std(ddof=1), 4 * four.std(ddof=1)) / np.sqrt(len(one))
    assert abs(one.mean() - 4 * four.mean()) < 4 * error
    assert one.mean() - four.mean() > 4 * np.hypot(one.std(ddof=1), four.std(ddof=1)) / np.sqrt(len(one))
    other = squared_errors(4, eps_p=0.8, eps_r=0.8)
    assert other.mean() > 4 * four.mean()


def test_fed_q_of_equal_agents_ends_at_the_optimal_values() -> None:
    """And FedTD's values, of the uniform policy, are others."""
    world: dict[str, Any] = {"n": 2, "states": 5, "eps_p": 0.0, "eps_r": 0.0, "oracle": "continuing", "tau": 20}
    P, r = averaged(garnet(n=2, states=5, eps_p=0.0, eps_r=0.0))
    Q = optimum(P, r)
    end = server("fed_q", **world, beta=5.0, rounds=80, temperature=2.0).theta.reshape(r.shape)
    assert np.abs(end - Q).max() < 1e-4
    assert np.abs(server("fed_td", **world, beta=5.0, rounds=80).theta.reshape(r.shape) - Q).max() > 0.1


def test_sarsa_ends_where_its_values_are_those_of_the_policy_that_they_make() -> None:
    """Q = Q^pi with pi = softmax(Q / temperature); at another temperature it is not."""
    world: dict[str, Any] = {"n": 2, "states": 5, "eps_p": 0.0, "eps_r": 0.0, "oracle": "continuing", "tau": 20}
    P, r = averaged(garnet(n=2, states=5, eps_p=0.0, eps_r=0.0))
    Q = server("fed_sarsa", **world, beta=5.0, rounds=80, temperature=1.0).theta.reshape(r.shape)
    assert np.abs(Q - values_of(P, r, softmax(Q))).max() < 1e-4
    assert np.abs(Q - values_of(P, r, softmax(2 * Q))).max() > 1e-2


def test_a_chain_visits_what_it_visits_in_the_long_run() -> None:
    """Visits of states and decisions and the moves between them, within five standard errors of batch means."""
    population = garnet(states=4, branches=2)
    arguments = population.train[0], population.policy, GAMMA, 15
    theta = np.random.default_rng(0).normal(size=population.policy.dim)
    rows = ORACLES["table"](*arguments).transitions(theta, np.array([BEGIN]), 40_000, STREAM)
    assert (rows[1:, 1] == rows[:-1, 3]).all(), "it goes on where it stood"
    weight, x, _, after = ORACLES["continuing"](*arguments).transitions(theta, np.array([BEGIN]), 0, STREAM).T
    assert weight.sum() == pytest.approx(1)
    expected = np.bincount((x * 12 + after).astype(int), weight, 144)
    batches = (rows[:, 1] * 12 + rows[:, 3]).astype(int).reshape(40, 1000)
    found = np.stack([np.bincount(batch, minlength=144) / 1000 for batch in batches])
    errors = found.std(0, ddof=1) / np.sqrt(40)
    assert (np.abs(found.mean(0) - expected) <= 5 * errors + 1e-4).all()
    assert ((found.mean(0) > 0) <= (expected > 0)).all()


def test_where_a_chain_stands_goes_on_from_round_to_round_and_is_charged_as_steps() -> None:
    after = server("fed_sarsa", n=2, tau=3, rounds=4)
    assert after.spent.env_steps == 2 * 3 * 4
    assert after.spent.trajectories == 0
    assert {kept["position"].shape for kept in after.kept.values()} == {(1,)}
    assert min(kept["position"][0] for kept in after.kept.values()) >= 0


def test_the_server_keeps_theta_in_the_ball() -> None:
    free, held = (server("fed_sarsa", n=2, rounds=60, projection=radius).theta for radius in (None, 0.5))
    assert np.linalg.norm(free) > 1
    assert np.linalg.norm(held) == pytest.approx(0.5)


# --- a shared representation ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spanned:
    """A reward in the span of two around 0, on one kernel."""

    number: int

    def mdp(self) -> MDP:
        one, two = (task.mdp() for task in garnet(n=2, eps_p=0.0, eps_r=1.0).train)  # type: ignore[union-attr]
        turn = np.pi * self.number / 3
        return one._replace(r=4 * np.cos(turn) * (one.r - 0.5) + 4 * np.sin(turn) * (two.r - 0.5))


def spanned(*, n: int = 6, gamma: float = GAMMA, horizon: int = 15) -> Population:
    """Agents whose values lie in a plane."""
    return replace(garnet(n=n), name="spanned", train=tuple(map(Spanned, range(n))), held_out=())


@pytest.mark.parametrize(("span", "rank"), [(2, 2), (3, 3), (0, 5)])
def test_the_values_of_a_span_of_rewards_have_its_rank(span: int, rank: int) -> None:
    world = garnet(n=5, eps_p=0.0, eps_r=1.0, span=span)
    uniform = np.full((10, 3), 1 / 3)
    Q = [values_of(*dense(task.mdp()), uniform).reshape(-1) for task in world.train]  # type: ignore[union-attr]
    assert (np.linalg.svd(np.stack(Q))[1] > 1e-12).sum() == rank
    assert (np.abs(Q[0] - Q[-1]).max() < 1e-12) == (span == 2), "agents 0 and 4 take turns with the same of two"


def test_a_representation_finds_the_plane_that_the_values_lie_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distance 1 at the start; and features that never move stay there."""
    monkeypatch.setitem(POPULATIONS, "spanned", Family(spanned))
    P, _ = dense(Spanned(0).mdp())
    Q = np.stack([values_of(P, Spanned(i).mdp().r, np.full((10, 3), 1 / 3)).reshape(-1) for i in range(6)], -1)
    plane = np.linalg.svd(Q)[0][:, :2]
    assert np.linalg.svd(Q)[1][2] < 1e-12

    def end(rounds: int, beta: float) -> tuple[float, float]:
        config = RunConfig(
            population="spanned", method="fed_td_rep", oracle="continuing", rounds=rounds, tau=1, beta=beta,
            tau_head=5, beta_head=0.8, m_adapt=(0,),
        )  # fmt: skip
        done = arrays_after(config).server
        Phi = done.arrays["Phi"].reshape(-1, 2) / np.sqrt(30)
        found = np.stack([np.sqrt(30) * Phi @ done.kept[i]["w"] for i in range(6)], -1)
        return float(np.linalg.norm(plane - Phi @ (Phi.T @ plane), 2)), float(np.abs(found - Q).max())

    (start, _), (distance, error), (still, _) = end(1, 1e-9), end(400, 8.0), end(20, 1e-9)
    assert start > 0.9
    assert distance < 1e-4
    assert error < 1e-3
    assert still > 0.9
