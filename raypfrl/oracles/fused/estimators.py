"""The estimators (1), (2), (3), each one compiled function over a batch, a block of trajectories at a time.

A block is ``lanes`` trajectories in lockstep, one a lane. Its passes:

    rollout            s_h, a_h, gamma^h r_h and pi(.|s_h) for h = 0..H, into the records xi[h, .]
    (tangent)          psi_h . v, and dp along v
    reward-to-go       from H down to 0: R^h, and with it the score of each decision in the logits
    backward           from the logits to theta, into ``gradient``, one trajectory a lane
    fold               lanes -> 16 running sums, trajectory i into sum i % 16, in the trajectories' order

The running sums are added up last. So the order of every sum is the trajectories' own: neither the number of lanes nor
the machine changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from raypfrl.oracles.fused.lanes import Lanes, counting, jit, parameters, records, registers
from raypfrl.oracles.fused.network import Network
from raypfrl.oracles.fused.philox import draw
from raypfrl.oracles.fused.softmax import Slots, slots, softmax

SUMS = 16  # running sums; changing it changes results in the last bits


class Estimators(NamedTuple):
    """The compiled functions. Arguments: theta, v (d,) and the task's ``constants`` in float32; ``discounts`` gamma^h,
    shape (H+1,); the stream's four words ``key``; ``work``, see ``work_size``. Answers go into the last argument."""

    policy_gradient: Callable[..., None]
    hessian_vector_product: Callable[..., None]
    outcomes: Callable[..., None]
    trajectories: Callable[..., None]


def work_size(inputs: int, actions: int, hidden: int, dim: int, horizon: int, lanes: int) -> int:
    """How many float32 numbers the estimators need to work in: running sums, gradients, records."""
    answers = max(dim, horizon + 3)
    return answers * (SUMS + lanes) + (horizon + 1) * (slots(inputs, actions).own + 2 * hidden) * lanes


def estimators(
    task: ModuleType, network: Callable[[Slots, int, int, int], Network], inputs: int, actions: int, lanes: int
) -> Estimators:
    """The functions for one task family and policy family.

    ``task`` has the plain functions ``initial``, ``observe``, ``transition`` and ``measure``.
    """
    at = slots(inputs, actions)
    forward, forward_tangent, backward, backward_tangent = network(at, inputs, actions, lanes)
    head = softmax(at, actions, lanes)
    sample, score, slope, score_tangent = head
    initial, observe = jit(task.initial), jit(task.observe)
    transition, measure = jit(task.transition), jit(task.measure)
    piece = min(lanes, SUMS)
    pieces, columns = lanes // piece, SUMS // piece

    @jit
    def memory(work: Lanes, answers: int, hidden: int) -> tuple[Lanes, Lanes]:
        """The block's records xi[h, slot] and its gradient[k], one trajectory a lane."""
        gradient = records(work, answers * SUMS, 0, lanes)
        xi = records(work, answers * (SUMS + lanes), at.own + 2 * hidden, lanes)
        return xi, gradient

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

    @jit
    def clear(work: Lanes, answers: int) -> None:
        for k in range(answers * SUMS):
            work[k] = 0.0

    @jit
    def fold(work: Lanes, answers: int, first: int) -> None:
        """sums[k, i % 16] += gradient[k] of trajectory i."""
        sums = records(work, 0, columns, piece)
        gradient = records(work, answers * SUMS, pieces, piece)
        for part in range(pieces):
            column = (first // piece + part) % columns
            for k in range(answers):
                sums[k, column] = sums[k, column] + gradient[k, part]

    @jit
    def mean(work: Lanes, m: int, answer: Lanes) -> None:
        """answer[k] = (1/m) (sums[k, 0] + sums[k, 1] + ...), in float64."""
        for k in range(answer.size):
            total = 0.0
            for i in range(SUMS):
                total += work[k * SUMS + i]
            answer[k] = total / m

    @jit
    def policy_gradient(
        theta: Lanes, constants: Lanes, discounts: Lanes, m: int, key: Any, hidden: int, work: Lanes, answer: Lanes
    ) -> None:
        """(2): the mean of g(xi) = sum_h psi_h R^h, into answer (d,)."""
        xi, gradient = memory(work, theta.size, hidden)
        horizon = discounts.size - 1
        clear(work, theta.size)
        for first in range(0, m, lanes):
            rollout(theta, constants, discounts, first, m, key, xi)
            R = registers(1, lanes)[0]
            for h in range(horizon, -1, -1):
                R = R + xi[h, at.reward]
                score(xi, h, R)
            backward(theta, xi, horizon, gradient)
            fold(work, theta.size, first)
        mean(work, m, answer)

    @jit
    def hessian_vector_product(
        theta: Lanes,
        v: Lanes,
        constants: Lanes,
        discounts: Lanes,
        baseline: Lanes,
        causal: bool,
        m: int,
        key: Any,
        hidden: int,
        work: Lanes,
        answer: Lanes,
    ) -> None:
        """(3): the mean of u(xi) v = sum_h psi_h c_h + sum_h R^h Psi_h v, into answer (d,); c_h = R^h (z . v), or if
        causal c_h = W^h = sum_{t>=h} gamma^t r_t (z_{0:t} . v). Throughout, gamma^t r_t is less the baseline b_t."""
        xi, gradient = memory(work, theta.size, hidden)
        b = parameters(baseline, 0, 0, lanes)
        horizon = discounts.size - 1
        clear(work, theta.size)
        for first in range(0, m, lanes):
            rollout(theta, constants, discounts, first, m, key, xi)
            z_v = registers(1, lanes)[0]
            for h in range(horizon + 1):
                forward_tangent(theta, v, xi, h)
                z_v = z_v + slope(xi, h)
                xi[h, at.slope] = z_v
            R, W = registers(1, lanes)[0], registers(1, lanes)[0]
            for h in range(horizon, -1, -1):
                r = np.where(counting(first, lanes) < m, xi[h, at.reward] - b[h], 0.0)
                R = R + r
                W = W + r * xi[h, at.slope]
                score_tangent(xi, h, R, W if causal else R * z_v)
            backward_tangent(theta, v, xi, horizon, gradient)
            fold(work, theta.size, first)
        mean(work, m, answer)

    @jit
    def outcomes(
        theta: Lanes, constants: Lanes, discounts: Lanes, m: int, key: Any, hidden: int, work: Lanes, answer: Lanes
    ) -> None:
        """(1): the means of gamma^h r_h for h = 0..H, of success and of the final distance, into answer (H+3,)."""
        horizon = discounts.size - 1
        xi, gradient = memory(work, horizon + 3, hidden)
        clear(work, horizon + 3)
        for first in range(0, m, lanes):
            last = rollout(theta, constants, discounts, first, m, key, xi)
            running = counting(first, lanes) < m
            entered = xi[0, at.success]
            for h in range(horizon + 1):
                gradient[h] = xi[h, at.reward]
                entered = np.maximum(entered, xi[h, at.success])
            gradient[horizon + 1] = np.where(running, entered, 0.0)
            gradient[horizon + 2] = np.where(running, measure(constants, last)[2], 0.0)
            fold(work, horizon + 3, first)
        mean(work, m, answer)

    @jit
    def trajectories(
        theta: Lanes, constants: Lanes, discounts: Lanes, m: int, key: Any, hidden: int, work: Lanes, answer: Lanes
    ) -> None:
        """The trajectories themselves, into answer (H+1, inputs + 3, blocks x lanes): per decision the observation,
        the action, the reward r_h (a discount of 1 assumed) and the distance at s_H."""
        horizon = discounts.size - 1
        xi, _ = memory(work, theta.size, hidden)
        width = (m + lanes - 1) // lanes
        columns = records(answer, 0, width, lanes)
        for first in range(0, m, lanes):
            last = rollout(theta, constants, discounts, first, m, key, xi)
            for h in range(horizon + 1):
                row, block = h * (inputs + 3), first // lanes
                for i in range(inputs):
                    columns[row + i, block] = xi[h, at.observation + i]
                columns[row + inputs, block] = xi[h, at.action]
                columns[row + inputs + 1, block] = xi[h, at.reward]
                columns[row + inputs + 2, block] = measure(constants, last)[2]

    return Estimators(policy_gradient, hessian_vector_product, outcomes, trajectories)
