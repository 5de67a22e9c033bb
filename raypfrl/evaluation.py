"""What an initialisation is worth: return, success and final distance before and after adaptation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from raypfrl.methods import MAdapt
from raypfrl.oracles import Oracle, Outcome
from raypfrl.policies import Vector
from raypfrl.streams import Purpose, Stream


def evaluate(
    personalised: Callable[[MAdapt], Vector],
    judge: Oracle,
    *,
    m_adapt: Sequence[MAdapt],
    m_eval: int,
    seed: int,
    agent: int,
    round: int,
) -> list[Outcome]:
    """One outcome for each entry of ``m_adapt``, in its order.

    ``personalised`` gives the theta that the agent acts with after m trajectories: for 0 the initialisation itself
    (zero-shot), for ``exact`` theta + alpha grad J(theta), the summand of F in (5). The ``judge`` tells the outcome:
    the exact oracle where there is one, else m_eval rollouts. The streams are evaluation's own, named by m_adapt, so
    evaluating more, or more often, changes nothing else.
    """
    return [
        judge.returns(personalised(m), m_eval, Stream(seed, agent, round, 0 if m == "exact" else m, Purpose.EVALUATE))
        for m in m_adapt
    ]


def mean_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The mean over agents, in agent order."""
    return Outcome(*(float(column) for column in np.asarray(outcomes).sum(axis=0) / len(outcomes)))


def named(outcome: Outcome) -> dict[str, float]:
    """An outcome's numbers by the names that metrics give them."""
    return {"return": outcome.return_, "success": outcome.success, "final_distance": outcome.final_distance}


def largest(m_adapt: Iterable[MAdapt]) -> MAdapt:
    """The largest adaptation step; exact counts as the largest."""
    return max(m_adapt, key=lambda m: float("inf") if m == "exact" else m)


def before_and_after(prefix: str, means: Mapping[MAdapt, Outcome]) -> dict[str, float]:
    """The metrics before adaptation, where m = 0 is among the means, and after the largest step."""
    places = {"before": 0, "after": largest(means)}
    return {
        f"{prefix}{when}/{name}": value
        for when, m in places.items()
        if m in means
        for name, value in named(means[m]).items()
    }
