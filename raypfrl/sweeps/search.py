"""Points that are looked for: Optuna, through Tune, proposes them from what earlier ones gave.

A batch of points is asked for at once, and the next one when all of its trials have ended. So the points depend on
results only, which are the same on any machine: an interrupted search goes on with the points that it would have found.
(But for trials that failed: what they give when they are tried again was not known to the points after them.)
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from raypfrl.config import RunConfig
from raypfrl.settings import SettingsError
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.sweep import Sweep, is_sampler

BATCH = 8  # points of a study that are asked for at once
SCORE = "after/return"  # of a point: the median over its seeds


class Search:
    """The trials of a sweep whose samplers span a space. Every choice of what is listed has a study of its own, of
    ``samples`` points, so that methods are compared at their best.

    Raises SettingsError without Optuna, for a sweep that draws nothing, and for a sampler that Optuna has not.
    """

    def __init__(self, sweep: Sweep, seeds: Sequence[int] | None = None) -> None:
        self._seeds = range(sweep.seeds) if seeds is None else seeds
        self._samples, self._asked = sweep.samples, 0
        self._studies = [_Study(number, point) for number, point in enumerate(sweep.undrawn())]
        self.trials: dict[str, RunConfig] = {}

    @property
    def unasked(self) -> int:
        """How many trials are still to be asked for, at most."""
        return (self._samples - self._asked) * len(self._studies) * len(self._seeds)

    def grow(self, results: Results) -> list[RunConfig]:
        """Once all trials have ended: the next ones that have not; none where every study has its samples."""
        more: list[RunConfig] = []
        while not more and self._asked < self._samples and all(results.row(key) for key in self.trials):
            count = min(BATCH, self._samples - self._asked)
            for study in self._studies:
                study.tell(results)
                for config in study.ask(count, self._seeds):
                    if config.key() not in self.trials:
                        self.trials[config.key()] = config
                        more += [config] * (results.row(config.key()) is None)
            self._asked += count
        return more


class _Study:
    """One search: ``point`` says what is fixed and what is drawn, and names its random numbers by ``number``."""

    def __init__(self, number: int, point: Mapping[str, Any]) -> None:
        drawn = {name: value for name, value in point.items() if is_sampler(value)}
        if not drawn:
            raise SettingsError("--search: this sweep draws nothing; give a setting a sampler, e.g. tune.uniform(0, 3)")
        try:
            import optuna
            from ray.tune.search.optuna import OptunaSearch
        except ImportError:
            raise SettingsError("--search optuna needs Optuna: pip install 'raypfrl[search]'") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            space = OptunaSearch.convert_search_space(drawn)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"--search optuna: {error}; choose another sampler, or leave --search out") from None
        self._fixed = {name: value for name, value in point.items() if name not in drawn}
        self._search: Any = OptunaSearch(space, metric=SCORE, mode="max", seed=number)
        self._open: dict[str, list[str]] = {}  # trials of every point that was asked for, and whose score was not told
        self._count = 0

    def ask(self, points: int, seeds: Sequence[int]) -> list[RunConfig]:
        """The trials of the next points. Raises SettingsError for a point that cannot be run."""
        configs = []
        for _ in range(points):
            name, self._count = str(self._count), self._count + 1
            settings = {**self._fixed, **self._search.suggest(name)}
            of_point = [RunConfig(**{**settings, "seed": seed}) for seed in seeds]
            self._open[name] = [config.key() for config in of_point]
            configs += of_point
        return configs

    def tell(self, results: Results) -> None:
        """The scores of the points that were asked for. One that lost all its seeds counts as worse than any other."""
        for name, keys in self._open.items():
            rows = [row for key in keys if (row := results.row(key)) and row["status"] in ("finished", "stopped")]
            scores = [float(row[SCORE]) for row in rows if row.get(SCORE)]
            self._search.on_trial_complete(name, {SCORE: statistics.median(scores)} if scores else None)
        self._open.clear()
