"""One trial: Tune's class Trainable is the driver actor that plays the server; its agent actors live in its placement
group. Both are reused from trial to trial."""

from __future__ import annotations

import time
from typing import Any

from ray import tune

from raypfrl.config import RunConfig
from raypfrl.federation.actors import AgentActor, NoRoom, OnActors
from raypfrl.federation.train import Training
from raypfrl.oracles import AgentError
from raypfrl.sweeps.results import pack, unpack


class Trial(tune.Trainable):
    """Each step runs up to the next evaluation. ``config["run"]`` holds the run's ``settings`` and, where it goes on
    from a checkpoint, the ``state``: the driver keeps the checkpoints, so Tune stores none and no disk is shared."""

    host = AgentActor

    def setup(self, config: dict[str, Any], actors: int = 1) -> None:
        """Start the agent actors, once, and the first trial."""
        self._actors = [self.host.remote() for _ in range(actors)]
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """The next trial in the same actors."""
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """The metrics of the next evaluation, with the checkpoint that the driver writes."""
        start = time.perf_counter()
        try:
            metrics = next(self._training)
        except NoRoom:  # placing the trial anew can help; Tune does that
            raise
        except AgentError as error:  # its own first cause says more than Tune's repeats would
            metrics = self._training.counts() | {"status": "failed", "message": str(error), "evaluations": ()}
        metrics["log"] = tuple(self._said)
        self._said.clear()
        metrics["evaluations"] = tuple(metrics["evaluations"])  # a list would be taken for a histogram
        if metrics["status"] != "failed":  # tried again, it goes on from its last evaluation
            metrics["checkpoint"] = pack(self._training.state())
        metrics["busy_seconds"] = time.perf_counter() - start
        return metrics | {"done": metrics["status"] != "running", "timesteps_total": metrics["round"]}

    def cleanup(self) -> None:
        """Let the agent actors go."""
        self._actors.clear()

    def _begin(self, config: dict[str, Any]) -> None:
        run, said = config["run"], list[str]()
        settings, state = RunConfig(**run["settings"]), unpack(run["state"]) if run["state"] else None
        agents = OnActors(settings, self._actors, self.host.remote, said.append) if self._actors else None
        self._said, self._training = said, Training(settings, agents, state)
