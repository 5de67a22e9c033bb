"""A torch module of the user's own as a policy, through torch.func."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from raypfrl.policies.distributions import categorical, categorical_log_prob, gaussian_log_prob
from raypfrl.policies.policy import Array, Vector

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@dataclass(frozen=True)
class ModulePolicy:
    """pi(.|x) with what a module makes of x: logits (``gaussian`` false), or the mean of N(mean, std^2).

    make: builds the module, e.g. ``partial(MyNet, 4, 2)``; a name of a module's top level, so that it can be sent to
    other processes. Its forward takes observations (batch, ...) in float64 and gives (batch, outputs). It is put into
    evaluation mode: what a decision is must not depend on the batch, and theta is all that is learned.
    outputs: logits, or coordinates of an action. std: as in ``MLPGaussian``. device: where batches go through the
    module for gradients and Hessian products, as torch names it; decisions are taken on the CPU, one row at a time.
    Other devices round otherwise, so that the bytes of a run are those of its device.

    Raises ValueError for a device that is not there.
    """

    make: Callable[[], Module]
    outputs: int
    gaussian: bool = False
    std: float | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Look for the device."""
        if self.device != "cpu":
            import torch

            try:
                torch.empty(0, device=self.device)
            except (RuntimeError, AssertionError) as error:  # torch says either, of what it was built without
                why = str(error).strip().partition("\n")[0]
                raise ValueError(f"device = {self.device!r} is not there; give 'cpu' ({why})") from None

    @property
    def dim(self) -> int:
        """d = the module's parameters and, where it is learned, log_std."""
        return sum(p.numel() for p in _built(self.make, "cpu").parameters()) + self._learned

    @property
    def _learned(self) -> int:
        return self.outputs if self.gaussian and self.std is None else 0

    def init(self, rng: np.random.Generator) -> Vector:
        """The module's own initialisation, drawn from a seed of ``rng``; log_std = 0."""
        import torch

        with torch.random.fork_rng(devices=[]):  # a module draws from torch's generator; it is left as it was
            torch.manual_seed(int(rng.integers(2**63)))
            parameters = [p.detach().double().numpy().reshape(-1) for p in self.make().parameters()]
        return np.concatenate([*parameters, np.zeros(self._learned)])

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Vector:
        """One standard normal number an action coordinate, or one uniform number an action."""
        return rng.standard_normal((*shape, self.outputs)) if self.gaussian else rng.random(shape)

    def act(self, theta: Vector, observation: Array, noise: Vector) -> Array:
        """As MLPGaussian or MLPSoftmax. The module sees one row at a time, so that no row rounds another."""
        import torch

        with torch.inference_mode():
            parameters, seen = torch.tensor(theta), torch.tensor(observation)
            rows = [self._forward(parameters, row[None], "cpu").numpy() for row in seen]
        output = np.concatenate(rows)
        if not self.gaussian:
            return categorical(output, noise)
        log_std = theta[theta.size - self._learned :]
        action: Vector = output + (np.exp(log_std) if self.std is None else self.std) * noise
        return action

    def log_prob(self, theta: Tensor, observation: Tensor, action: Tensor) -> Tensor:
        """As MLPGaussian or MLPSoftmax."""
        output = self._forward(theta, observation, self.device)
        if not self.gaussian:
            return categorical_log_prob(output, action)
        learned = theta[len(theta) - self._learned :]
        log_std = learned if self.std is None else theta.new_full((self.outputs,), math.log(self.std))
        return gaussian_log_prob(output, log_std, action)

    def state_features(self, theta: Tensor, observation: Tensor) -> Tensor:
        """The observation itself."""
        return observation.reshape(len(observation), -1).to(theta.dtype)

    def _forward(self, theta: Tensor, observation: Tensor, device: str) -> Tensor:
        from torch.func import functional_call

        module, at, parameters, there = _built(self.make, device), 0, dict[str, Any](), theta.to(device)
        for name, p in module.named_parameters():
            parameters[name] = there[at : at + p.numel()].reshape(p.shape)
            at += p.numel()
        output: Tensor = functional_call(module, parameters, (observation.to(device, theta.dtype),)).to(theta.device)
        if output.shape != (len(observation), self.outputs):
            raise ValueError(
                f"the module gives {tuple(output.shape)} for {len(observation)} observations; "
                f"outputs = {self.outputs} asks for {(len(observation), self.outputs)}"
            )
        return output


@lru_cache(maxsize=8)
def _built(make: Callable[[], Module], device: str) -> Module:
    import torch

    with torch.random.fork_rng(devices=[]):
        return make().double().to(device).eval()
