"""One trial: Tune's class Trainable is the driver actor that plays the server; its agent actors live in its placement
group. Both are reused from trial to trial."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import tune

from raypfrl.config import RunConfig
from raypfrl.federation.actors import AgentActor, OnActors
from raypfrl.federation.train import Training
from raypfrl.oracles import AgentError
from raypfrl.sweeps.results import pack, unpack


class Trial(tune.Trainable):
    """Each step runs up to the next evaluation. ``config["run"]["settings"]`` holds the run's settings.

    states: the checkpoints of trials that an earlier start left unfinished, by trial.
    """

    def setup(self, config: dict[str, Any], actors: int = 1, states: Mapping[str, bytes] | None = None) -> None:
        """Start the agent actors, once, and the first trial."""
        self._states = states or {}
        self._actors = [AgentActor.remote() for _ in range(actors)]
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
        except AgentError as error:  # its own first cause says more than Tune's repeats would
            metrics = self._training.counts() | {"status": "failed", "message": str(error), "evaluations": ()}
        metrics["evaluations"] = tuple(metrics["evaluations"])  # a list would be taken for a histogram
        metrics["checkpoint"] = pack(self._training.state())
        metrics["busy_seconds"] = time.perf_counter() - start
        return metrics | {"done": metrics["status"] != "running", "timesteps_total": metrics["round"]}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """What Tune restarts from when this actor dies."""
        Path(checkpoint_dir, "state.npz").write_bytes(pack(self._training.state()))

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on where ``save_checkpoint`` stood."""
        self._training = self._at(unpack(Path(checkpoint, "state.npz").read_bytes()))

    def cleanup(self) -> None:
        """Let the agent actors go."""
        self._actors.clear()

    def _begin(self, config: dict[str, Any]) -> None:
        self._config = RunConfig(**config["run"]["settings"])
        saved = self._states.get(self._config.key())
        self._training = self._at(unpack(saved) if saved else None)

    def _at(self, state: dict[str, Any] | None) -> Training:
        agents = OnActors(self._config, self._actors) if self._actors else None
        return Training(self._config, agents, state)
