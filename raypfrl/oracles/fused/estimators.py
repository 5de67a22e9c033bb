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

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from raypfrl.oracles.fused.lanes import Lanes, counting, jit, parameters, records
from raypfrl.oracles.fused.network import Network
from raypfrl.oracles.fused.ridge import fit
from raypfrl.oracles.fused.rollout import make_rollout
from raypfrl.oracles.fused.softmax import Slots, slots, softmax
from raypfrl.oracles.fused.sums import SUMS, make_sums

_floats, _doubles = types.float32[::1], types.float64[::1]
# The estimators' arguments by name: theta, v (d,), the task's constants, gamma^h and b_h (H+1,), the stream's words,
# the width of the hidden layer, room to work in (see ``work_size``), and where the answer goes.
_ARGUMENTS = {
    "theta": _floats, "v": _floats, "constants": _floats, "discounts": _floats, "baseline": _floats, "weights": _floats,
    "causal": types.boolean, "m": types.int64, "key": types.UniTuple(types.int64, 4), "hidden": types.int64,
    "work": _floats, "answer": _doubles, "columns": _floats,
}  # fmt: skip


def entry(function: Callable[..., None]) -> Callable[..., None]:
    """An estimator as called from Python: compiled at once, for what its arguments' names stand for, or loaded from
    the file beside its source."""
    kinds = [_ARGUMENTS[name] for name in inspect.signature(function).parameters]
    return numba.njit(types.void(*kinds), cache=True)(function)  # type: ignore[no-any-return]


class Estimators(NamedTuple):
    """The compiled functions; answers go into the last argument."""

    policy_gradient: Callable[..., None]
    hessian_vector_product: Callable[..., None]
    outcomes: Callable[..., None]
    value_baseline: Callable[..., None]
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
    forward, forward_tangent, backward, backward_tangent, feature = network(at, inputs, actions, lanes)
    sample, score, slope, score_tangent = softmax(at, actions, lanes)
    rollout, measure = make_rollout(task, forward, sample, at, inputs, lanes), jit(task.measure)
    clear, fold, mean = make_sums(lanes)

    @jit
    def memory(work: Lanes, answers: int, hidden: int) -> tuple[Lanes, Lanes]:
        """The block's records xi[h, slot] and its gradient[k], one trajectory a lane."""
        gradient = records(work, answers * SUMS, 0, lanes)
        xi = records(work, answers * (SUMS + lanes), at.own + 2 * hidden, lanes)
        return xi, gradient

    @jit
    def policy_gradient(
        theta: Lanes, constants: Lanes, m: int, key: Any, hidden: int, work: Lanes, discounts: Lanes, answer: Lanes
    ) -> None:
        """(2): the mean of g(xi) = sum_h psi_h R^h, into answer (d,)."""
        xi, gradient = memory(work, theta.size, hidden)
        horizon = discounts.size - 1
        clear(work, theta.size)
        for first in range(0, m, lanes):
            rollout(theta, constants, discounts, first, m, key, xi)
            R = np.zeros_like(xi[0, at.reward])
            for h in range(horizon, -1, -1):
                R = R + xi[h, at.reward]
                score(xi, h, R)
            backward(theta, xi, horizon, gradient)
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
        causal: bool,
        answer: Lanes,
    ) -> None:
        """(3): the mean of u(xi) v = sum_h psi_h c_h + sum_h A^h Psi_h v, into answer (d,); A^h = R^h less its baseline
        sum_{t>=h} b_t + gamma^h w . phi(s_h), c_h = A^h (z . v), or if causal W^h = A^h z_{0:h} . v + sum_{k>h} A^k
        psi_k . v."""
        xi, gradient = memory(work, theta.size, hidden)
        b, w = parameters(baseline, 0, 0, lanes), parameters(weights, 0, 0, lanes)
        gamma = parameters(discounts, 0, 0, lanes)
        horizon = discounts.size - 1
        clear(work, theta.size)
        for first in range(0, m, lanes):
            rollout(theta, constants, discounts, first, m, key, xi)
            running = counting(first, lanes) < m
            z_v = np.zeros_like(xi[0, at.reward])
            for h in range(horizon + 1):
                forward_tangent(theta, v, xi, h)
                psi_v = slope(xi, h)
                z_v = z_v + psi_v
                xi[h, at.slope] = psi_v
                xi[h, at.slopes] = z_v
            R, later = np.zeros_like(z_v), np.zeros_like(z_v)
            for h in range(horizon, -1, -1):
                R = R + (xi[h, at.reward] - b[h])
                value = np.zeros_like(z_v)
                for j in range(weights.size):
                    value = value + w[j] * feature(xi, h, j)
                A = np.where(running, R - gamma[h] * value, 0.0)
                score_tangent(xi, h, A, A * xi[h, at.slopes] + later if causal else A * z_v)
                later = later + A * xi[h, at.slope]
            backward_tangent(theta, v, xi, horizon, gradient)
            fold(work, theta.size, first)
        mean(work, m, answer)

    @jit
    def outcomes(
        theta: Lanes, constants: Lanes, m: int, key: Any, hidden: int, work: Lanes, discounts: Lanes, answer: Lanes
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
        """(b_t, w) of ``oracles/baseline.py`` for the batch, into answer (H+1+f,); columns (H+1, 1 + f, blocks x lanes)
        holds gamma^h r_h and phi(s_h)."""
        horizon, features = discounts.size - 1, answer.size - discounts.size
        xi, _ = memory(work, theta.size, hidden)
        column = records(columns, 0, (m + lanes - 1) // lanes, lanes)
        for first in range(0, m, lanes):
            rollout(theta, constants, discounts, first, m, key, xi)
            for h in range(horizon + 1):
                row, block = h * (1 + features), first // lanes
                column[row, block] = xi[h, at.reward]
                for j in range(features):
                    column[row + 1 + j, block] = feature(xi, h, j)
        fit(columns.reshape((horizon + 1, 1 + features, -1)), m, discounts, answer)

    @jit
    def trajectories(
        theta: Lanes, constants: Lanes, m: int, key: Any, hidden: int, work: Lanes, discounts: Lanes, columns: Lanes
    ) -> None:
        """The trajectories themselves, into columns (H+1, inputs + 4, blocks x lanes): per decision the observation,
        the action, gamma^h r_h, success, and the final distance."""
        horizon = discounts.size - 1
        xi, _ = memory(work, theta.size, hidden)
        column = records(columns, 0, (m + lanes - 1) // lanes, lanes)
        for first in range(0, m, lanes):
            last = rollout(theta, constants, discounts, first, m, key, xi)
            for h in range(horizon + 1):
                row, block = h * (inputs + 4), first // lanes
                for i in range(inputs):
                    column[row + i, block] = xi[h, at.observation + i]
                column[row + inputs, block] = xi[h, at.action]
                column[row + inputs + 1, block] = xi[h, at.reward]
                column[row + inputs + 2, block] = xi[h, at.success]
                column[row + inputs + 3, block] = measure(constants, last)[2]

    return Estimators(policy_gradient, hessian_vector_product, outcomes, value_baseline, trajectories)
