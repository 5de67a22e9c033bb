"""One trial: Tune's class Trainable is the driver actor that plays the server; its agent actors live in its placement
group. Both are reused from trial to trial."""

from __future__ import annotations

import time
from typing import Any

from ray import tune
from ray.exceptions import RayError

from raypfrl.federation.actors import AgentActor, NoRoom, OnActors
from raypfrl.federation.train import Metrics, Training
from raypfrl.oracles import AgentError
from raypfrl.sweeps.plan import Run
from raypfrl.sweeps.results import pack, unpack
from raypfrl.text import cause


class Trial(tune.Trainable):
    """Each step runs up to the next evaluation. ``config["run"]`` says of what; the driver keeps the checkpoints, so
    Tune stores none and no disk is shared."""

    host = AgentActor
    _training: Training | None

    def setup(self, config: dict[str, Any], actors: int = 1) -> None:
        """Start the agent actors, once, and the first trial."""
        self._actors = [self.host.remote() for _ in range(actors)]
        self._begin(config["run"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """The next trial in the same actors."""
        self._begin(new_config["run"])
        return True

    def step(self) -> dict[str, Any]:
        """The metrics of the next evaluation, with the checkpoint that the driver writes."""
        start, training = time.perf_counter(), self._training
        try:
            if training is None:
                self._training = training = Training(*self._run)
            metrics: Metrics = next(training)
        except (NoRoom, RayError, MemoryError):  # placing the trial anew can help; Tune does that
            raise
        except Exception as error:  # the next try would end as this one: its own first cause says more
            why = str(error) if isinstance(error, AgentError) else cause(error)
            counts = training.counts() if training else {"round": 0, "kernel_seconds": 0.0, "evaluation_seconds": 0.0}
            metrics = counts | {"status": "failed", "message": why, "evaluations": ()}
        metrics["log"] = tuple(self._said)
        self._said.clear()
        if training and metrics["status"] != "failed":  # tried again, it goes on from its last evaluation
            metrics["checkpoint"] = pack(training.state())
        metrics["busy_seconds"] = time.perf_counter() - start
        return metrics | {"done": metrics["status"] != "running", "timesteps_total": metrics["round"]}

    def cleanup(self) -> None:
        """Let the agent actors go."""
        self._actors.clear()

    def _begin(self, run: Run) -> None:
        self.config = {}  # else it would come back with every result
        config, said = run.config, list[str]()
        agents = OnActors(config, self._actors, self.host.remote, said.append) if self._actors else None
        self._said, self._run = said, (config, agents, unpack(run.state) if run.state else None)
        self._training = None
