"""The registry of oracles. Each is imported when it is first asked for: torch and numba are heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raypfrl.oracles.guard import AgentError, Diverged, Guarded, telling
from raypfrl.oracles.oracle import BEGIN, QUESTIONS, Credit, Meter, Oracle, Outcome
from raypfrl.policies import LogLinear, MLPSoftmax, Policy
from raypfrl.populations.population import PAPER, Estimated, Measured, Simulated, Solved, Supervised, Tabular, Task


def _exact(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.closed_form import ClosedFormOracle
    from raypfrl.oracles.exact import ExactOracle

    if isinstance(task, Solved):
        return ClosedFormOracle(task.closed_form())
    if isinstance(task, Supervised):
        return _examples(task, policy, gamma, horizon, whole=True)
    if isinstance(task, Tabular) and isinstance(policy, LogLinear):
        return ExactOracle(task.mdp(), policy, gamma, horizon)
    raise ValueError(f"the exact oracle does not cover {policy} on {task}: it takes a table, a closed form or examples")


def _table(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.table import TableOracle

    if isinstance(task, Tabular) and isinstance(policy, LogLinear):
        return TableOracle(task.mdp(), policy, gamma, horizon)
    raise ValueError(f"the table oracle does not cover {policy} on {task}: it takes a table")


def _continuing(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.continuing import ContinuingOracle

    if isinstance(task, Tabular) and isinstance(policy, LogLinear):
        return ContinuingOracle(task.mdp(), policy, gamma)
    raise ValueError(f"the continuing oracle does not cover {policy} on {task}: it takes a table")


def _autodiff(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.autodiff import AutodiffOracle

    if not isinstance(task, Simulated):
        raise ValueError(f"the autodiff oracle does not cover {task}: it takes a gymnasium environment")
    estimator = task.estimator if isinstance(task, Estimated) else PAPER
    return AutodiffOracle(task, policy, gamma, horizon, estimator)


def _fused(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.fused import FusedOracle

    return FusedOracle(task, policy, gamma, horizon)


def _examples(task: Task, policy: Policy, gamma: float, horizon: int, *, whole: bool = False) -> Oracle:
    from raypfrl.oracles.examples import ExamplesOracle

    if not isinstance(task, Supervised) or not isinstance(policy, MLPSoftmax):
        raise ValueError(
            f"the examples oracle does not cover {policy} on {task}: it takes labels and a softmax network"
        )
    return ExamplesOracle(task, policy, whole=whole)


def _zeroth_order(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.zeroth_order import ZerothOrderOracle

    if not isinstance(task, Measured):
        raise ValueError(f"the zeroth-order oracle does not cover {task}: it takes the returns of rollouts")
    return ZerothOrderOracle(task, horizon)


ORACLES: Mapping[str, Callable[[Task, Policy, float, int], Oracle]] = {
    "exact": _exact,
    "autodiff": _autodiff,
    "fused": _fused,
    "zeroth_order": _zeroth_order,
    "examples": _examples,
    "table": _table,
    "continuing": _continuing,
}
NOISELESS = frozenset({"exact", "continuing"})  # oracles that sample nothing; each judges what it is asked about
_OF_CHAINS = frozenset({"transitions", "action_values", "direct_gradient", "backup"})  # where no episode ends
# Said here so that asking imports neither torch nor numba; a test holds it to the classes.
_UNANSWERED: Mapping[str, frozenset[str]] = {
    "autodiff": _OF_CHAINS,
    "fused": _OF_CHAINS | {"weighted_gradient", "kl_gradient"},
    "zeroth_order": QUESTIONS - {"policy_gradient", "hessian_vector_product", "returns"},
    "examples": _OF_CHAINS | {"kl_gradient"},
    "exact": _OF_CHAINS | {"score_sum"},
    "closed form": _OF_CHAINS | {"score_sum", "kl_gradient"},
    "table": QUESTIONS - {"policy_gradient", "returns", "transitions"},
    "continuing": QUESTIONS - {"policy_gradient", "hessian_vector_product", "returns"} - _OF_CHAINS,
}


def is_exact(task: Task) -> bool:
    """Whether the exact oracle covers the task: it is tabular, brings a closed form, or has finitely many examples."""
    return isinstance(task, Tabular | Solved | Supervised)


def covering(task: Task, policy: Policy) -> tuple[str, ...]:
    """The oracles that cover a task, the default first: the fastest that samples episodes, the exact one, and those of
    a finite MDP's chain."""
    from raypfrl.oracles import fused

    names = ["fused"] if fused.covers(task, policy) else []
    if isinstance(task, Simulated):
        names.append("autodiff")
    if isinstance(task, Measured):
        names.append("zeroth_order")
    if isinstance(task, Supervised):
        names.append("examples")
    if is_exact(task):
        names.append("exact")
    if isinstance(task, Tabular) and isinstance(policy, LogLinear):
        names += ["table", "continuing"]
    return tuple(names)


def answers(name: str, task: Task, policy: Policy) -> frozenset[str]:
    """The questions (methods of ``Oracle``) that the named oracle answers for a task and a policy; none where it does
    not cover them."""
    if name not in covering(task, policy):
        return frozenset()
    if name == "exact" and isinstance(task, Solved | Supervised):
        name = "closed form" if isinstance(task, Solved) else "examples"
    return QUESTIONS - _UNANSWERED[name]


__all__ = [
    "BEGIN", "NOISELESS", "ORACLES", "QUESTIONS", "AgentError", "Credit", "Diverged", "Guarded", "Meter", "Oracle",
    "Outcome", "answers", "covering", "is_exact", "telling",
]  # fmt: skip
