"""How Tune gets a sweep's trials: one by one, each when there is a place for it.

Tune's own grids would copy the whole sweep once a trial, and its record of the sweep would hold all settings and every
theta. Here nothing is copied or looked through once a trial, and Tune keeps no more of an ended one than its key: the
results are what ``results.py`` writes.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ray.tune.experiment import Trial as Place
from ray.tune.search import SearchAlgorithm
from ray.tune.stopper import Stopper

from raypfrl.config import RunConfig

RESTARTS = 5  # how often a trial's own process is started again before the trial counts as failed


@dataclasses.dataclass(frozen=True)
class Run:
    """What a trial's process is told: the settings, which bring the user's files along, and the checkpoint that it goes
    on from."""

    config: RunConfig
    state: bytes | None

    def __deepcopy__(self, memo: object) -> Run:
        """Tune copies what it sends, in depth: not this, which nobody changes."""
        return self


class Planned(Place):
    """A trial as Tune's driver knows it; ``trial_id`` is the trial's key."""

    storage: Any
    relative_logdir: Any

    def __init__(self, key: str, run: Run, spec: dict[str, Any]) -> None:
        super().__init__(
            spec["run"],
            config={"run": run},
            trial_id=key,
            storage=spec["storage"],
            checkpoint_config=spec["checkpoint_config"],
            max_failures=RESTARTS,
        )

    def init_local_path(self) -> None:
        """One folder for all trials: nothing of Tune's own outlives the sweep."""
        self.relative_logdir = "trials"
        self.storage.trial_dir_name = self.relative_logdir
        super().init_local_path()  # type: ignore[no-untyped-call]

    def get_json_state(self) -> tuple[str, str]:
        """Nothing: raypfrl goes on from its own results."""
        return "{}", "{}"

    def restart(self, state: bytes | None) -> None:
        """Go on from ``state`` when there is a place again."""
        self.config = {"run": dataclasses.replace(self.config["run"], state=state)}

    def forget(self) -> None:
        """Keep the key and how it ended: Tune holds on to this object until the sweep ends."""
        self.__dict__ = {name: self.__dict__[name] for name in ("trial_id", "status", "trainable_name")}


class Plan(SearchAlgorithm):
    """Tune's search algorithm that gives the planned trials in their order, at most ``at_once`` at a time (None: as
    many as Tune wants), until ``over``. ``state`` gives the checkpoint of a trial that was begun."""

    def __init__(
        self,
        configs: Iterable[RunConfig],
        at_once: int | None,
        state: Callable[[str], bytes | None],
        over: threading.Event,
    ) -> None:
        self._left = list(configs)[::-1]
        self._at_once, self._live, self._state = at_once, 0, state
        self._count, self._over = len(self._left), over
        self._spec: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles what it is given: nobody reads that."""
        return {}

    @property
    def total_samples(self) -> int:
        """How many trials there are in all."""
        return self._count

    def add_configurations(self, experiments: Any) -> None:
        """What Tune made of the trainable, its resources and its storage."""
        (experiment,) = experiments
        self._spec = experiment.spec

    def next_trial(self) -> Planned | None:
        """The next trial in order; None where all places are taken, or none is left."""
        if self.is_finished() or (self._at_once and self._live >= self._at_once):
            return None
        config = self._left.pop()
        self._live += 1
        key = config.key()
        return Planned(key, Run(config, self._state(key)), self._spec)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Its place is free."""
        self._live -= 1

    def is_finished(self) -> bool:
        """Whether no trial is left to be given."""
        return self._over.is_set() or not self._left


class Until(Stopper):
    """Ends what runs, too, once it is ``over``."""

    def __init__(self, over: threading.Event) -> None:
        self._over = over

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles what it is given: nobody reads that."""
        return {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No trial ends by itself here."""
        return False

    def stop_all(self) -> bool:
        """Whether it is over."""
        return self._over.is_set()
