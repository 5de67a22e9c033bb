"""What an initialisation is worth: return, success and final distance before and after the adaptation step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from raypfrl.oracles.oracle import Oracle, Outcome
from raypfrl.policies import Vector
from raypfrl.streams import Purpose, Stream

MAdapt = int | Literal["exact"]


def evaluate(
    oracle: Oracle,
    judge: Oracle,
    theta: Vector,
    *,
    alpha: float,
    m_adapt: Sequence[MAdapt],
    m_eval: int,
    seed: int,
    agent: int,
    round: int,
) -> list[Outcome]:
    """One outcome for each entry of ``m_adapt``, in its order.

    0 evaluates theta itself (zero-shot); m evaluates theta + alpha g, with g from m trajectories of ``oracle``;
    ``exact`` evaluates theta + alpha grad J(theta), the summand of F in (5). The ``judge`` tells the outcome: the exact
    oracle where there is one, else m_eval rollouts. The streams are evaluation's own, named by m_adapt, so evaluating
    more, or more often, changes nothing else.
    """
    outcomes = []
    for m in m_adapt:
        name = 0 if m == "exact" else m
        adapted = theta
        if m == "exact":
            adapted = theta + alpha * judge.policy_gradient(theta, 0, Stream(seed, agent, round, name, Purpose.ADAPT))
        elif m > 0:
            adapted = theta + alpha * oracle.policy_gradient(theta, m, Stream(seed, agent, round, name, Purpose.ADAPT))
        outcomes.append(judge.returns(adapted, m_eval, Stream(seed, agent, round, name, Purpose.EVALUATE)))
    return outcomes


def mean_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The mean over agents, in agent order."""
    return Outcome(*(float(column) for column in np.asarray(outcomes).sum(axis=0) / len(outcomes)))
