"""The registry of oracles. Each is imported when it is first asked for: torch and numba are heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raypfrl.oracles.guard import AgentError, Diverged, Guarded
from raypfrl.oracles.oracle import Meter, Oracle, Outcome
from raypfrl.policies import Policy
from raypfrl.populations.population import Task


def _exact(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.closed_form import ClosedFormOracle
    from raypfrl.oracles.exact import ExactOracle

    if closed_form := getattr(task, "closed_form", None):
        return ClosedFormOracle(closed_form())
    return ExactOracle(task.mdp(), policy, gamma, horizon)  # type: ignore[attr-defined, arg-type]


def _autodiff(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.autodiff import AutodiffOracle

    return AutodiffOracle(task, policy, gamma, horizon)


def _fused(task: Task, policy: Policy, gamma: float, horizon: int) -> Oracle:
    from raypfrl.oracles.fused import FusedOracle

    return FusedOracle(task, policy, gamma, horizon)


ORACLES: Mapping[str, Callable[[Task, Policy, float, int], Oracle]] = {
    "exact": _exact,
    "autodiff": _autodiff,
    "fused": _fused,
}


def is_exact(task: Task) -> bool:
    """Whether the exact oracle covers the task: it is tabular, or it brings a closed form."""
    return hasattr(task, "mdp") or hasattr(task, "closed_form")


def covering(task: Task, policy: Policy) -> tuple[str, ...]:
    """The oracles that cover a task, the default first: the fastest that samples, then the exact one."""
    from raypfrl.oracles import fused

    names = ["fused"] if fused.covers(task, policy) else []
    if hasattr(task, "env_id"):
        names.append("autodiff")
    if is_exact(task):
        names.append("exact")
    return tuple(names)


__all__ = ["ORACLES", "AgentError", "Diverged", "Guarded", "Meter", "Oracle", "Outcome", "covering", "is_exact"]
