"""The rollout: a block of trajectories xi ~ q(.; theta), decision by decision, into the records xi[h, .]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from raypfrl.oracles.fused.detached import detached
from raypfrl.oracles.fused.head import Head, Slots
from raypfrl.oracles.fused.lanes import (
    Lanes,
    as_number,
    chosen,
    counting,
    jit,
    parameters,
    registers,
    some,
    total,
)
from raypfrl.oracles.fused.philox import draw
from raypfrl.populations.population import Kernel


def make_rollout(
    kernel: Kernel, forward: Callable[..., None], head: Head, at: Slots, inputs: int, numbers: int, lanes: int
) -> Callable[..., Any]:
    """The compiled rollout of a task under the policy that ``forward`` and ``head`` make."""
    initial, observe = detached(kernel.initial), detached(kernel.observe)
    transition, measure = detached(kernel.transition), detached(kernel.measure)
    noise, sample = head.noise, head.sample
    reward_of, advance = _reward_of(kernel, measure), _advance(kernel, transition)

    @jit
    def rollout(theta: Lanes, constants: Lanes, discounts: Lanes, first: int, m: int, key: Any, xi: Lanes) -> Any:
        """xi ~ q(.; theta) for the trajectories from ``first`` on, those below m. Returns the state of each one's last
        decision, the length of the longest, and how many decisions there were."""
        trajectory = counting(first, lanes)
        gamma = parameters(discounts, 0, 0, lanes)
        u, into = registers(4, lanes), registers(numbers, lanes)
        state = initial(constants, draw(key, 0, trajectory))
        live = np.where(trajectory < m, 1.0, 0.0)
        length = np.zeros_like(live)
        end = 0
        for h in range(discounts.size):
            for i in range(numbers):
                number = h * numbers + i
                if number % 4 == 0:
                    u[0], u[1], u[2], u[3] = noise(draw(key, 1 + number // 4, trajectory))
                xi[h, at.action + i] = u[number % 4]
            observation = observe(constants, state)
            for i in range(inputs):
                xi[h, at.observation + i] = observation[i]
            forward(theta, xi, h)
            action = sample(xi, h, into)
            xi[h, at.live] = live
            xi[h, at.reward] = np.where(live > 0.0, gamma[h] * reward_of(constants, state, action), 0.0)
            xi[h, at.success] = as_number(live, measure(constants, state)[1])
            length = length + live
            end = h + 1
            if h < discounts.size - 1:
                state, live = advance(constants, state, action, live)
                if not some(live > 0.0):
                    break
        return state, end, total(length)

    return rollout


def _reward_of(kernel: Kernel, measure: Callable[..., Any]) -> Callable[..., Any]:
    if kernel.reward is not None:
        return detached(kernel.reward)

    @jit
    def of_the_state(constants: Lanes, state: Any, action: Any) -> Any:
        return measure(constants, state)[0]

    return of_the_state


def _advance(kernel: Kernel, transition: Callable[..., Any]) -> Callable[..., Any]:
    """(s_h, live) to (s_{h+1}, live). Where an episode is over the state stays that of its last decision: whatever
    numbers the next one holds, they enter nothing."""
    if kernel.over is None:

        @jit
        def on(constants: Lanes, state: Any, action: Any, live: Lanes) -> Any:
            return transition(constants, state, action), live

        return on
    over = detached(kernel.over)

    @jit
    def to_the_end(constants: Lanes, state: Any, action: Any, live: Lanes) -> Any:
        following = transition(constants, state, action)
        live = np.where(over(constants, following), 0.0, live)
        return chosen(live > 0.0, following, state), live

    return to_the_end
