"""The autodiff oracle: any policy of ``raypfrl.policies``, any gymnasium environment, torch.func in float64.

It is the readable specification that the fused oracle is held to, and what a new environment runs on first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.autograd.forward_ad
from torch import Tensor
from torch.func import grad

from raypfrl.oracles.advantages import Advantages, advantages
from raypfrl.oracles.baseline import fit
from raypfrl.oracles.episodes import Episodes, Simulator
from raypfrl.oracles.oracle import Credit, Meter, Oracle, Outcome, check_credit
from raypfrl.policies import Policy, Vector
from raypfrl.populations.population import PAPER, Estimator, Simulated
from raypfrl.streams import Stream

forward_ad: Any = torch.autograd.forward_ad  # has no types
REMEMBERED = 3  # batches: those of one local step


class AutodiffOracle(Oracle):
    """Estimates from m sampled episodes of a gymnasium environment."""

    def __init__(
        self, task: Simulated, policy: Policy, gamma: float, horizon: int, estimator: Estimator = PAPER
    ) -> None:
        torch.set_num_threads(1)  # one thread an agent; more would also change the order of sums
        self.meter = Meter()
        self._policy, self._estimator = policy, estimator
        self._discounts: Vector = np.array([gamma**h for h in range(horizon + 1)])
        self._simulator = Simulator(task, policy, horizon)
        self._remembered = OrderedDict[tuple[bytes, int, Stream], Episodes]()

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2): mean of g(xi) = grad nu(xi) = sum_h psi_h R^h, or as the estimator says."""
        return self.policy_gradient_on(self.sample(theta, m, stream), theta)

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
        """(3): mean of u(xi) v = g (z . v) + sum_h R^h Psi_h v, the causal form (docs/theory.md), or the second half
        alone. Raises ValueError for another credit, and for a baseline that is not with "causal"."""
        check_credit(credit, baseline)
        batch = (self._sampled_before if credit == "none" else self.sample)(theta, m, stream)
        return self.hessian_vector_product_on(batch, theta, v, credit, baseline)

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        """(1): the means of the discounted return, of success and of the final distance."""
        batch = self.sample(theta, m, stream)
        return_ = (batch.rewards * self._discounts[batch.columns]).sum() / m
        return Outcome(float(return_), float(batch.success.mean()), float(batch.final_distance.mean()))

    def mean_rewards(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch mean of gamma^t r_t, t = 0..H, shape (H+1,). Not charged: the batch was paid for when the same
        stream gave a gradient."""
        batch = self._sampled_before(theta, m, stream)
        return np.asarray(batch.table(self._rewards(batch, theta), len(self._discounts)).mean(0) * self._discounts)

    def value_baseline(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """A baseline (b_t, w), shape (H+1+f,), fitted to the batch. Not charged, as in ``mean_rewards``."""
        batch, columns = self._sampled_before(theta, m, stream), len(self._discounts)
        rewards = batch.table(self._rewards(batch, theta), columns) * self._discounts
        return fit(rewards, batch.table(self._state_features(batch, theta), columns), self._discounts)

    def score_sum(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch's sum of z(xi; theta), shape (d,). Not charged, as in ``mean_rewards``."""
        batch = self._sampled_before(theta, m, stream)
        return self._weighted_score(batch, theta, np.ones(len(batch.rewards)))

    def weighted_gradient(self, theta: Vector, snapshot: Vector, m: int, stream: Stream) -> Vector:
        """The mean of omega(xi) g(xi; snapshot), shape (d,). Not charged, as in ``mean_rewards``."""
        return self.weighted_gradient_on(self._sampled_before(theta, m, stream), theta, snapshot)

    def kl_gradient(self, theta: Vector, anchor: Vector, m: int, stream: Stream) -> Vector:
        """The mean of psi_h (log pi_theta - log pi_anchor)(a_h|s_h), (d,). Not charged, as in ``mean_rewards``."""
        batch = self._sampled_before(theta, m, stream)
        return self._weighted_score(batch, theta, self._log_ratio(batch, theta, anchor) / len(batch.rewards))

    def policy_gradient_on(self, batch: Episodes, theta: Vector) -> Vector:
        """(2) on given episodes."""
        A, unit, _ = self._advantages(batch, theta, self._reward_to_go(batch, theta))
        return self._weighted_score(batch, theta, A * (unit / len(batch.lengths)))

    def weighted_gradient_on(self, batch: Episodes, theta: Vector, snapshot: Vector) -> Vector:
        """The mean of omega(xi) g(xi; snapshot) on given episodes of theta."""
        A, unit, _ = self._advantages(batch, snapshot, self._reward_to_go(batch, snapshot))
        log_ratio = self._log_ratio(batch, snapshot, theta)
        omega = np.exp(_to_all(batch, np.ones_like(log_ratio), log_ratio))
        return self._weighted_score(batch, snapshot, omega * A * (unit / len(batch.lengths)))

    def hessian_vector_product_on(
        self, batch: Episodes, theta: Vector, v: Vector, credit: Credit = "all", baseline: Vector | None = None
    ) -> Vector:
        """(3) on given episodes: the mean of sum_h psi_h W^h + sum_h A^h Psi_h v, where A^h = R^h less its baseline,

            all     W^h = R^h (z . v)
            causal  W^h = A^h (z_{0:h} . v) + sum_{k>h} A^k (psi_k . v)
            none    W^h = 0

        and, with an entropy bonus, how A^h moves with log pi in it: - e sum_{t>=h} gamma^t psi_t . v.
        With psi the Jacobian of log pi, that is the derivative of psi^T A as theta moves along v and A along W: one
        pass forward, whose tangent psi v makes W, and one back. It is in the unit of the estimator's policy gradient.
        """
        start, log_prob = time.perf_counter(), self._log_prob(batch)
        R = self._reward_to_go(batch, theta)
        A, unit, left = self._advantages(batch, theta, R)
        if credit != "none":  # else the product is the derivative of g as it is estimated on these episodes
            A = R
        if baseline is not None:
            A = A - self._baseline(batch, theta, baseline)
        share = unit / len(batch.lengths)
        at = torch.tensor(theta, requires_grad=True)
        with forward_ad.dual_level():
            log_pi = log_prob(forward_ad.make_dual(at, torch.tensor(v)))
            psi_v = forward_ad.unpack_dual(log_pi).tangent.detach().numpy()
            W = _CREDITED[credit](batch, A, psi_v)
            if self._estimator.entropy:
                R_v = batch.reward_to_go(self._discounts, -self._estimator.entropy * psi_v)
                W = W + (left(R_v) if credit == "none" else R_v)
            weight = forward_ad.make_dual(torch.from_numpy(share * A), torch.from_numpy(share * W))
            (gradient,) = torch.autograd.grad(log_pi, at, weight)
            product = forward_ad.unpack_dual(gradient).tangent.numpy()
        self.meter.seconds += time.perf_counter() - start
        return np.asarray(product)

    def sample(self, theta: Vector, m: int, stream: Stream) -> Episodes:
        """m episodes under pi(.|.; theta), charged. All randomness comes from the stream, episode by episode: the first
        episodes are the same whatever m."""
        start = time.perf_counter()
        batch = self._simulator.episodes(theta.copy(), m, stream)
        self._remembered[theta.tobytes(), m, stream] = batch
        if len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        self.meter.trajectories += m
        self.meter.env_steps += len(batch.rewards)
        self.meter.seconds += time.perf_counter() - start
        return batch

    def close(self) -> None:
        """Close the environments; safe to call twice."""
        self._simulator.close()

    def _sampled_before(self, theta: Vector, m: int, stream: Stream) -> Episodes:
        """A batch that was paid for when the same stream gave a gradient: as a rule it is still at hand."""
        if batch := self._remembered.get((theta.tobytes(), m, stream)):
            return batch
        trajectories, env_steps = self.meter.trajectories, self.meter.env_steps
        batch = self.sample(theta, m, stream)
        self.meter.trajectories, self.meter.env_steps = trajectories, env_steps
        return batch

    def _weighted_score(self, batch: Episodes, theta: Vector, weight: Vector) -> Vector:
        """sum weight psi over the batch's decisions, (d,)."""
        start, log_prob, weight_ = time.perf_counter(), self._log_prob(batch), torch.from_numpy(weight)
        gradient = grad(lambda theta: (log_prob(theta) * weight_).sum())(torch.tensor(theta))
        self.meter.seconds += time.perf_counter() - start
        return np.asarray(gradient.numpy())

    def _log_ratio(self, batch: Episodes, theta: Vector, other: Vector) -> Vector:
        """log pi_theta - log pi_other of each decision, (N,)."""
        log_prob = self._log_prob(batch)
        with torch.inference_mode():
            return np.asarray((log_prob(torch.tensor(theta)) - log_prob(torch.tensor(other))).numpy())

    def _rewards(self, batch: Episodes, theta: Vector) -> Vector:
        """r_h - e log pi(a_h|s_h; theta), (N,): what is credited, of which the second part moves with theta."""
        if not self._estimator.entropy:
            return batch.rewards
        log_prob = self._log_prob(batch)
        with torch.inference_mode():
            return np.asarray(batch.rewards - self._estimator.entropy * log_prob(torch.tensor(theta)).numpy())

    def _reward_to_go(self, batch: Episodes, theta: Vector) -> Vector:
        return batch.reward_to_go(self._discounts, self._rewards(batch, theta))

    def _advantages(self, batch: Episodes, theta: Vector, R: Vector) -> Advantages:
        return advantages(batch, R, self._discounts, self._estimator, lambda: self._state_features(batch, theta))

    def _baseline(self, batch: Episodes, theta: Vector, baseline: Vector) -> Vector:
        """sum_{t>=h} b_t + gamma^h w . phi(s_h), (N,)."""
        b, w = np.split(baseline, [len(self._discounts)])
        value: Vector = b[::-1].cumsum()[::-1][batch.columns]
        if len(w):
            value = value + self._discounts[batch.columns] * (self._state_features(batch, theta) @ w)
        return value

    def _log_prob(self, batch: Episodes) -> Callable[[Tensor], Tensor]:
        """theta -> log pi(a_h|s_h; theta), (N,). The policy gets copies: it may be anybody's."""
        seen, taken = torch.tensor(batch.observations), torch.tensor(batch.actions)
        return lambda theta: self._policy.log_prob(theta, seen.clone(), taken.clone())

    def _state_features(self, batch: Episodes, theta: Vector) -> Any:
        """phi(s_h), (N, f)."""
        with torch.inference_mode():
            return self._policy.state_features(torch.tensor(theta), torch.tensor(batch.observations)).numpy()


def _to_all(batch: Episodes, A: Vector, psi_v: Vector) -> Vector:
    """A^h (z . v), z of the decision's episode, (N,)."""
    z_v = np.bincount(batch.rows, psi_v, len(batch.lengths))
    return np.asarray(A * z_v[batch.rows])


def _causally(batch: Episodes, A: Vector, psi_v: Vector) -> Vector:
    """A^h (z_{0:h} . v) + sum_{k>h} A^k (psi_k . v), (N,)."""
    columns = int(batch.lengths.max())
    so_far = batch.table(psi_v, columns).cumsum(1)
    later = batch.table(A * psi_v, columns)
    later = later[:, ::-1].cumsum(1)[:, ::-1] - later
    W: Vector = A * so_far[batch.rows, batch.columns] + later[batch.rows, batch.columns]
    return W


_CREDITED: Mapping[Credit, Callable[[Episodes, Vector, Vector], Vector]] = {
    "all": _to_all,
    "causal": _causally,
    "none": lambda batch, A, psi_v: np.zeros_like(A),
}
