"""The fused oracle: a thin, typed front of the compiled estimators. Imports no numba until it is made."""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypfrl.oracles.fused.specialise import COMPILED_FUNCTIONS, Sizes, compiled
from raypfrl.oracles.oracle import Meter, Outcome
from raypfrl.policies import MLPSoftmax, Policy, TabularSoftmax, Vector
from raypfrl.populations.population import Task
from raypfrl.streams import Stream

LANES = 16  # trajectories in lockstep: a whole vector register of AVX-512, two of AVX2, four of SSE
TASK_FUNCTIONS = ("fits", "constants", *COMPILED_FUNCTIONS)


class Trajectories(NamedTuple):
    """A batch as data. observations: (m, H+1) int64 states or (m, H+1, inputs) float64; actions (m, H+1) int64;
    rewards r_h (m, H+1) float64; success (m,) and final_distance (m,), as in ``Outcome``."""

    observations: NDArray[Any]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    success: NDArray[np.float64]
    final_distance: NDArray[np.float64]


class _Network(NamedTuple):
    """A policy's module and function in this package, the numbers in an observation, actions, hidden units; and the
    features of a state."""

    name: str
    inputs: int
    actions: int
    hidden: int
    features: int


def _network(policy: Policy) -> _Network | None:
    """Where the policy's compiled functions are; None where there are none."""
    if isinstance(policy, TabularSoftmax):
        return _Network("tabular", 1, policy.actions, 0, policy.states)
    if isinstance(policy, MLPSoftmax) and len(policy.hidden) == 1:
        return _Network("mlp", policy.inputs, policy.actions, *policy.hidden, *policy.hidden)
    return None


def covers(task: Task, policy: Policy) -> bool:
    """Whether the fused oracle answers for this task and this policy: the policy is a table or has one hidden layer,
    and the task's file brings its functions, which fit the policy."""
    functions = sys.modules[type(task).__module__]
    given = all(hasattr(functions, name) for name in TASK_FUNCTIONS)
    return _network(policy) is not None and given and bool(functions.fits(policy))


class FusedOracle:
    """Estimates from m sampled trajectories, in float32 inside; an ``Oracle``.

    lanes: trajectories in lockstep, 4, 8, 16, 32 or 64; it changes the speed and not a bit of any answer.
    Raises ValueError for other lanes, and where ``covers`` says no.
    """

    def __init__(self, task: Task, policy: Policy, gamma: float, horizon: int, *, lanes: int = LANES) -> None:
        network = _network(policy)
        if network is None or not covers(task, policy):
            raise ValueError(f"the fused oracle does not cover {policy} on {task}; take the oracle autodiff")
        if lanes not in (4, 8, 16, 32, 64):
            raise ValueError(f"lanes = {lanes}; give 4, 8, 16, 32 or 64")
        from raypfrl.oracles.fused.estimators import work_size

        functions = sys.modules[type(task).__module__]
        self._sizes = Sizes(functions.__name__, network.name, network.inputs, network.actions, lanes)
        self._hidden = network.hidden
        self.meter = Meter()
        self._horizon = horizon
        self._discounts = np.cumprod([1.0] + [gamma] * horizon).astype(np.float32)
        self._constants = np.array(functions.constants(task), np.float32)
        self._theta, self._v = np.empty((2, policy.dim), np.float32)
        self._no_baseline, self._baseline = np.zeros((2, horizon + 1), np.float32)
        self._no_weights, self._weights = np.empty(0, np.float32), np.empty(network.features, np.float32)
        self._work = _aligned(work_size(*network[1:4], policy.dim, horizon, lanes))

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2): the mean of g(xi) = sum_h psi_h R^h, shape (d,)."""
        answer = np.empty(len(self._theta))
        self._run("policy_gradient", theta, m, stream, self._discounts, answer)
        self._charge(m)
        return answer

    def hessian_vector_product(
        self,
        theta: Vector,
        v: Vector,
        m: int,
        stream: Stream,
        *,
        curvature: str = "paper",
        baseline: Vector | None = None,
    ) -> Vector:
        """(3): the mean of u(xi) v = g (z . v) + sum_h R^h Psi_h v, shape (d,); with curvature = "causal" that of
        u_c(xi) v = sum_h psi_h W^h + sum_h A^h Psi_h v, with a baseline b_t, shape (H+1,), one that knows the state,
        (b_t, w), shape (H+1+f,), or none (docs/theory.md).

        Raises ValueError for another curvature, and for a baseline with "paper", which it would bias.
        """
        if curvature not in ("paper", "causal") or (baseline is not None and curvature != "causal"):
            raise ValueError(f"curvature = {curvature!r}: give 'paper' without a baseline, or 'causal'")
        answer = np.empty(len(self._theta))
        _single(v, self._v)
        b, w = self._no_baseline, self._no_weights
        if baseline is not None:
            b = _single(baseline[: len(b)], self._baseline)
            w = _single(baseline[len(b) :], self._weights) if len(baseline) > len(b) else w
        is_causal = curvature == "causal"
        self._run("hessian_vector_product", theta, m, stream, self._discounts, self._v, b, w, is_causal, answer)
        self._charge(m)
        return answer

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        """(1): the means of the discounted return, of success and of the final distance."""
        *rewards, success, final_distance = self._outcomes(theta, m, stream).tolist()
        self._charge(m)
        return Outcome(sum(rewards), success, final_distance)

    def mean_rewards(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch mean of gamma^t r_t, t = 0..H, shape (H+1,). Not charged: the batch was paid for when the same
        stream gave a gradient."""
        return self._outcomes(theta, m, stream)[:-2]

    def value_baseline(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """A baseline (b_t, w), shape (H+1+f,), fitted to the batch. Not charged, as in ``mean_rewards``."""
        width = -(-m // self._sizes.lanes) * self._sizes.lanes
        answer = np.empty(self._horizon + 1 + len(self._weights))
        columns = np.empty((self._horizon + 1) * (1 + len(self._weights)) * width, np.float32)
        self._run("value_baseline", theta, m, stream, self._discounts, columns, answer)
        return answer

    def trajectories(self, theta: Vector, m: int, stream: Stream) -> Trajectories:
        """The batch that the estimators of the same (theta, m, stream) are means over."""
        inputs, width = self._sizes.inputs, -(-m // self._sizes.lanes) * self._sizes.lanes
        columns = np.empty((self._horizon + 1) * (inputs + 4) * width, np.float32)
        self._run("trajectories", theta, m, stream, np.ones_like(self._discounts), columns)
        self._charge(m)
        batch = columns.reshape(self._horizon + 1, inputs + 4, width)[:, :, :m].transpose(2, 0, 1).astype(np.float64)
        observations = batch[:, :, 0].astype(np.int64) if self._sizes.network == "tabular" else batch[:, :, :inputs]
        actions, rewards, success, distance = (batch[:, :, inputs + i] for i in range(4))
        return Trajectories(observations, actions.astype(np.int64), rewards, success.max(1), distance[:, -1])

    def _outcomes(self, theta: Vector, m: int, stream: Stream) -> Vector:
        answer = np.empty(self._horizon + 3)
        self._run("outcomes", theta, m, stream, self._discounts, answer)
        return answer

    def _run(self, name: str, theta: Vector, m: int, stream: Stream, *arguments: Any) -> None:
        if m < 1:
            raise ValueError(f"m = {m}: give at least one trajectory")
        estimator = compiled(self._sizes, name)
        start = time.perf_counter()
        _single(theta, self._theta)
        estimator(self._theta, self._constants, m, stream.words, self._hidden, self._work, *arguments)
        self.meter.seconds += time.perf_counter() - start

    def _charge(self, m: int) -> None:
        self.meter.trajectories += m
        self.meter.env_steps += m * (self._horizon + 1)


def _single(vector: Vector, into: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vector rounded to float32; a number beyond its range becomes inf, and the answers nan."""
    if vector.shape != into.shape:
        raise ValueError(f"a vector of shape {vector.shape} where {into.shape} is due")
    with np.errstate(over="ignore"):
        into[:] = vector
    return into


def _aligned(size: int) -> NDArray[np.float32]:
    """Room for ``size`` numbers, from a multiple of 64 bytes on: no vector crosses a cache line."""
    room = np.zeros(size + 16, np.float32)
    start = -(room.ctypes.data // 4) % 16
    return room[start : start + size]
