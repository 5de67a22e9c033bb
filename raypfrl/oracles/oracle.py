"""The oracle: what an agent can answer about its own objective J_i, and what the answers cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from raypfrl.policies import Vector
from raypfrl.streams import Stream


class Outcome(NamedTuple):
    """What a policy achieves, as means over the batch (over q for the exact oracle).

    return_: the discounted return; success: the share of episodes that enter the goal region at some step;
    final_distance: the distance to the goal at the last decision (nan where a task has no goal).
    """

    return_: float
    success: float
    final_distance: float


@dataclass
class Meter:
    """What an oracle has spent since it was made: trajectories, environment steps, seconds of computing."""

    trajectories: int = 0
    env_steps: int = 0
    seconds: float = 0.0


class Oracle(Protocol):
    """Estimates are means over m fresh trajectories of ``stream``; the same stream gives the same answer, bit for
    bit. theta, v and the answers are flat float64 vectors of the policy's dim; theta may be read-only."""

    @property
    def meter(self) -> Meter:
        """What was spent so far; every call adds to it."""

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2): the mean of g(xi) = sum_h psi_h R^h; E = grad J(theta)."""

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
        """(3): the mean of u(xi) v = g (z . v) + sum_h R^h Psi_h v; with curvature = "causal" that of u_c(xi) v, with
        a baseline b_t, shape (H+1,), or b_t and w, shape (H+1+f,) (docs/theory.md). E = hess J(theta) v."""

    def mean_rewards(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch mean of gamma^t r_t, t = 0..H, shape (H+1,). The stream names a batch that was already paid for,
        so no trajectory is charged."""

    def value_baseline(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """A baseline (b_t, w), shape (H+1+f,), for the reward-to-go: sum_{t>=h} b_t + gamma^h w . phi(s_h), fitted to a
        batch (``oracles/baseline.py``). Not charged, as in ``mean_rewards``."""

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        """(1): return, success and final distance."""
