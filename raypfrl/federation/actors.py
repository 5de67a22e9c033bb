"""Ray actors that host agents, behind the same two methods as ``InProcess``. No mathematics here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import ray
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayActorError, RayError, RayTaskError

from raypfrl.config import RunConfig
from raypfrl.federation.agent import Evaluation, Update
from raypfrl.federation.server import Call
from raypfrl.federation.train import InProcess
from raypfrl.oracles import AgentError, Diverged
from raypfrl.text import cause

TRIES = 3  # how often a call is made whose actor dies or does not answer in time
START_SECONDS = 120.0  # how long an actor may take to start, or to compile in its first call: far above what it needs


class NoRoom(AgentError):
    """A lost actor's replacement finds no place, as after the loss of a node: the trial has to be placed anew."""


class AgentHost:
    """Hosts one agent or several. It keeps nothing that a restart would lose: the settings travel with every call, and
    the agents built from them are only a cache."""

    def __init__(self) -> None:
        self._config: RunConfig | None = None
        self._agents: InProcess | None = None

    def answers(self, config: RunConfig, calls: list[Call], round: int, phase: int) -> list[Update]:
        """The replies of the agents that this actor hosts, in order."""
        with _told():
            return self._hosted(config).answers(phase, round, calls)

    def evaluations(self, config: RunConfig, calls: list[Call], round: int) -> list[Evaluation]:
        """The evaluations of the agents that this actor hosts, in order."""
        with _told():
            return self._hosted(config).evaluations(round, calls)

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


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """An error leaves the process as its kind and text alone: its cause may be of a kind that cannot be pickled, or
    say what cannot be encoded, and would take the process with it."""
    try:
        yield
    except (AgentError, Diverged) as error:
        raise type(error)(*error.args) from None
    except Exception as error:
        raise AgentError(cause(error)) from None


# Ray itself repeats nothing: ``OnActors`` does, with a bound in number and in time, and says so.
AgentActor: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(AgentHost)


class OnActors:
    """The agents of a run spread evenly over actors, neighbours together. Answers come in agent order, whichever
    actor is first.

    An actor that dies, or that has not answered after ``round_timeout`` seconds, is replaced in ``actors`` by what
    ``start`` gives, and its call is made again with the same arguments, which gives the same bytes. ``say`` gets a
    line about it. Raises AgentError after ``TRIES`` calls, NoRoom where a replacement cannot be placed.
    """

    def __init__(
        self,
        config: RunConfig,
        actors: list[ActorHandle[Any]],
        start: Callable[[], ActorHandle[Any]] = AgentActor.remote,
        say: Callable[[str], None] = print,
    ) -> None:
        self._config, self._actors, self._start, self._say = config, actors, start, say
        self._answered = set[tuple[int, str]]()  # (place, verb): what an actor has not done yet it may have to compile

    def answers(self, phase: int, round: int, calls: Sequence[Call]) -> Sequence[Update | None]:
        """Every called agent's ``Agent.answer``. With ``min_agents`` of them or more, None stands for those whose actor
        died or was late."""
        return self._spread("answers", calls, self._config.min_agents or len(calls), round, phase)

    def evaluations(self, round: int, calls: Sequence[Call]) -> list[Evaluation]:
        """Every called agent's ``Agent.evaluate``."""
        return self._spread("evaluations", calls, len(calls), round)

    def _spread(self, verb: str, calls: Sequence[Call], needed: int, round: int, *more: int) -> list[Any]:
        parts = [part for part in np.array_split(np.arange(len(calls)), len(self._actors)) if len(part)]
        answers: dict[int, list[Any]] = {}
        for _ in range(TRIES):
            sent: dict[int, Any] = {}
            for place, part in enumerate(parts):
                if place not in answers:
                    hosted = [calls[i] for i in part]
                    sent[place] = getattr(self._actors[place], verb).remote(self._config, hosted, round, *more)
            lost = self._collect(verb, sent, answers)
            enough = sum(len(answer) for answer in answers.values()) >= needed
            for place, why in lost.items():
                where = f"agents {', '.join(str(calls[i].agent) for i in parts[place])}, round {round}"
                self._say(f"{where}: {why}; actor {place} replaced, " + ("left out" if enough else "called again"))
                self._replace(place)
            if enough:
                return [a for place, part in enumerate(parts) for a in answers.get(place, [None] * len(part))]
        raise AgentError(f"{where}: {why}, {TRIES} times out of {TRIES}")

    def _collect(self, verb: str, calls: dict[int, Any], answers: dict[int, list[Any]]) -> dict[int, str]:
        """Wait for the calls; fill in their answers; what was lost, and why. An agent's own error is raised, the first
        in agent order."""
        first = any((place, verb) not in self._answered for place in calls)
        patience = self._config.round_timeout + START_SECONDS * first
        ray.wait(list(calls.values()), num_returns=len(calls), timeout=patience)
        lost = {}
        for place, call in calls.items():
            try:
                answers[place] = ray.get(call, timeout=0)
                self._answered.add((place, verb))
            except RayTaskError as error:
                raise error.cause from None
            except (RayActorError, OutOfMemoryError, GetTimeoutError) as error:
                lost[place] = self._reason(error)
        return lost

    def _reason(self, error: RayError) -> str:
        if isinstance(error, GetTimeoutError):
            return f"no answer within round_timeout = {self._config.round_timeout:g} s"
        if isinstance(error, OutOfMemoryError) or "running low on memory" in str(error):
            return "their process was killed because memory ran out"
        return "their node died" if "node has died" in str(error) else "their process died"

    def _replace(self, place: int) -> None:
        ray.kill(self._actors[place])
        self._actors[place] = self._start()
        self._answered = {(other, verb) for other, verb in self._answered if other != place}
        try:
            ray.get(self._actors[place].about.remote(), timeout=START_SECONDS)
        except (GetTimeoutError, RayActorError) as error:
            raise NoRoom(f"the replacement of actor {place} did not start within {START_SECONDS:g} s") from error
