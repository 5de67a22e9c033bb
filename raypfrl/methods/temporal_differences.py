"""FedTD, FedQ, FedSARSA (Zhang et al. 2024) and PFedTD-Rep (Xiong et al. 2025): values of states and decisions, linear
in features, learned from a Markov chain that goes on from round to round; where it stands is what an agent keeps.

The features are those of the population's log-linear policy, Q = logits(theta). None of them climbs J: what is
evaluated is the return of the softmax of Q / temperature, and nothing adapts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from raypfrl.methods.averaged_tables import Temperature
from raypfrl.methods.method import Agent, Arrays, MAdapt, Method, Phase, Reply, asks, average_of, mean
from raypfrl.methods.shared_representation import BetaHead, TauHead
from raypfrl.oracles import BEGIN
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.settings import Beta, Real, Tau, Whole
from raypfrl.streams import SERVER, Purpose, Stream

Projection = Annotated[
    Annotated[Real, Field(gt=0)] | None, Field(description="radius of the ball that the server keeps theta in; off")
]
Rank = Annotated[Whole, Field(ge=1, le=1000, description="columns of the shared representation, and length of a head")]
Target = Literal["sarsa", "max"]


def not_begun(agent: Agent, down: Arrays) -> Arrays:
    """The chain has not begun."""
    return {"position": np.array([BEGIN])}


def td_errors(Q: Vector, rows: Any, gamma: float, actions: int, target: Target) -> Vector:
    """sum over the transitions of weight x delta e_x, shape (S A,): delta = r + gamma Q(x') - Q(x), or with the largest
    Q of the state of x' in the place of Q(x')."""
    weight, r = rows[:, 0], rows[:, 2]
    x, after = rows[:, 1].astype(np.intp), rows[:, 3].astype(np.intp)
    ahead = Q[after] if target == "sarsa" else Q.reshape(-1, actions).max(-1)[after // actions]
    return np.bincount(x, weight * (r + gamma * ahead - Q[x]), Q.size).astype(np.float64)


@asks("transitions")
def td_steps(
    target: Target, fixed: Literal["fixed", "softmax"], agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau,
    beta: Beta, temperature: Temperature = 0.1,
) -> Reply:  # fmt: skip
    """theta_i <- theta_i + beta delta phi(s, a) along the agent's chain, tau transitions, under a fixed policy or the
    softmax of Q / temperature."""
    policy: Any = agent.policy
    theta, position = down["theta"], kept["position"]
    for _ in range(tau):
        acts = agent.population.initial() if fixed == "fixed" else theta / temperature
        rows = agent.oracle.transitions(acts, position, 1, agent.step().inner)
        Q = policy.logits(theta)
        errors = td_errors(Q.reshape(-1), rows, agent.population.gamma, Q.shape[-1], target)
        theta, position = theta + beta * policy.pullback(errors.reshape(Q.shape)), rows[-1, 3:]
    return Reply({"theta": theta}, {"position": position})


def projected_average(server: Arrays, ups: Sequence[Arrays], n: int, *, projection: Projection = None) -> Arrays:
    """The mean theta, scaled back into the ball."""
    theta = mean(ups, "theta")
    norm = float(np.sqrt((theta * theta).sum()))
    return {**server, "theta": theta if projection is None or norm <= projection else theta * (projection / norm)}


def acting_on_features(
    agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, temperature: Temperature = 0.1
) -> Vector:
    """The softmax of Q / temperature; nothing adapts it."""
    return down["theta"] / temperature


# --- a shared representation ------------------------------------------------------------------------------------------


@asks("table")
def drawn_features(population: Population, *, rank: Rank = 2) -> Arrays:
    """Phi (S A, rank) with columns that are orthogonal and of mean square 1, one draw for all seeds."""
    rng = Stream(0, SERVER, 0, 0, Purpose.INIT, 1).generator()
    return {"Phi": orthogonal(rng.standard_normal((population.policy.dim, rank))).reshape(-1)}


def no_head(agent: Agent, down: Arrays) -> Arrays:
    """w_i = 0, and the chain has not begun."""
    return {"w": np.zeros(down["Phi"].size // agent.policy.dim), **not_begun(agent, down)}


@asks("transitions")
def head_then_features(
    agent: Agent, down: Arrays, kept: Arrays, *, tau: Tau, beta: Beta, tau_head: TauHead = 5, beta_head: BetaHead = 0.1
) -> Reply:
    """w_i <- w_i + beta_head delta Phi(s, a), tau_head transitions with Phi as it is; then Phi_i(s, a) <- Phi_i(s, a) +
    beta delta w_i, tau transitions with w_i as it is; under the policy of theta^0."""
    policy: Any = agent.policy
    acts = agent.population.initial()
    Phi, w, position = down["Phi"].reshape(acts.size, -1), kept["w"], kept["position"]
    for t in range(tau_head + tau):
        rows = agent.oracle.transitions(acts, position, 1, agent.step().inner)
        errors = td_errors((Phi * w).sum(-1), rows, agent.population.gamma, policy.actions, "sarsa")
        if t < tau_head:
            w = w + beta_head * (Phi * errors[:, None]).sum(0)
        else:
            Phi = Phi + beta * errors[:, None] * w
        position = rows[-1, 3:]
    return Reply({"Phi": Phi.reshape(-1)}, {"w": w, "position": position})


def orthogonal_average(server: Arrays, ups: Sequence[Arrays], n: int, *, rank: Rank = 2) -> Arrays:
    """The mean of the Phi_i, its columns made orthogonal anew."""
    averaged = average_of("Phi", server, ups, n)
    return {**averaged, "Phi": orthogonal(averaged["Phi"].reshape(-1, rank)).reshape(-1)}


def orthogonal(Phi: Any) -> Any:
    """The same span by orthogonal columns of mean square 1 (Gram and Schmidt)."""
    Q, R = np.linalg.qr(Phi)
    return Q * np.sign(np.diag(R)) * np.sqrt(len(Phi))


def own_head(agent: Agent, down: Arrays, kept: Arrays, m: MAdapt, *, temperature: Temperature = 0.1) -> Vector:
    """The softmax of Phi w_i / temperature; nothing adapts it."""
    return np.asarray((down["Phi"].reshape(-1, kept["w"].size) * kept["w"]).sum(-1) / temperature)


def averaged_values(target: Target, fixed: Literal["fixed", "softmax"], source: str) -> Method:
    """FedAvg with temporal differences: 2 d floats a round and agent, the position of its chain kept."""
    return Method(
        (Phase(("theta",), partial(td_steps, target, fixed), projected_average),), join=not_begun,
        personalise=acting_on_features, source=source,
    )  # fmt: skip


METHODS: Mapping[str, Method] = {
    "fed_td": averaged_values("sarsa", "fixed", "TD(0) of a fixed policy, with the averages of FedSARSA: reproduced"),
    "fed_q": averaged_values("max", "softmax", "inspired by Woo et al. 2023, FedQ; the plain average, no visit counts"),
    "fed_sarsa": averaged_values("sarsa", "softmax", "Zhang et al. 2024, FedSARSA: reproduced"),
    "fed_td_rep": Method(
        (Phase(("Phi",), head_then_features, orthogonal_average),), drawn_features, no_head, own_head, unseen=False,
        source="inspired by Xiong et al. 2025, PFedTD-Rep; the order of its updates could not be verified",
    ),
}  # fmt: skip
