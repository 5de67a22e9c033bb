"""The glossary: every metric that a run logs, in one line each. A name says before or after adaptation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

METRICS: Mapping[str, str] = {
    "round": "k, communication rounds done",
    "trajectories": "trajectories sampled for training, per agent that learns (mean)",
    "env_steps": "environment steps of training, all agents together",
    "floats_sent": "floats moved between server and agents, up and down, all agents together",
    "time": "simulated time of the last arrival, in the unit of task_times; with clock = events only",
    "delay": "server steps between what an agent was sent and its answer, mean over the arrivals so far; likewise",
    "refused": "steps that were proposed and not taken, since an agent could not have acted with them; maml_lqr only",
    "drift": "root mean square distance of the agents' theta_i^{k,tau} from their average, in the last round",
    "missed": "agents left out since the evaluation before, as round:agent; with min_agents only",
    "before/return": "discounted return at theta, mean over the agents that learn",
    "after/return": "the same after the adaptation step (the largest m_adapt; exact counts as the largest)",
    "before/success": "share of episodes that enter the goal region, at theta",
    "after/success": "the same after the adaptation step",
    "before/final_distance": "distance to the goal at the last decision, at theta",
    "after/final_distance": "the same after the adaptation step",
    "seconds": "wall time of the run so far",
    "kernel_seconds": "seconds that agents spent sampling and differentiating for local steps, summed over agents",
    "evaluation_seconds": "the same for evaluation",
    "diagnostics/drift_ratio": "largest ||theta_i^{k,t} - theta^k|| / (beta t G_F) since the evaluation before",
    "diagnostics/curvature_cosine": "cosine of H_hat g_out with g_out, mean over the local steps since then",
    "diagnostics/curvature_ratio": "the same of ||alpha H_hat g_out|| / ||g_out||, before any clipping",
    "diagnostics/gradient_norm": "||grad F|| at theta, exact",
    "diagnostics/heterogeneity": "mean over the agents of ||grad J_i - grad f||^2 at theta, exact",
    "diagnostics/bias": "||E d - grad F_i|| of the direction d at theta, mean over the agents, from 32 draws",
    "diagnostics/variance": "E||d - E d||^2, likewise",
    "diagnostics/spread": "standard deviation of after/return over the agents that learn",
}
OTHER_SPLIT = "held_out/"  # before a name: the same, over the agents that do not learn
BY_M_ADAPT = "m_adapt_{m_adapt}/{split}/{outcome}"  # return, success, final_distance of every evaluation, by m_adapt


def tracked(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What one evaluation gave as one flat row: the glossary's, for either split, and every outcome by m_adapt."""
    known = {name: value for name, value in metrics.items() if name in METRICS or name.partition("/")[2] in METRICS}
    row = {name: value for name, value in known.items() if value != ""}
    for evaluation in metrics["evaluations"]:
        place = {name: evaluation[name] for name in ("m_adapt", "split")}
        outcomes = {name: value for name, value in evaluation.items() if name not in place}
        row |= {BY_M_ADAPT.format(outcome=name, **place): value for name, value in outcomes.items()}
    return {name: value for name, value in row.items() if value == value}  # not every population has a goal


def mirrored(m_adapt: Sequence[int | str]) -> list[int | str]:
    """Of the m_adapt of a run those whose outcomes before/ and after/ show already."""
    return [m for m in m_adapt if m in (0, max(m_adapt, key=size_of))]


def size_of(m_adapt: int | str) -> float:
    """Trajectories of an adaptation step; exact counts as the largest."""
    return float("inf") if m_adapt == "exact" else float(m_adapt)
