"""Policies that are tanh networks: softmax, a product of softmaxes, and Gaussian heads.

theta = (W1, b1, W2, b2, ...), each W row-major (inputs, outputs). An observation of any shape is read as a flat row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from raypfrl.policies.distributions import categorical, categorical_log_prob, gaussian_log_prob
from raypfrl.policies.policy import Array, Vector
from raypfrl.policies.scores import UNBOUNDED, ScoreBounds, log_linear_scores

if TYPE_CHECKING:
    from torch import Tensor

_OUTPUT_LAYER_ALONE = """\
Assumption 2 fails for this network: the score of a hidden layer grows with the weights behind it, so there is no G. The
numbers are those of its output layer alone (log-linear in the last hidden layer's tanh and a bias,
B = sqrt({features}) = {B:.3g}); a bound for the whole network could only be larger.
"""


def layers(theta: Any, sizes: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """theta, an array or a tensor, as [(W1, b1), (W2, b2), ...]."""
    layers, at = [], 0
    for inputs, outputs in pairwise(sizes):
        W = theta[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        layers.append((W, theta[at : at + outputs]))
        at += outputs
    return layers


def _last_hidden(theta: Tensor, observation: Tensor, sizes: tuple[int, ...]) -> Tensor:
    import torch

    x = observation.reshape(len(observation), -1).to(theta.dtype)
    for W, b in layers(theta, sizes)[:-1]:
        x = torch.tanh(x @ W + b)
    return x


def _mlp(theta: Tensor, observation: Tensor, sizes: tuple[int, ...]) -> Tensor:
    W, b = layers(theta, sizes)[-1]
    output: Tensor = _last_hidden(theta, observation, sizes) @ W + b
    return output


def _forward(theta: Vector, observation: Array, sizes: tuple[int, ...]) -> Vector:
    """The network in NumPy, each row by itself: a product of all rows at once may round a row otherwise when the
    others change."""
    x = observation.reshape(len(observation), 1, -1).astype(np.float64)
    *hidden, (W, b) = layers(theta, sizes)
    for V, c in hidden:
        x = np.tanh(x @ V + c)
    output: Vector = (x @ W + b)[:, 0]
    return output


def _init(rng: np.random.Generator, sizes: tuple[int, ...]) -> Vector:
    """Weights N(0, 0.5^2) in the hidden layers and N(0, 0.1^2) in the last; biases 0."""
    parts = []
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        std = 0.1 if layer == len(sizes) - 2 else 0.5
        parts += [std * rng.standard_normal(inputs * outputs), np.zeros(outputs)]
    return np.concatenate(parts)


def _dim(sizes: tuple[int, ...]) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


def _blocks(sizes: tuple[int, ...], dim: int) -> Mapping[str, slice]:
    body = _dim(sizes[:-1])
    return {"body": slice(0, body), "head": slice(body, dim)}


@dataclass(frozen=True)
class MLPSoftmax:
    """pi(.|x) = softmax of a tanh network."""

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
        return _dim(self.sizes)

    @property
    def blocks(self) -> Mapping[str, slice]:
        """``body`` and ``head`` of theta."""
        return _blocks(self.sizes, self.dim)

    def scores(self) -> ScoreBounds:
        """Those of the output layer alone, where there is a hidden one."""
        if not self.hidden:
            return UNBOUNDED
        B = math.sqrt(self.hidden[-1] + 1)
        caveat = _OUTPUT_LAYER_ALONE.format(features=self.hidden[-1] + 1, B=B)
        return ScoreBounds(log_linear_scores(B), None, caveat)

    def init(self, rng: np.random.Generator) -> Vector:
        """Weights N(0, 0.5^2), in the last layer N(0, 0.1^2); biases 0."""
        return _init(rng, self.sizes)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """One uniform number an action."""
        return rng.random(shape)

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """The action whose cumulative probability first exceeds the uniform number."""
        return categorical(_forward(theta, observation, self.sizes), noise)

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """log softmax(network(x))_a."""
        return categorical_log_prob(_mlp(theta, observation, self.sizes), action)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """The last hidden layer."""
        return _last_hidden(theta, observation, self.sizes)


@dataclass(frozen=True)
class MLPMultiSoftmax:
    """For several choices at once (gymnasium's MultiDiscrete): independent softmaxes of one tanh network.

    choices: how many actions each choice has; an action is one whole number for each.
    """

    inputs: int
    choices: tuple[int, ...]
    hidden: tuple[int, ...] = (32,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer widths, inputs first."""
        return (self.inputs, *self.hidden, sum(self.choices))

    @property
    def dim(self) -> int:
        """d = the network's parameters."""
        return _dim(self.sizes)

    @property
    def blocks(self) -> Mapping[str, slice]:
        """``body`` and ``head`` of theta."""
        return _blocks(self.sizes, self.dim)

    def init(self, rng: np.random.Generator) -> Vector:
        """As MLPSoftmax."""
        return _init(rng, self.sizes)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """One uniform number a choice."""
        return rng.random((*shape, len(self.choices)))

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """Of each choice the action whose cumulative probability first exceeds its uniform number."""
        logits = self._split(_forward(theta, observation, self.sizes))
        return np.stack([categorical(part, u) for part, u in zip(logits, noise.T, strict=True)], axis=-1)

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """The sum of the choices' log-probabilities."""
        import torch

        logits = self._split(_mlp(theta, observation, self.sizes))
        parts = [categorical_log_prob(part, action[:, i]) for i, part in enumerate(logits)]
        return torch.stack(parts, -1).sum(-1)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """The last hidden layer."""
        return _last_hidden(theta, observation, self.sizes)

    def _split(self, logits: Any) -> Sequence[Any]:
        ends = np.cumsum(self.choices).tolist()
        return [logits[:, start:end] for start, end in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True)
class MLPGaussian:
    """pi(.|x) = N(network(x), diag(std)^2) for continuous actions.

    std: the fixed standard deviation; None: learned, one log_std an action coordinate at the end of theta. What an
    environment is given may be clipped or squashed; the density is that of what was drawn.
    """

    inputs: int
    actions: int
    hidden: tuple[int, ...] = (32,)
    std: float | None = None

    def __post_init__(self) -> None:
        if self.std is not None and not 0 < self.std < math.inf:
            raise ValueError(f"std = {self.std}: give a number above 0, or leave it out to learn it")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer widths, inputs first."""
        return (self.inputs, *self.hidden, self.actions)

    @property
    def dim(self) -> int:
        """d = the network's parameters and, where it is learned, log_std."""
        return _dim(self.sizes) + (self.actions if self.std is None else 0)

    @property
    def blocks(self) -> Mapping[str, slice]:
        """``body`` and ``head`` of theta."""
        return _blocks(self.sizes, self.dim)

    def init(self, rng: np.random.Generator) -> Vector:
        """The network as MLPSoftmax; log_std = 0."""
        return np.concatenate([_init(rng, self.sizes), np.zeros(self.dim - _dim(self.sizes))])

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """One standard normal number an action coordinate."""
        return rng.standard_normal((*shape, self.actions))

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """mean + std x noise."""
        network = _dim(self.sizes)
        std = np.exp(theta[network:]) if self.std is None else self.std
        action: Vector = _forward(theta[:network], observation, self.sizes) + std * noise
        return action

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """The Gaussian log density, summed over the action's coordinates."""
        network = _dim(self.sizes)
        log_std = theta[network:] if self.std is None else theta.new_full((self.actions,), math.log(self.std))
        return gaussian_log_prob(_mlp(theta[:network], observation, self.sizes), log_std, action)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """The last hidden layer."""
        return _last_hidden(theta[: _dim(self.sizes)], observation, self.sizes)
