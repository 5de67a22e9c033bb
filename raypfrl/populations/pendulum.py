"""Pendulum: gymnasium's, of several masses and lengths under several gravities. One policy can swing up all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from raypfrl.policies import MLPGaussian, Policy
from raypfrl.populations.environments import EnvironmentTask, Variant, View
from raypfrl.populations.point_mass import Std
from raypfrl.populations.population import Estimator, Family, Kernel, Population
from raypfrl.settings import Agents, Discount, Hidden, Horizon

SECONDS, FASTEST, STRONGEST = 0.05, 8.0, 2.0  # of one decision; rad/s; N m
ESTIMATOR = Estimator("linear", normalise=True, average=True)

SUGGESTED: Mapping[str, Any] = {
    "rounds": 200, "tau": 1, "alpha": 0.5, "beta": 1.0, "m_in": 20, "m_h": 20, "m_out": 20, "m_adapt": (0, 20),
    "m_eval": 64, "server_step": "adam", "beta_server": 0.03,
}  # fmt: skip


def fits(task: PendulumTask, policy: Policy) -> bool:
    """Whether the policy sees three numbers and acts with one."""
    return isinstance(policy, MLPGaussian) and (policy.inputs, policy.actions) == (3, 1)


def constants(task: PendulumTask) -> tuple[float, ...]:
    """Gravity (m/s^2), mass (kg), length (m)."""
    return task.variant.kwargs["g"], task.variant.attributes["m"], task.variant.attributes["l"]


def initial(constants: Any, u: Any) -> Any:
    """s_0 = (angle, angle'), 0 upright: any angle, slow."""
    return math.pi * (2.0 * u[0] - 1.0), 2.0 * u[1] - 1.0


def observe(constants: Any, state: Any) -> Any:
    """What the policy sees: cosine, sine, and speed in units of the fastest."""
    return np.cos(state[0]), np.sin(state[0]), state[1] / FASTEST


def torque(action: Any) -> Any:
    """What the motor gives of an action."""
    return np.minimum(np.maximum(action[0], -STRONGEST), STRONGEST)


def transition(constants: Any, state: Any, action: Any) -> Any:
    """s_{h+1}: the speed first, bounded, and the angle with the new one."""
    gravity, mass, length = constants[0], constants[1], constants[2]
    push = 1.5 * gravity / length * np.sin(state[0]) + 3.0 / (mass * length * length) * torque(action)
    spin = np.minimum(np.maximum(state[1] + SECONDS * push, -FASTEST), FASTEST)
    return state[0] + SECONDS * spin, spin


def measure(constants: Any, state: Any) -> Any:
    """There is no goal, and the reward is the next function's."""
    return None, None, None


def reward(constants: Any, state: Any, action: Any) -> Any:
    """-(angle^2 + angle'^2 / 10 + torque^2 / 1000), the angle in [-pi, pi)."""
    angle, used = state[0] - 2 * math.pi * np.floor(state[0] / (2 * math.pi) + 0.5), torque(action)
    return -(angle * angle + 0.1 * state[1] * state[1] + 0.001 * used * used)


class PendulumTask(EnvironmentTask):
    """One agent's pendulum, as a variant of gymnasium's environment."""

    kernel: ClassVar[Kernel | None] = Kernel(constants, initial, observe, transition, measure, fits, reward=reward)


def swinging(number: int, share: float) -> PendulumTask:
    """Agent ``number``: between the lightest and longest under the least gravity (share 0) and the heaviest and
    shortest under the most (1)."""
    variant = Variant({"g": 8.0 + 4.0 * share}, {"m": 0.8 + 0.4 * share, "l": 1.1 - 0.2 * share})
    view = View(scale=(1.0, 1.0, FASTEST))
    return PendulumTask("Pendulum-v1", variant, view, ESTIMATOR, number)


def pendulum(
    *, n: Agents = 6, gamma: Discount = 0.99, horizon: Horizon = 199, hidden: Hidden = (16,), std: Std = 0.0
) -> Population:
    """n pendulums spread evenly between two extremes, and two unseen ones between them."""
    train = [swinging(k, float(share)) for k, share in enumerate(np.linspace(0.0, 1.0, n))]
    held_out = [swinging(n + k, share) for k, share in enumerate((0.3, 0.7))]
    policy = MLPGaussian(3, 1, hidden, std or None)
    return Population("pendulum", tuple(train), tuple(held_out), policy, gamma, horizon)


POPULATIONS: Mapping[str, Family] = {"pendulum": Family(pendulum, SUGGESTED)}
