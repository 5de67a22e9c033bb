"""The generic oracle as it was before lanes refilled: 64 environments in lockstep whatever m, torch for every action,
and estimates over all H + 1 decisions of an episode, alive or not. Kept to compare with (``benchmarks.environments``);
the policies' sampling in torch belongs to it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from torch import Tensor
from torch.func import grad, jvp

from raypfrl.oracles.oracle import Meter
from raypfrl.policies import MLPGaussian, MLPSoftmax, Policy, Vector
from raypfrl.policies.networks import _mlp
from raypfrl.populations.population import Simulated
from raypfrl.streams import Stream

LANES = 64


def sampled(policy: Policy, theta: Tensor, observation: Tensor, noise: Tensor) -> Tensor:
    """The actions that ``noise`` selects."""
    if isinstance(policy, MLPGaussian):
        network = len(theta) - policy.actions
        action: Tensor = _mlp(theta[:network], observation, policy.sizes) + theta[network:].exp() * noise
        return action
    assert isinstance(policy, MLPSoftmax)
    cumulative = torch.softmax(_mlp(theta, observation, policy.sizes), -1).cumsum(-1)
    chosen = torch.searchsorted(cumulative, noise[..., None].contiguous(), right=True)[..., 0]
    return chosen.clamp(max=policy.actions - 1)


class Trajectories(NamedTuple):
    """A batch of m episodes of at most H + 1 decisions, leading axes (m, H+1).

    ``alive`` is 1 for a decision that happened and 0 after an episode's end; a dead decision has reward 0. ``success``
    (m,) and ``final_distance`` (m,) are nan where the environment's info does not tell them.
    """

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    alive: Tensor
    success: NDArray[np.float64]
    final_distance: NDArray[np.float64]


class LockstepOracle:
    """Estimates from m sampled trajectories of a gymnasium environment."""

    def __init__(self, task: Simulated, policy: Policy, gamma: float, horizon: int) -> None:
        torch.set_num_threads(1)  # one thread an agent; more would also change the order of sums
        self.meter = Meter()
        self._policy, self._horizon = policy, horizon
        self._discounts = torch.tensor(gamma ** np.arange(horizon + 1))
        self._task = task
        self._envs: VectorEnv[Any, Any, Any] | None = None

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2): mean of g(xi) = grad nu(xi) = sum_h psi_h R^h."""
        batch = self.sample(theta, m, stream)
        return self.policy_gradient_on(batch, theta)

    def hessian_vector_product(self, theta: Vector, v: Vector, m: int, stream: Stream) -> Vector:
        """(3): mean of u(xi) v = g (z . v) + sum_h R^h Psi_h v."""
        batch = self.sample(theta, m, stream)
        return self.hessian_vector_product_on(batch, theta, v)

    def policy_gradient_on(self, batch: Trajectories, theta: Vector) -> Vector:
        """(2) on given trajectories."""
        R = self._reward_to_go(batch)

        def nu_bar(theta: Tensor) -> Tensor:
            return (self._log_prob(batch, theta) * R).sum(1).mean()

        return self._timed(grad(nu_bar), theta)

    def hessian_vector_product_on(self, batch: Trajectories, theta: Vector, v: Vector) -> Vector:
        """(3) on given trajectories: H_hat v = grad[mean(w nu)] + d/de grad nu_bar(theta + e v), w = z . v constant."""
        R, ones = self._reward_to_go(batch), torch.ones(len(batch.rewards))

        def log_q(theta: Tensor) -> Tensor:
            return self._log_prob(batch, theta).sum(1)

        def weighted_nu(theta: Tensor, weight: Tensor) -> Tensor:
            return (weight * (self._log_prob(batch, theta) * R).sum(1)).mean()

        def product(theta: Tensor, v: Tensor) -> Tensor:
            z_v = jvp(log_q, (theta,), (v,))[1]
            score_term: Tensor = grad(weighted_nu)(theta, z_v)
            hessian_of_nu: Tensor = jvp(lambda theta: grad(weighted_nu)(theta, ones), (theta,), (v,))[1]
            return score_term + hessian_of_nu

        return self._timed(product, theta, v)

    def sample(self, theta: Vector, m: int, stream: Stream) -> Trajectories:
        """m episodes under pi(.|.; theta). All randomness is drawn up front, trajectory by trajectory, from
        the stream: the first trajectories are the same whatever m."""
        start = time.perf_counter()
        rng = stream.generator()
        drawn = [(int(rng.integers(2**31)), self._policy.noise(rng, (self._horizon + 1,))) for _ in range(m)]
        seeds, noise = [seed for seed, _ in drawn], torch.from_numpy(np.stack([row for _, row in drawn]))
        parameters = torch.tensor(theta)
        waves = [self._wave(parameters, seeds[at : at + LANES], noise[at : at + LANES]) for at in range(0, m, LANES)]
        batch = waves[0] if len(waves) == 1 else _joined(waves)
        self.meter.trajectories += m
        self.meter.env_steps += int(batch.alive.sum())
        self.meter.seconds += time.perf_counter() - start
        return batch

    def close(self) -> None:
        """Close the environments; safe to call twice."""
        if self._envs is not None:
            self._envs.close()
            self._envs = None

    def _wave(self, theta: Tensor, seeds: list[int], noise: Tensor) -> Trajectories:
        """Up to LANES episodes side by side. An episode ends when its environment terminates or truncates; what the
        environment shows from then on (a reset observation, in whatever autoreset mode) is not part of any episode.
        """
        envs, lanes, live = self._vector_env(), len(seeds), np.ones(LANES, bool)
        live[lanes:] = False
        observation, _ = envs.reset(seed=seeds + seeds[:1] * (LANES - lanes))  # type: ignore[arg-type]
        noise = torch.cat([noise, noise[:1].expand(LANES - lanes, *noise.shape[1:])])
        observations, actions, rewards, alive = [], [], [], []
        success, distance = np.full(LANES, np.nan), np.full(LANES, np.nan)
        for h in range(self._horizon + 1):
            seen = torch.as_tensor(np.array(observation))
            action = sampled(self._policy, theta, seen, noise[:, h])
            observation, reward, terminated, truncated, info = envs.step(action.numpy())
            observations.append(seen)
            actions.append(action)
            rewards.append(torch.as_tensor(np.where(live, reward, 0.0)))
            alive.append(torch.as_tensor(live.astype(float)))
            over = terminated | truncated
            _keep(success, _told(info, "success", over), live, np.fmax)
            _keep(distance, _told(info, "distance", over), live, lambda old, new: new)
            live = live & ~over
            if not live.any():
                break
            if over.any() and envs.metadata.get("autoreset_mode") == AutoresetMode.DISABLED:
                observation, _ = envs.reset(options={"reset_mask": over})
        obs, act, rew, ali = (
            _padded(torch.stack(column, 1)[:lanes], self._horizon + 1)
            for column in (observations, actions, rewards, alive)
        )
        return Trajectories(obs, act, rew, ali, success[:lanes], distance[:lanes])

    def _vector_env(self) -> VectorEnv[Any, Any, Any]:
        if self._envs is None:
            self._envs = gymnasium.make_vec(self._task.env_id, LANES, "sync", **self._task.env_kwargs)
        return self._envs

    def _reward_to_go(self, batch: Trajectories) -> Tensor:
        """R^h = sum_{t>=h} gamma^t r_t, shape (m, H+1)."""
        return _suffix_sum(batch.rewards * self._discounts)

    def _log_prob(self, batch: Trajectories, theta: Tensor) -> Tensor:
        """log pi(a_h|s_h; theta), shape (m, H+1); 0 after an episode's end."""
        flat = self._policy.log_prob(theta, batch.observations.flatten(0, 1), batch.actions.flatten(0, 1))
        return flat.reshape(batch.alive.shape) * batch.alive

    def _timed(self, function: Any, *vectors: Vector) -> Vector:
        start = time.perf_counter()
        answer = function(*(torch.tensor(vector) for vector in vectors)).numpy()
        self.meter.seconds += time.perf_counter() - start
        return np.asarray(answer)


def _suffix_sum(x: Tensor) -> Tensor:
    """sum_{t>=h} x_t along the last axis."""
    return x.flip(-1).cumsum(-1).flip(-1)


def _joined(waves: list[Trajectories]) -> Trajectories:
    """The waves' episodes in one batch."""
    observations, actions, rewards, alive, success, distance = zip(*waves, strict=True)
    return Trajectories(
        torch.cat(observations),
        torch.cat(actions),
        torch.cat(rewards),
        torch.cat(alive),
        np.concatenate(success),
        np.concatenate(distance),
    )


def _padded(x: Tensor, length: int) -> Tensor:
    """x (m, decisions, ...) with zeros for the decisions that never happened, up to ``length``."""
    return torch.cat([x, x.new_zeros(len(x), length - x.shape[1], *x.shape[2:])], 1)


def _told(info: Mapping[str, Any], key: str, over: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What ``info`` says of this step, nan where nothing; under same-step autoreset the last step's own word stands
    in ``final_info``."""
    told = np.full(len(over), np.nan)
    for source in (info, info.get("final_info")):
        if isinstance(source, Mapping) and key in source:
            known = np.asarray(source.get(f"_{key}", np.ones(len(over), bool)))
            told[known] = np.asarray(source[key], np.float64)[known]
    return told


def _keep(record: NDArray[np.float64], told: NDArray[np.float64], live: NDArray[np.bool_], join: Any) -> None:
    """Join what was told of live episodes into the record."""
    known = live & ~np.isnan(told)
    record[known] = join(record[known], told[known])
