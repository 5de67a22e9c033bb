"""The estimators (1), (2), (3), each one compiled function over a batch, a block of trajectories at a time.

A block is ``lanes`` trajectories in lockstep, one a lane. Its passes:

    rollout            s_h, a_h, gamma^h r_h and pi(.|s_h) for h = 0..H, into the records xi[h, .]; ``live`` marks those
                       decisions that are taken, and a block is left when no trajectory has any more
    (tangent)          psi_h . v, and dp along v
    reward-to-go       from H down to 0: R^h, and with it the score of each decision in the outputs
    backward           from the outputs to theta, into ``gradient``, one trajectory a lane
    fold               lanes -> 16 running sums, trajectory i into sum i % 16, in the trajectories' order

The running sums are added up last. So the order of every sum is the trajectories' own: neither the number of lanes nor
the machine changes a bit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from raypfrl.oracles.fused.advantages import accumulate, regress
from raypfrl.oracles.fused.detached import detached
from raypfrl.oracles.fused.head import Head, Slots, slots
from raypfrl.oracles.fused.lanes import Lanes, as_number, counting, jit, parameters, records
from raypfrl.oracles.fused.network import Network
from raypfrl.oracles.fused.ridge import fit
from raypfrl.oracles.fused.rollout import make_rollout
from raypfrl.oracles.fused.sums import SUMS, make_sums
from raypfrl.populations.population import Kernel

_floats, _doubles = types.float32[::1], types.float64[::1]
# The estimators' arguments by name: theta, v (d,), the task's constants, gamma^h and b_h (H+1,), weights (f,) of the
# state's features, whether these are the observation and its squares, the stream's words, the width of the hidden
# layer, room to work in (see ``work_size``), where the number of decisions goes (1,), and where the answer goes.
_ARGUMENTS = {
    "theta": _floats, "v": _floats, "constants": _floats, "discounts": _floats, "baseline": _floats, "weights": _floats,
    "credit": types.int64, "linear": types.boolean, "powers": types.int64, "decisions": types.int64[::1],
    "m": types.int64, "key": types.UniTuple(types.int64, 5), "hidden": types.int64,
    "work": _floats, "answer": _doubles, "columns": _floats,
}  # fmt: skip


def entry(function: Callable[..., None]) -> Callable[..., None]:
    """An estimator as called from Python: compiled at once, for what its arguments' names stand for, or loaded from
    the file beside its source. It lets go of Python's lock: other threads hear of a signal while it runs."""
    kinds = [_ARGUMENTS[name] for name in inspect.signature(function).parameters]
    return numba.njit(types.void(*kinds), cache=True, nogil=True)(function)  # type: ignore[no-any-return]


class Estimators(NamedTuple):
    """The compiled functions; answers go into the last argument."""

    policy_gradient: Callable[..., None]
    hessian_vector_product: Callable[..., None]
    score_sum: Callable[..., None]
    outcomes: Callable[..., None]
    value_baseline: Callable[..., None]
    advantages: Callable[..., None]
    trajectories: Callable[..., None]


class Shape(NamedTuple):
    """Of a policy: the numbers in an observation, the outputs that the network computes, the numbers in an action, and
    the outputs that are the same in every state."""

    inputs: int
    actions: int
    numbers: int
    free: int


def work_size(shape: Shape, hidden: int, dim: int, horizon: int, lanes: int) -> int:
    """How many float32 numbers the estimators need to work in: running sums, gradients, records."""
    answers, own = max(dim, horizon + 3), _slots(shape).own
    return answers * (SUMS + lanes) + (horizon + 1) * (own + 2 * hidden) * lanes


def _slots(shape: Shape) -> Slots:
    return slots(shape.inputs, shape.numbers, shape.actions + shape.free)


def estimators(
    kernel: Kernel,
    network: Callable[[Slots, int, int, int, int], Network],
    head: Callable[[Slots, int, int], Head],
    shape: Shape,
    lanes: int,
) -> Estimators:
    """The functions for one task family and policy family."""
    at, (inputs, actions, numbers, free) = _slots(shape), shape
    forward, forward_tangent, backward, backward_tangent, own_feature = network(at, inputs, actions, free, lanes)
    distribution = head(at, actions, lanes)
    _, _, taken, score, slope, score_tangent = distribution
    rollout = make_rollout(kernel, forward, distribution, at, inputs, numbers, lanes)
    measure = detached(kernel.measure)
    clear, fold, mean = make_sums(lanes)

    @jit
    def memory(work: Lanes, answers: int, hidden: int) -> tuple[Lanes, Lanes]:
        """The block's records xi[h, slot] and its gradient[k], one trajectory a lane."""
        gradient = records(work, answers * SUMS, 0, lanes)
        xi = records(work, answers * (SUMS + lanes), at.own + 2 * hidden, lanes)
        return xi, gradient

    @jit
    def feature(xi: Lanes, h: int, j: int, linear: bool) -> Lanes:
        """The j-th number that a baseline knows of s_h: of the observation and its squares, or the policy's own."""
        if linear:
            o = xi[h, at.observation + j % inputs]
            return o if j < inputs else o * o
        return own_feature(xi, h, j)

    @jit
    def less(xi: Lanes, h: int, R: Lanes, weights: Lanes, linear: bool, gamma: Lanes) -> Lanes:
        """A^h = R - gamma^h w . phi(s_h), and 0 where no decision is taken."""
        w, value = parameters(weights, 0, 0, lanes), np.zeros_like(R)
        for j in range(weights.size):
            value = value + w[j] * feature(xi, h, j, linear)
        return np.where(xi[h, at.live] > 0.0, R - gamma * value, 0.0)

    @jit
    def policy_gradient(
        theta: Lanes,
        constants: Lanes,
        m: int,
        key: Any,
        hidden: int,
        work: Lanes,
        discounts: Lanes,
        baseline: Lanes,
        weights: Lanes,
        linear: bool,
        decisions: Any,
        answer: Lanes,
    ) -> None:
        """(2): the mean of g(xi) = sum_h psi_h A^h, into answer (d,); A^h = R^h less its baseline B^h + gamma^h w .
        phi(s_h)."""
        xi, gradient = memory(work, theta.size, hidden)
        B, gamma = parameters(baseline, 0, 0, lanes), parameters(discounts, 0, 0, lanes)
        clear(work, theta.size)
        decisions[0] = 0
        for first in range(0, m, lanes):
            _, end, taken_now = rollout(theta, constants, discounts, first, m, key, xi)
            decisions[0] += taken_now
            R = np.zeros_like(xi[0, at.reward])
            for h in range(end - 1, -1, -1):
                R = R + xi[h, at.reward]
                score(xi, h, less(xi, h, R - B[h], weights, linear, gamma[h]))
            backward(theta, xi, end, gradient)
            fold(work, theta.size, first)
        mean(work, m, answer)

    @jit
    def hessian_vector_product(
        theta: Lanes,
        constants: Lanes,
        m: int,
        key: Any,
        hidden: int,
        work: Lanes,
        discounts: Lanes,
        v: Lanes,
        baseline: Lanes,
        weights: Lanes,
        linear: bool,
        credit: int,
        decisions: Any,
        answer: Lanes,
    ) -> None:
        """(3): the mean of u(xi) v = sum_h psi_h c_h + sum_h A^h Psi_h v, into answer (d,); A^h = R^h less its baseline
        sum_{t>=h} b_t + gamma^h w . phi(s_h). c_h = A^h (z . v) with credit 0, W^h = A^h z_{0:h} . v + sum_{k>h} A^k
        psi_k . v with 1, nothing with 2 (``Credit``, in its order)."""
        xi, gradient = memory(work, theta.size, hidden)
        b, gamma = parameters(baseline, 0, 0, lanes), parameters(discounts, 0, 0, lanes)
        clear(work, theta.size)
        decisions[0] = 0
        for first in range(0, m, lanes):
            _, end, taken_now = rollout(theta, constants, discounts, first, m, key, xi)
            decisions[0] += taken_now
            z_v = np.zeros_like(xi[0, at.reward])
            for h in range(end):
                forward_tangent(theta, v, xi, h)
                psi_v = np.where(xi[h, at.live] > 0.0, slope(xi, h), 0.0)
                z_v = z_v + psi_v
                xi[h, at.slope] = psi_v
                xi[h, at.slopes] = z_v
            R, later = np.zeros_like(z_v), np.zeros_like(z_v)
            for h in range(discounts.size - 1, end - 1, -1):
                R = R - b[h]
            for h in range(end - 1, -1, -1):
                R = R + (xi[h, at.reward] - b[h])
                A = less(xi, h, R, weights, linear, gamma[h])
                c = np.zeros_like(z_v)
                if credit == 0:
                    c = A * z_v
                elif credit == 1:
                    c = A * xi[h, at.slopes] + later
                score_tangent(xi, h, A, c)
                later = later + A * xi[h, at.slope]
            backward_tangent(theta, v, xi, end, gradient)
            fold(work, theta.size, first)
        mean(work, m, answer)

    @jit
    def score_sum(
        theta: Lanes, constants: Lanes, m: int, key: Any, hidden: int, work: Lanes, discounts: Lanes, answer: Lanes
    ) -> None:
        """The sum of z(xi; theta) = sum_h psi_h, into answer (d,)."""
        xi, gradient = memory(work, theta.size, hidden)
        clear(work, theta.size)
        for first in range(0, m, lanes):
            _, end, _ = rollout(theta, constants, discounts, first, m, key, xi)
            for h in range(end):
                score(xi, h, xi[h, at.live])
            backward(theta, xi, end, gradient)
            fold(work, theta.size, first)
        mean(work, 1, answer)

    @jit
    def outcomes(
        theta: Lanes,
        constants: Lanes,
        m: int,
        key: Any,
        hidden: int,
        work: Lanes,
        discounts: Lanes,
        decisions: Any,
        answer: Lanes,
    ) -> None:
        """(1): the means of gamma^h r_h for h = 0..H, of success and of the final distance, into answer (H+3,)."""
        horizon = discounts.size - 1
        xi, gradient = memory(work, horizon + 3, hidden)
        clear(work, horizon + 3)
        decisions[0] = 0
        for first in range(0, m, lanes):
            last, end, taken_now = rollout(theta, constants, discounts, first, m, key, xi)
            decisions[0] += taken_now
            running = counting(first, lanes) < m
            entered = xi[0, at.success]
            for h in range(horizon + 1):
                gradient[h] = np.zeros_like(entered)
            for h in range(end):
                gradient[h] = xi[h, at.reward]
                entered = np.where(xi[h, at.live] > 0.0, np.maximum(entered, xi[h, at.success]), entered)
            gradient[horizon + 1] = np.where(running, entered, 0.0)
            gradient[horizon + 2] = np.where(running, as_number(entered, measure(constants, last)[2]), 0.0)
            fold(work, horizon + 3, first)
        mean(work, m, answer)

    @jit
    def value_baseline(
        theta: Lanes,
        constants: Lanes,
        m: int,
        key: Any,
        hidden: int,
        work: Lanes,
        discounts: Lanes,
        columns: Lanes,
        answer: Lanes,
    ) -> None:
        """(b_t, w) of ``oracles/baseline.py`` for the batch, into answer (H+1+f,); columns (H+1, 1 + f, blocks x
        lanes), zeros, get gamma^h r_h and phi(s_h)."""
        horizon, features = discounts.size - 1, answer.size - discounts.size
        xi, _ = memory(work, theta.size, hidden)
        column = records(columns, 0, (m + lanes - 1) // lanes, lanes)
        for first in range(0, m, lanes):
            _, end, _ = rollout(theta, constants, discounts, first, m, key, xi)
            for h in range(end):
                row, block = h * (1 + features), first // lanes
                column[row, block] = xi[h, at.reward]
                for j in range(features):
                    column[row + 1 + j, block] = np.where(xi[h, at.live] > 0.0, own_feature(xi, h, j), 0.0)
        fit(columns.reshape((horizon + 1, 1 + features, -1)), m, discounts, answer)

    @jit
    def advantages(
        theta: Lanes,
        constants: Lanes,
        m: int,
        key: Any,
        hidden: int,
        work: Lanes,
        discounts: Lanes,
        powers: int,
        linear: bool,
        columns: Lanes,
        answer: Lanes,
    ) -> None:
        """What ``oracles/advantages.py`` makes of the batch: (B^h, w, mean, c, the largest |R|), into answer
        (H+1+f+3,), with ``powers`` powers of time beside the f features; columns (H+1, 2 + f, lanes) is room for a
        block."""
        features = answer.size - discounts.size - 3
        xi, _ = memory(work, theta.size, hidden)
        column = records(columns, 0, 2 + features, lanes)
        moments, largest = np.zeros((powers + features + 2, powers + features + 2)), 0.0
        for first in range(0, m, lanes):
            _, end, _ = rollout(theta, constants, discounts, first, m, key, xi)
            for h in range(end):
                column[h, 0], column[h, 1] = xi[h, at.live], xi[h, at.reward]
                for j in range(features):
                    column[h, 2 + j] = feature(xi, h, j, linear)
            block = columns.reshape((discounts.size, 2 + features, lanes))
            largest = max(largest, accumulate(block, end, discounts, powers, moments))
        regress(moments, discounts, powers, answer[:-1])
        answer[-1] = largest

    @jit
    def trajectories(
        theta: Lanes, constants: Lanes, m: int, key: Any, hidden: int, work: Lanes, discounts: Lanes, columns: Lanes
    ) -> None:
        """The batch as data: columns (H+1, inputs + numbers + 4, blocks x lanes), zeros, get the observation, the
        action, the reward, 1, success of each decision that is taken, and the final distance with every one."""
        xi, _ = memory(work, theta.size, hidden)
        column, width = records(columns, 0, (m + lanes - 1) // lanes, lanes), inputs + numbers + 4
        for first in range(0, m, lanes):
            last, end, _ = rollout(theta, constants, discounts, first, m, key, xi)
            for h in range(end):
                row, block, live = h * width, first // lanes, xi[h, at.live] > 0.0
                for i in range(inputs):
                    column[row + i, block] = np.where(live, xi[h, at.observation + i], 0.0)
                for i in range(numbers):
                    column[row + inputs + i, block] = np.where(live, taken(xi, h, i), 0.0)
                row = row + inputs + numbers
                column[row, block] = xi[h, at.reward]
                column[row + 1, block] = xi[h, at.live]
                column[row + 2, block] = np.where(live, xi[h, at.success], 0.0)
            for h in range(discounts.size):
                distance = as_number(xi[0, at.live], measure(constants, last)[2])
                column[h * width + inputs + numbers + 3, first // lanes] = distance

    return Estimators(
        policy_gradient, hessian_vector_product, score_sum, outcomes, value_baseline, advantages, trajectories
    )
