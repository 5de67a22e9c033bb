"""The methods, side by side. A method is a direction and how the server combines what the agents send.

A direction is one ascent direction of an agent at theta, asked of an oracle in the paper's terms. It takes arrays and
scalars; its keyword arguments are the settings that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature

import numpy as np
from numpy.typing import NDArray

from raypfrl.methods.curvature import clipped, curvature_term
from raypfrl.oracles.oracle import Oracle
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.streams import LocalStep


def exact(
    oracle: Oracle, theta: Vector, step: LocalStep, *, alpha: float, m_in: int, m_h: int, m_out: int, curvature: str,
    curvature_clip: float | None,
) -> Vector:  # fmt: skip
    """(7): (I + alpha H_hat) g_out, shape (d,); m_in + m_h + m_out trajectories."""
    g_in = oracle.policy_gradient(theta, m_in, step.inner)  # D_in ~ q(theta)
    adapted = theta + alpha * g_in
    g_out = oracle.policy_gradient(adapted, m_out, step.outer)  # D_out ~ q(adapted)
    H_g = curvature_term(oracle, theta, g_out, m_in, m_h, step, curvature)  # D_h ~ q(theta)
    return g_out + clipped(alpha * H_g, g_out, curvature_clip)


def first_order(oracle: Oracle, theta: Vector, step: LocalStep, *, alpha: float, m_in: int, m_out: int) -> Vector:
    """(7) without the curvature factor (Hessian-free): g_out, shape (d,); m_in + m_out trajectories."""
    g_in = oracle.policy_gradient(theta, m_in, step.inner)  # D_in ~ q(theta)
    adapted = theta + alpha * g_in
    g_out = oracle.policy_gradient(adapted, m_out, step.outer)  # D_out ~ q(adapted)
    return g_out


def fedavg_pg(oracle: Oracle, theta: Vector, step: LocalStep, *, m_in: int, m_h: int, m_out: int) -> Vector:
    """FedAvg-PG: one policy gradient (2) at theta, with the exact method's whole budget; shape (d,)."""
    return oracle.policy_gradient(theta, m_in + m_h + m_out, step.inner)


def average(theta: NDArray[np.float64], cohort: list[int], results: NDArray[np.float64]) -> NDArray[np.float64]:
    """The server's step of Algorithm 1: theta^{k+1} = (1/r) sum_i theta_i^{k,tau}, summed in agent order."""
    return np.asarray(results.sum(axis=0) / len(results))


def keep(theta: NDArray[np.float64], cohort: list[int], results: NDArray[np.float64]) -> NDArray[np.float64]:
    """No federation: every agent keeps its own row of theta (n, d)."""
    theta = theta.copy()
    theta[cohort] = results
    return theta


def shared(population: Population, seed: int, agents: Sequence[int]) -> NDArray[np.float64]:
    """theta^0 (d,): one initialisation, the same for all seeds."""
    return population.initial()


def own(population: Population, seed: int, agents: Sequence[int]) -> NDArray[np.float64]:
    """theta^0 (n, d): every agent's own initialisation, anew for each seed."""
    return np.stack([population.initial(seed, agent) for agent in agents])


@dataclass(frozen=True)
class Method:
    """``direction`` for the agents; ``initial`` and ``combine`` for the server.

    floats_a_round: floats that a round moves for each parameter and agent; theta down and theta up.
    """

    direction: Callable[..., Vector]
    initial: Callable[[Population, int, Sequence[int]], NDArray[np.float64]] = shared
    combine: Callable[[NDArray[np.float64], list[int], NDArray[np.float64]], NDArray[np.float64]] = average
    floats_a_round: int = 2

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of the settings that the direction uses."""
        parameters = signature(self.direction).parameters.values()
        return tuple(p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY)

    @property
    def summary(self) -> str:
        """The first line of the direction's docstring; and of the server's step, where it does not average."""
        told = [self.direction] if self.combine is average else [self.direction, self.combine]
        return " ".join((function.__doc__ or "").strip().splitlines()[0] for function in told)


METHODS: Mapping[str, Method] = {
    "exact": Method(exact),
    "first_order": Method(first_order),
    "fedavg_pg": Method(fedavg_pg),
    "independent": Method(fedavg_pg, initial=own, combine=keep, floats_a_round=0),
}
