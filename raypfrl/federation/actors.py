"""Ray actors that host agents, behind the same two methods as ``InProcess``. No mathematics here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import ray
from ray.actor import ActorHandle

from raypfrl.config import RunConfig
from raypfrl.federation.agent import Evaluation, Update
from raypfrl.federation.server import Array
from raypfrl.federation.train import InProcess

T = TypeVar("T")


class AgentHost:
    """Hosts one agent or several. It keeps nothing that a restart would lose: the settings travel with every call, and
    the agents built from them are only a cache."""

    def __init__(self) -> None:
        self._config: RunConfig | None = None
        self._agents: InProcess | None = None

    def local_updates(self, config: RunConfig, numbers: list[int], theta: Array, round: int) -> list[Update]:
        """The local updates of the agents that this actor hosts, in order."""
        return self._hosted(config).local_updates(numbers, theta, round)

    def evaluations(self, config: RunConfig, numbers: list[int], theta: Array, round: int) -> list[Evaluation]:
        """The evaluations of the agents that this actor hosts, in order."""
        return self._hosted(config).evaluations(numbers, theta, round)

    def about(self) -> dict[str, Any]:
        """What runs here: the modules and threads that cost something."""
        import sys

        torch = sys.modules.get("torch")
        return {
            "torch_threads": torch.get_num_threads() if torch else None,
            "python_threads": threading.active_count(),
        }

    def _hosted(self, config: RunConfig) -> InProcess:
        if self._agents is None or self._config != config:
            self._config, self._agents = config, InProcess(config)
        return self._agents


# A killed actor is started again and its call repeated, which gives the same bytes; a bounded number of times.
AgentActor: Any = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=3)(AgentHost)


class OnActors:
    """The agents of a run spread evenly over actors, neighbours together. Answers come in agent order, whichever
    actor is first."""

    def __init__(self, config: RunConfig, actors: Sequence[ActorHandle[Any]]) -> None:
        self._config, self._actors = config, actors

    def local_updates(self, numbers: Sequence[int], theta: Array, round: int) -> list[Update]:
        """Every named agent's ``Agent.local_update``."""
        return self._spread(lambda actor: actor.local_updates, numbers, theta, round)

    def evaluations(self, numbers: Sequence[int], theta: Array, round: int) -> list[Evaluation]:
        """Every named agent's ``Agent.evaluate``."""
        return self._spread(lambda actor: actor.evaluations, numbers, theta, round)

    def _spread(self, verb: Callable[[Any], Any], numbers: Sequence[int], theta: Array, round: int) -> list[Any]:
        calls = []
        for actor, part in zip(self._actors, np.array_split(np.arange(len(numbers)), len(self._actors)), strict=True):
            if len(part):
                hosted = [numbers[i] for i in part]
                calls.append(verb(actor).remote(self._config, hosted, theta if theta.ndim == 1 else theta[part], round))
        return [answer for answers in ray.get(calls) for answer in answers]
