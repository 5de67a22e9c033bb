"""The glossary: every metric that a run logs, in one line each. A name says before or after adaptation."""

from __future__ import annotations

from collections.abc import Mapping

METRICS: Mapping[str, str] = {
    "round": "k, communication rounds done",
    "trajectories": "trajectories sampled for training, per agent that learns (mean)",
    "env_steps": "environment steps of training, all agents together",
    "floats_sent": "floats moved between server and agents, up and down, all agents together",
    "drift": "root mean square distance of the agents' theta_i^{k,tau} from their average, in the last round",
    "before/return": "discounted return at theta, mean over the agents that learn",
    "after/return": "the same after the adaptation step (the largest m_adapt; exact counts as the largest)",
    "before/success": "share of episodes that enter the goal region, at theta",
    "after/success": "the same after the adaptation step",
    "before/final_distance": "distance to the goal at the last decision, at theta",
    "after/final_distance": "the same after the adaptation step",
    "seconds": "wall time of the run so far",
    "kernel_seconds": "seconds that agents spent sampling and differentiating for local steps, summed over agents",
    "evaluation_seconds": "the same for evaluation",
}
OTHER_SPLIT = "held_out/"  # before a name: the same, over the agents that do not learn
