"""CartPole: gymnasium's, with poles of several lengths and masses on carts of several strengths, half of which push the
other way: what one agent learns makes the other fall."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from raypfrl.policies import MLPSoftmax, Policy
from raypfrl.populations.environments import EnvironmentTask, Variant
from raypfrl.populations.population import Estimator, Family, Kernel, Population
from raypfrl.settings import Agents, Discount, Hidden, Horizon

GRAVITY, CART_MASS, SECONDS = 9.8, 1.0, 0.02  # m/s^2, kg, of one decision
FARTHEST, STEEPEST = 2.4, 12 * 2 * math.pi / 360  # m, rad: beyond, an episode is over
ESTIMATOR = Estimator("linear", normalise=True, average=True)

SUGGESTED: Mapping[str, Any] = {
    "rounds": 100, "tau": 1, "alpha": 5.0, "beta": 1.0, "m_in": 20, "m_h": 20, "m_out": 20, "m_adapt": (0, 20),
    "m_eval": 64, "server_step": "adam", "beta_server": 0.03,
}  # fmt: skip


def fits(task: CartPoleTask, policy: Policy) -> bool:
    """Whether the policy sees four numbers and has two actions."""
    return isinstance(policy, MLPSoftmax) and (policy.inputs, policy.actions) == (4, 2)


def constants(task: CartPoleTask) -> tuple[float, ...]:
    """The force (N), half the pole's length (m), and its mass (kg)."""
    attributes = task.variant.attributes
    return attributes["force_mag"], attributes["length"], attributes["masspole"]


def initial(constants: Any, u: Any) -> Any:
    """s_0 = (x, x', angle, angle'), each within 0.05."""
    return 0.1 * u[0] - 0.05, 0.1 * u[1] - 0.05, 0.1 * u[2] - 0.05, 0.1 * u[3] - 0.05


def observe(constants: Any, state: Any) -> Any:
    """What the policy sees: all of it."""
    return state


def transition(constants: Any, state: Any, action: Any) -> Any:
    """s_{h+1}, an Euler step of 0.02 s; action 1 pushes with the force and 0 against it."""
    (x, v, angle, spin), (force, length, mass) = state, (constants[0], constants[1], constants[2])
    sin, cos, total = np.sin(angle), np.cos(angle), CART_MASS + mass
    push = (np.where(action == 1, force, -force) + mass * length * spin * spin * sin) / total
    turn = (GRAVITY * sin - cos * push) / (length * (4.0 / 3.0 - mass / total * cos * cos))
    drive = push - mass * length / total * turn * cos
    return x + SECONDS * v, v + SECONDS * drive, angle + SECONDS * spin, spin + SECONDS * turn


def over(constants: Any, state: Any) -> Any:
    """The cart has left the track, or the pole has fallen."""
    return (np.abs(state[0]) > FARTHEST) | (np.abs(state[2]) > STEEPEST)


def measure(constants: Any, state: Any) -> Any:
    """Reward 1 for every decision; there is no goal."""
    return 1.0, None, None


class CartPoleTask(EnvironmentTask):
    """One agent's cart and pole, as a variant of gymnasium's environment."""

    kernel: ClassVar[Kernel | None] = Kernel(constants, initial, observe, transition, measure, fits, over)


def pole(number: int, share: float, sign: int) -> CartPoleTask:
    """Agent ``number``: pole and cart between the shortest, heaviest and weakest (share 0) and the longest, lightest
    and strongest (1), pushing as the actions say (sign 1) or the other way (-1)."""
    force, length, mass = sign * (8.0 + 4.0 * share), 0.35 + 0.3 * share, 0.15 - 0.1 * share
    attributes = {
        "force_mag": force, "length": length, "masspole": mass, "total_mass": CART_MASS + mass,
        "polemass_length": mass * length,
    }  # fmt: skip
    return CartPoleTask("CartPole-v1", Variant(attributes=attributes), estimator=ESTIMATOR, number=number)


def cartpole(*, n: Agents = 8, gamma: Discount = 1.0, horizon: Horizon = 199, hidden: Hidden = (16,)) -> Population:
    """n poles spread evenly between two extremes, every second cart pushing the other way, and two unseen ones of each
    kind between them."""
    shares = np.linspace(0.0, 1.0, n)
    train = [pole(k, float(share), (-1) ** k) for k, share in enumerate(shares)]
    unseen = [(share, sign) for share in (0.3, 0.7) for sign in (1, -1)]
    held_out = [pole(n + k, share, sign) for k, (share, sign) in enumerate(unseen)]
    return Population("cartpole", tuple(train), tuple(held_out), MLPSoftmax(4, 2, hidden), gamma, horizon)


POPULATIONS: Mapping[str, Family] = {"cartpole": Family(cartpole, SUGGESTED)}
