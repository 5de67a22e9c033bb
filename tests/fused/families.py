"""What the tests of the fused oracle run on: one row a family of tasks and policies, and how to ask autodiff."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from raypfrl.oracles import Credit
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.oracles.baseline import fit
from raypfrl.oracles.episodes import Episodes
from raypfrl.oracles.fused import FusedOracle, Trajectories
from raypfrl.policies import Policy, Vector
from raypfrl.populations import Estimator, Population, cartpole, gridworld, navigation, point_mass
from raypfrl.populations.population import PAPER
from raypfrl.streams import Purpose, Stream

FAMILIES: Mapping[str, Population] = {"gridworld": gridworld(n=2), "navigation": navigation(n=2)}
READY: Mapping[str, Population] = {  # episodes that end; real actions with a learned and a given standard deviation
    "cartpole": cartpole(n=2, horizon=59),
    "point_mass": point_mass(n=2, gamma=0.95, std=0.0),
    "point_mass_given_std": point_mass(n=2, horizon=4, std=0.7),
}
STREAM = Stream(seed=7, agent=2**32 - 1, round=3, step=4, purpose=Purpose.HESSIAN)


def fused(population: Population, lanes: int = 16) -> FusedOracle:
    """The oracle of the population's first agent."""
    return FusedOracle(population.train[0], population.policy, population.gamma, population.horizon, lanes=lanes)


def vectors(policy: Policy, scale: float = 0.5, seed: int = 0) -> tuple[Vector, Vector]:
    """A theta of normal numbers of size ``scale``, and a v."""
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal(policy.dim), rng.standard_normal(policy.dim)


class Reference:
    """Float64 autodiff of (2) and (3) on a batch that the fused oracle has sampled."""

    def __init__(self, population: Population, batch: Trajectories, estimator: Estimator = PAPER) -> None:
        self._population = population
        arguments = (population.train[0], population.policy, population.gamma, population.horizon, estimator)
        self._oracle = AutodiffOracle(*arguments)
        taken = np.arange(batch.rewards.shape[1]) < batch.lengths[:, None]
        observations, actions, rewards = (part[taken] for part in batch[:3])
        self.batch = Episodes(observations, actions, rewards, batch.lengths, batch.success, batch.final_distance)

    def policy_gradient(self, theta: Vector) -> Vector:
        """(2)."""
        return self._oracle.policy_gradient_on(self.batch, theta)

    def value_baseline(self, theta: Vector) -> Vector:
        """The fit of ``oracles/baseline.py``."""
        batch, policy = self.batch, self._population.policy
        phi = policy.state_features(torch.tensor(theta), torch.tensor(batch.observations)).numpy()
        decisions = self._population.horizon + 1
        discounts = self._population.gamma ** np.arange(decisions)
        rewards, features = batch.table(batch.rewards, decisions), batch.table(phi, decisions)
        return fit(rewards * discounts, features, discounts)

    def score_sum(self, theta: Vector) -> Vector:
        """The batch's sum of z."""
        ones = torch.ones(len(self.batch.rewards), dtype=torch.float64)
        at, policy = torch.tensor(theta, requires_grad=True), self._population.policy
        observations, actions = torch.tensor(self.batch.observations), torch.tensor(self.batch.actions)
        (z,) = torch.autograd.grad(policy.log_prob(at, observations, actions), at, ones)
        return np.asarray(z.numpy())

    def hessian_vector_product(
        self, theta: Vector, v: Vector, credit: Credit = "all", baseline: Vector | None = None
    ) -> Vector:
        """(3), its causal form, or its second half."""
        return self._oracle.hessian_vector_product_on(self.batch, theta, v, credit, baseline)


def error(answer: Vector, truth: Vector) -> float:
    """The relative error in the Euclidean norm."""
    return float(np.linalg.norm(answer - truth) / np.linalg.norm(truth))
