"""The rollout: a block of trajectories xi ~ q(.; theta), decision by decision, into the records xi[h, .]."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from raypfrl.oracles.fused.lanes import Lanes, counting, jit, parameters, registers
from raypfrl.oracles.fused.philox import draw
from raypfrl.oracles.fused.softmax import Slots


def make_rollout(
    task: ModuleType, forward: Callable[..., None], sample: Callable[..., Lanes], at: Slots, inputs: int, lanes: int
) -> Callable[..., Any]:
    """The compiled rollout of a task under the policy that ``forward`` and ``sample`` make."""
    initial, observe = jit(task.initial), jit(task.observe)
    transition, measure = jit(task.transition), jit(task.measure)

    @jit
    def rollout(
        theta: Lanes, constants: Lanes, discounts: Lanes, first: int, m: int, key: tuple[int, int, int, int], xi: Lanes
    ) -> Any:
        """xi ~ q(.; theta) for the trajectories from ``first`` on; those from m on get no reward. Returns s_H."""
        trajectory = counting(first, lanes)
        gamma = parameters(discounts, 0, 0, lanes)
        u = registers(4, lanes)
        state = initial(constants, draw(key, 0, trajectory))
        for h in range(discounts.size):
            if h % 4 == 0:
                u[0], u[1], u[2], u[3] = draw(key, 1 + h // 4, trajectory)
            observation = observe(constants, state)
            for i in range(inputs):
                xi[h, at.observation + i] = observation[i]
            reward, success, _ = measure(constants, state)
            xi[h, at.reward] = np.where(trajectory < m, gamma[h] * reward, 0.0)
            xi[h, at.success] = np.where(success, 1.0, 0.0)
            forward(theta, xi, h)
            action = sample(xi, h, u[h % 4])
            if h < discounts.size - 1:
                state = transition(constants, state, action)
        return state

    return rollout
