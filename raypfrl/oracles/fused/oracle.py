"""The fused oracle: a thin, typed front of the compiled estimators. Imports no numba until it is made."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypfrl.oracles.advantages import SAME
from raypfrl.oracles.fused.specialise import Sizes, compiled
from raypfrl.oracles.oracle import CREDITS, Credit, Meter, Oracle, Outcome, check_credit
from raypfrl.policies import MLPGaussian, MLPSoftmax, Policy, TabularSoftmax, Vector
from raypfrl.populations.population import PAPER, Compiled, Estimated, Estimator, Kernel, Task
from raypfrl.streams import DRAWS, Stream

LANES = 16  # trajectories in lockstep: a whole vector register of AVX-512, two of AVX2, four of SSE


class Trajectories(NamedTuple):
    """A batch as data. observations: (m, H+1) int64 states or (m, H+1, inputs) float64; actions: (m, H+1) int64 or, of
    a Gaussian policy, (m, H+1, numbers) float64, as drawn; rewards r_h (m, H+1) float64, all 0 after an episode's end;
    lengths (m,), the decisions of each episode; success (m,) and final_distance (m,), as in ``Outcome``."""

    observations: NDArray[Any]
    actions: NDArray[Any]
    rewards: NDArray[np.float64]
    lengths: NDArray[np.int64]
    success: NDArray[np.float64]
    final_distance: NDArray[np.float64]


class _Network(NamedTuple):
    """A policy's network and head, modules and functions in this package; its shape (``estimators.Shape``), hidden
    units and features of a state; and the log std that is not part of its theta."""

    name: str
    head: str
    shape: tuple[int, int, int, int]
    hidden: int
    features: int
    log_std: tuple[float, ...] = ()


def _network(policy: Policy) -> _Network | None:
    """Where the policy's compiled functions are; None where there are none."""
    if isinstance(policy, TabularSoftmax):
        return _Network("tabular", "softmax", (1, policy.actions, 1, 0), 0, policy.states)
    if isinstance(policy, MLPSoftmax) and len(policy.hidden) == 1:
        return _Network("mlp", "softmax", (policy.inputs, policy.actions, 1, 0), *policy.hidden, *policy.hidden)
    if isinstance(policy, MLPGaussian) and len(policy.hidden) == 1:
        numbers = policy.actions
        fixed = () if policy.std is None else (float(np.log(policy.std)),) * numbers
        shape = policy.inputs, numbers, numbers, numbers
        return _Network("mlp", "gaussian", shape, *policy.hidden, *policy.hidden, fixed)
    return None


def covers(task: Task, policy: Policy) -> bool:
    """Whether the fused oracle answers for this task and this policy: the policy is a table or has one hidden layer,
    the task has a kernel, which fits the policy, and asks for no estimator that is not compiled."""
    kernel = _kernel(task)
    return _network(policy) is not None and kernel is not None and kernel.fits(task, policy) and _is_compiled(task)


def _kernel(task: Task) -> Kernel | None:
    return task.kernel if isinstance(task, Compiled) else None


def _estimator(task: Task) -> Estimator:
    return task.estimator if isinstance(task, Estimated) else PAPER


def _is_compiled(task: Task) -> bool:
    """Whether the estimator differs from the paper's in what is compiled alone."""
    asked = _estimator(task)
    return asked == PAPER._replace(baseline=asked.baseline, normalise=asked.normalise, average=asked.average)


class FusedOracle(Oracle):
    """Estimates from m sampled trajectories, in float32 inside; an ``Oracle``. The policy gradient, and the unit of the
    Hessian product, are as the task's estimator says (``oracles/advantages.py``).

    lanes: trajectories in lockstep, 4, 8, 16, 32 or 64; it changes the speed and not a bit of any answer.
    Raises ValueError for other lanes, where ``covers`` says no, and for a horizon with more draws than a part has.
    """

    def __init__(self, task: Task, policy: Policy, gamma: float, horizon: int, *, lanes: int = LANES) -> None:
        network, kernel = _network(policy), _kernel(task)
        if network is None or kernel is None or not covers(task, policy):
            raise ValueError(f"the fused oracle does not cover {policy} on {task}; take the oracle autodiff")
        if lanes not in (4, 8, 16, 32, 64):
            raise ValueError(f"lanes = {lanes}; give 4, 8, 16, 32 or 64")
        from raypfrl.oracles.fused.estimators import Shape, work_size

        shape = Shape(*network.shape)
        longest = (4 * (DRAWS - 1)) // shape.numbers - 1
        if horizon > longest:
            raise ValueError(f"horizon = {horizon}: the fused oracle takes at most {longest}")
        self._kernel, self._sizes = kernel, Sizes(network.name, network.head, network.shape, lanes)
        self._hidden, self._estimator = network.hidden, _estimator(task)
        self.meter = Meter()
        self._horizon, self._dim = horizon, policy.dim
        self._discounts = np.cumprod([1.0] + [gamma] * horizon).astype(np.float32)
        self._constants = np.array(kernel.constants(task), np.float32)
        self._theta, self._v = np.zeros((2, policy.dim + len(network.log_std)), np.float32)
        self._theta[policy.dim :] = network.log_std
        self._no_baseline, self._baseline = np.zeros((2, horizon + 1), np.float32)
        self._no_weights, self._weights = np.empty(0, np.float32), np.empty(network.features, np.float32)
        known = {"linear": 2 * shape.inputs, "value": network.features}
        self._known = known.get(self._estimator.baseline, 0)  # numbers of a state that the estimator's baseline knows
        self._work = _aligned(work_size(shape, network.hidden, len(self._theta), horizon, lanes))
        self._decisions = np.zeros(1, np.int64)

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2): the mean of g(xi) = sum_h psi_h R^h, or as the estimator says; shape (d,)."""
        answer = np.empty(len(self._theta))
        B, w, c = self._advantages(theta, m, stream)
        linear = self._estimator.baseline == "linear"
        self._run("policy_gradient", theta, m, stream, self._discounts, B, w, linear, self._decisions, answer)
        self._charge(m)
        return self._in_unit(answer, m, c)

    def hessian_vector_product(
        self,
        theta: Vector,
        v: Vector,
        m: int,
        stream: Stream,
        *,
        credit: Credit = "all",
        baseline: Vector | None = None,
    ) -> Vector:
        """(3): the mean of u(xi) v = g (z . v) + sum_h R^h Psi_h v, shape (d,); with credit = "causal" that of
        u_c(xi) v = sum_h psi_h W^h + sum_h A^h Psi_h v, with a baseline b_t, shape (H+1,), one that knows the state,
        (b_t, w), shape (H+1+f,), or none (docs/theory.md); with credit = "none" that of sum_h R^h Psi_h v, R less what
        the estimator takes off. In the unit of the estimator's policy gradient.

        Raises ValueError for another credit, and for a baseline that is not with "causal".
        """
        check_credit(credit, baseline)
        answer = np.empty(len(self._theta))
        _single(v, self._v[: self._dim])
        B, known, c = self._advantages(theta, m, stream)
        b, w, linear = self._no_baseline, self._no_weights, False
        if credit == "none":
            b, w, linear = B - np.append(B[1:], np.float32(0)), known, self._estimator.baseline == "linear"
        if baseline is not None:
            b = _single(baseline[: len(b)], self._baseline)
            w = _single(baseline[len(b) :], self._weights) if len(baseline) > len(b) else w
        number = CREDITS.index(credit)
        arguments = (self._discounts, self._v, b, w, linear, number, self._decisions, answer)
        self._run("hessian_vector_product", theta, m, stream, *arguments)
        if credit != "none":
            self._charge(m)
        return self._in_unit(answer, m, c)

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
        columns = np.zeros((self._horizon + 1) * (1 + len(self._weights)) * width, np.float32)
        self._run("value_baseline", theta, m, stream, self._discounts, columns, answer)
        return answer

    def score_sum(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch's sum of z(xi; theta) = sum_h psi_h, shape (d,). Not charged, as in ``mean_rewards``."""
        answer = np.empty(len(self._theta))
        self._run("score_sum", theta, m, stream, self._discounts, answer)
        return answer[: self._dim]

    def trajectories(self, theta: Vector, m: int, stream: Stream) -> Trajectories:
        """The batch that the estimators of the same (theta, m, stream) are means over."""
        inputs, _, numbers, _ = self._sizes.shape
        rows, width = inputs + numbers + 4, -(-m // self._sizes.lanes) * self._sizes.lanes
        columns = np.zeros((self._horizon + 1) * rows * width, np.float32)
        self._run("trajectories", theta, m, stream, np.ones_like(self._discounts), columns)
        batch = columns.reshape(self._horizon + 1, rows, width)[:, :, :m].transpose(2, 0, 1).astype(np.float64)
        observations, actions = batch[:, :, :inputs], batch[:, :, inputs : inputs + numbers]
        rewards, live, success, distance = (batch[:, :, inputs + numbers + i] for i in range(4))
        lengths = live.sum(1).astype(np.int64)
        self._decisions[0] = lengths.sum()
        self._charge(m)
        if self._sizes.network == "tabular":
            observations = observations[:, :, 0].astype(np.int64)
        if self._sizes.head == "softmax":
            actions = actions[:, :, 0].astype(np.int64)
        return Trajectories(observations, actions, rewards, lengths, success.max(1), distance[:, -1])

    def _outcomes(self, theta: Vector, m: int, stream: Stream) -> Vector:
        answer = np.empty(self._horizon + 3)
        self._run("outcomes", theta, m, stream, self._discounts, self._decisions, answer)
        return answer

    def _advantages(self, theta: Vector, m: int, stream: Stream) -> tuple[Any, Any, float]:
        """What the estimator takes off R^h, B^h + gamma^h w . (the state's features), and by what it divides; 0 where
        nothing is left but rounding."""
        baseline, normalise, *_ = self._estimator
        if baseline == "none" and not normalise:
            return self._no_baseline, self._no_weights, 1.0
        decisions = self._horizon + 1
        answer = np.empty(decisions + self._known + 3)
        columns = np.empty(decisions * (2 + self._known) * self._sizes.lanes, np.float32)
        powers, linear = 4 * (baseline != "none"), baseline == "linear"
        self._run("advantages", theta, m, stream, self._discounts, powers, linear, columns, answer)
        *_, mean, c, largest = answer.tolist()
        B, w = answer[:decisions], answer[decisions:-3].astype(np.float32)
        if not normalise:
            return B.astype(np.float32), w, 1.0
        return (B + mean).astype(np.float32), w, 0.0 if c <= SAME * largest else c

    def _in_unit(self, answer: Vector, m: int, c: float) -> Vector:
        """The mean over trajectories in the estimator's unit, m / (c D)."""
        share = m / int(self._decisions[0]) if self._estimator.average else 1.0
        unit = share / c if c else 0.0
        return answer[: self._dim] * unit if unit != 1.0 else answer[: self._dim]

    def _run(self, name: str, theta: Vector, m: int, stream: Stream, *arguments: Any) -> None:
        if m < 1:
            raise ValueError(f"m = {m}: give at least one trajectory")
        estimator = compiled(self._kernel, self._sizes, name)
        start = time.perf_counter()
        _single(theta, self._theta[: self._dim])
        estimator(self._theta, self._constants, m, stream.words, self._hidden, self._work, *arguments)
        self.meter.seconds += time.perf_counter() - start

    def _charge(self, m: int) -> None:
        self.meter.trajectories += m
        self.meter.env_steps += int(self._decisions[0])


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
