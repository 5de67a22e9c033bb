"""Policies pi(a|s; theta) over one flat float64 vector theta.

A policy is a frozen dataclass that holds sizes, never parameters. ``log_prob`` works on torch tensors, so that the
autodiff oracle can differentiate it; everything else is NumPy. torch is imported where it is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Vector = NDArray[np.float64]


class Policy(Protocol):
    """What an oracle needs of a policy. Shapes: theta (dim,), observations (batch, ...), actions (batch, ...)."""

    @property
    def dim(self) -> int:
        """d, the length of theta."""

    def init(self, rng: np.random.Generator) -> Vector:
        """theta^0, shape (dim,)."""

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """The randomness of one action each, drawn ahead of the rollout; leading axes ``shape``."""

    def act(self, theta: Tensor, observation: Tensor, noise: Tensor) -> Tensor:
        """The actions that ``noise`` selects under pi(.|observation; theta), shape (batch, ...)."""

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """log pi(action|observation; theta), shape (batch,); differentiable in theta."""

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """phi(s), shape (batch, f): what a baseline of the reward-to-go is linear in (``oracles/baseline.py``)."""


class LogLinear(Policy, Protocol):
    """A softmax policy on finitely many states whose logits are linear in theta: what the exact oracle solves."""

    def logits(self, theta: Vector) -> NDArray[np.float64]:
        """The (states, actions) table of logits, a linear map of theta."""

    def pullback(self, table: NDArray[np.float64]) -> Vector:
        """The transpose of ``logits``: from a gradient in the logits to one in theta."""


def _categorical(logits: Tensor, u: Tensor) -> Tensor:
    """Inverse-CDF sample of softmax(logits): the first action whose cumulative probability exceeds u."""
    import torch

    cumulative = torch.softmax(logits, -1).cumsum(-1)
    return torch.searchsorted(cumulative, u[..., None].contiguous(), right=True)[..., 0].clamp(max=logits.shape[-1] - 1)


def _log_softmax_of(logits: Tensor, action: Tensor) -> Tensor:
    import torch

    return torch.log_softmax(logits, -1).gather(-1, action.long()[..., None])[..., 0]


@dataclass(frozen=True)
class TabularSoftmax:
    """pi(a|s) = softmax(theta[s])_a: Example 1 with one-hot features, B = 1. theta is (states, actions), row-major."""

    states: int
    actions: int

    @property
    def dim(self) -> int:
        """d = states x actions."""
        return self.states * self.actions

    def init(self, rng: np.random.Generator) -> Vector:
        """theta^0 = 0, the uniform policy."""
        return np.zeros(self.dim)

    def logits(self, theta: Vector) -> NDArray[np.float64]:
        """The (states, actions) table of logits, a linear map of theta."""
        return theta.reshape(self.states, self.actions)

    def pullback(self, table: NDArray[np.float64]) -> Vector:
        """The transpose of ``logits``: from a gradient in the logits to one in theta."""
        return table.reshape(-1)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """One uniform number an action."""
        return rng.random(shape)

    def act(self, theta: Tensor, observation: Tensor, noise: Tensor) -> Tensor:
        """The action whose cumulative probability first exceeds the uniform number."""
        return _categorical(theta.reshape(self.states, self.actions)[observation.long()], noise)

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """theta[s, a] - logsumexp(theta[s])."""
        return _log_softmax_of(theta.reshape(self.states, self.actions)[observation.long()], action)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """One-hot in the state."""
        return _one_hot(theta, observation, self.states)


@dataclass(frozen=True)
class LinearSoftmax:
    """pi(a|s) proportional to exp(phi(s, a) . theta): Example 1. features is phi, nested (states, actions, d)."""

    features: tuple[tuple[tuple[float, ...], ...], ...]

    @property
    def dim(self) -> int:
        """d, the length of phi(s, a)."""
        return len(self.features[0][0])

    def init(self, rng: np.random.Generator) -> Vector:
        """theta^0 = 0, the uniform policy."""
        return np.zeros(self.dim)

    def logits(self, theta: Vector) -> NDArray[np.float64]:
        """The (states, actions) table of logits, a linear map of theta."""
        return np.array(self.features) @ theta

    def pullback(self, table: NDArray[np.float64]) -> Vector:
        """The transpose of ``logits``: from a gradient in the logits to one in theta."""
        return np.tensordot(table, np.array(self.features), axes=2)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """One uniform number an action."""
        return rng.random(shape)

    def act(self, theta: Tensor, observation: Tensor, noise: Tensor) -> Tensor:
        """The action whose cumulative probability first exceeds the uniform number."""
        return _categorical(theta.new_tensor(self.features)[observation.long()] @ theta, noise)

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """phi(s, a) . theta - logsumexp(phi(s, .) . theta)."""
        return _log_softmax_of(theta.new_tensor(self.features)[observation.long()] @ theta, action)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """One-hot in the state."""
        return _one_hot(theta, observation, len(self.features))


def _one_hot(theta: Tensor, state: Tensor, states: int) -> Tensor:
    import torch

    return torch.nn.functional.one_hot(state.long(), states).to(theta.dtype)


def _layers(theta: Tensor, sizes: tuple[int, ...]) -> list[tuple[Tensor, Tensor]]:
    """theta as [(W1, b1), (W2, b2), ...]; W is (inputs, outputs), row-major."""
    layers, at = [], 0
    for inputs, outputs in pairwise(sizes):
        W = theta[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        layers.append((W, theta[at : at + outputs]))
        at += outputs
    return layers


def _mlp(theta: Tensor, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    W, b = _layers(theta, sizes)[-1]
    return _last_hidden(theta, x, sizes) @ W + b


def _last_hidden(theta: Tensor, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    import torch

    x = x.to(theta.dtype)
    for W, b in _layers(theta, sizes)[:-1]:
        x = torch.tanh(x @ W + b)
    return x


def _mlp_init(rng: np.random.Generator, sizes: tuple[int, ...]) -> Vector:
    """Weights N(0, 0.5^2) in the hidden layers and N(0, 0.1^2) in the last; biases 0."""
    parts = []
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        std = 0.1 if layer == len(sizes) - 2 else 0.5
        parts += [std * rng.standard_normal(inputs * outputs), np.zeros(outputs)]
    return np.concatenate(parts)


def _mlp_dim(sizes: tuple[int, ...]) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


@dataclass(frozen=True)
class MLPSoftmax:
    """pi(.|x) = softmax of a tanh network. theta = (W1, b1, W2, b2, ...), each W row-major (inputs, outputs)."""

    inputs: int
    actions: int
    hidden: tuple[int, ...] = (32,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer widths, inputs first."""
        return (self.inputs, *self.hidden, self.actions)

    @property
    def dim(self) -> int:
        """d = sum over layers of (inputs + 1) x outputs; 360 for 2-32-8."""
        return _mlp_dim(self.sizes)

    def init(self, rng: np.random.Generator) -> Vector:
        """Weights N(0, 0.5^2), in the last layer N(0, 0.1^2); biases 0."""
        return _mlp_init(rng, self.sizes)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """One uniform number an action."""
        return rng.random(shape)

    def act(self, theta: Tensor, observation: Tensor, noise: Tensor) -> Tensor:
        """The action whose cumulative probability first exceeds the uniform number."""
        return _categorical(_mlp(theta, observation, self.sizes), noise)

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """log softmax(network(x))_a."""
        return _log_softmax_of(_mlp(theta, observation, self.sizes), action)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """The last hidden layer."""
        return _last_hidden(theta, observation, self.sizes)


@dataclass(frozen=True)
class MLPGaussian:
    """pi(.|x) = N(network(x), diag(exp(log_std))^2) for continuous actions. theta = (network, log_std)."""

    inputs: int
    actions: int
    hidden: tuple[int, ...] = (32,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer widths, inputs first."""
        return (self.inputs, *self.hidden, self.actions)

    @property
    def dim(self) -> int:
        """d = the network's parameters and one log standard deviation an action coordinate."""
        return _mlp_dim(self.sizes) + self.actions

    def init(self, rng: np.random.Generator) -> Vector:
        """The network as MLPSoftmax; log_std = 0."""
        return np.concatenate([_mlp_init(rng, self.sizes), np.zeros(self.actions)])

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """One standard normal number an action coordinate."""
        return rng.standard_normal((*shape, self.actions))

    def act(self, theta: Tensor, observation: Tensor, noise: Tensor) -> Tensor:
        """mean + std x noise."""
        mean, log_std = self._split(theta, observation)
        action: Tensor = mean + log_std.exp() * noise
        return action

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """The Gaussian log density, summed over the action's coordinates."""
        mean, log_std = self._split(theta, observation)
        standardized = (action.to(theta.dtype) - mean) / log_std.exp()
        density: Tensor = -0.5 * standardized**2 - log_std - 0.5 * math.log(2 * math.pi)
        return density.sum(-1)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """The last hidden layer."""
        return _last_hidden(theta[: _mlp_dim(self.sizes)], observation, self.sizes)

    def _split(self, theta: Tensor, observation: Tensor) -> tuple[Tensor, Tensor]:
        network = _mlp_dim(self.sizes)
        return _mlp(theta[:network], observation, self.sizes), theta[network:]
