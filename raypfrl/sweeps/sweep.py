"""A sweep as data: base settings, grids over any of them, seeds. No Ray here."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raypfrl.config import RunConfig, SettingsError, did_you_mean
from raypfrl.streams import SERVER, Purpose, Stream

Settings = Mapping[str, Any]
MOST = 1_000_000  # seeds of a point, and points drawn from samplers


@dataclass(frozen=True)
class Sweep:
    """All points of ``grids`` on top of ``base``, each with every seed.

    In a grid a list is a choice of values (their product is taken) and anything else, a tuple too, is one value. A
    value may also be one of Ray Tune's samplers (``tune.uniform(0, 3)``): then ``samples`` points are drawn from keyed
    streams, the same ones each time. ``seeds`` counts from 0. ``against`` is the setting on the x axis of the sweep's
    dashboard; left out, it is the first that is swept.
    """

    base: Settings
    grids: Sequence[Settings] = field(default_factory=lambda: ({},))
    seeds: int = 10
    samples: int = 1
    against: str = ""

    def __post_init__(self) -> None:
        """Raise SettingsError for what is no sweep."""
        grids = self.grids if isinstance(self.grids, list | tuple) else [None]
        if not all(
            isinstance(settings, Mapping) and all(isinstance(name, str) for name in settings)
            for settings in (self.base, *grids)
        ):
            raise SettingsError("base is one dict of settings by name, grids a list of such dicts")
        if any("seed" in settings for settings in (self.base, *grids)):
            raise SettingsError("seed: a sweep counts its seeds itself; give seeds, how many")
        for name in ("seeds", "samples"):
            if not isinstance(getattr(self, name), int) or not 1 <= getattr(self, name) <= MOST:
                raise SettingsError(f"{name} = {getattr(self, name)!r}: give a number from 1 to {MOST}")
        if self.against and self.against not in RunConfig.model_fields:
            raise SettingsError(did_you_mean("setting", self.against, RunConfig.model_fields))

    def points(self) -> list[Settings]:
        """Every point of every grid, without the seed, in the order of the file. Raises SettingsError for none."""
        self._refuse_empty()
        points = []
        for grid in self.grids:
            merged = {**self.base, **grid}
            choices = [value if isinstance(value, list) else [value] for value in merged.values()]
            points += [dict(zip(merged, combination, strict=True)) for combination in itertools.product(*choices)]
        return [drawn for number, point in enumerate(points) for drawn in self._draw(point, number)]

    def trials(self, seeds: Sequence[int] | None = None) -> list[RunConfig]:
        """One RunConfig a trial, seeds innermost. Raises SettingsError for the first that cannot be run."""
        named = range(self.seeds) if seeds is None else seeds
        if len(named) > MOST:
            raise SettingsError(f"{len(named)} seeds: give at most {MOST}")
        configs = [RunConfig(**{**point, "seed": seed}) for point in self.points() for seed in named]
        return list({config.key(): config for config in configs}.values())

    def swept(self) -> tuple[str, ...]:
        """The settings that tell the points apart."""
        return telling(self.points())

    def with_settings(self, settings: Settings) -> Sweep:
        """The sweep with ``settings`` in place of whatever it says of them."""
        for name in settings:
            if name not in RunConfig.model_fields:
                raise SettingsError(did_you_mean("setting", name, RunConfig.model_fields))
        if "seed" in settings:
            raise SettingsError("--set seed: a sweep takes its seeds by --seeds, e.g. --seeds 3,5")
        grids = [{name: value for name, value in grid.items() if name not in settings} for grid in self.grids]
        return dataclasses.replace(self, base={**self.base, **settings}, grids=_distinct(grids))

    def smoke(self) -> Sweep:
        """The first point of every grid for two short rounds: shows in seconds that the sweep runs."""
        self._refuse_empty()
        grids = [{k: v[0] if isinstance(v, list) else v for k, v in {**self.base, **g}.items()} for g in self.grids]
        short = {"rounds": 2, "tau": 1, "evaluate": 1, "m_eval": 8}
        return dataclasses.replace(self, base={}, grids=[{**grid, **short} for grid in grids], seeds=1, samples=1)

    def _refuse_empty(self) -> None:
        if empty := [name for grid in self.grids for name, value in {**self.base, **grid}.items() if value == []]:
            raise SettingsError(f"{empty[0]} = []: give at least one value")
        if not self.grids:
            raise SettingsError("grids = []: give at least one grid, or leave it out")

    def _draw(self, point: Settings, number: int) -> Iterator[Settings]:
        samplers = {name: value for name, value in point.items() if hasattr(value, "sample")}
        if not samplers:
            yield point
            return
        for sample in range(self.samples):
            rng = Stream(number, SERVER, sample, 0, Purpose.SEARCH).generator()
            drawn = {name: sampler.sample(random_state=rng) for name, sampler in samplers.items()}
            yield {**point, **{name: getattr(value, "item", lambda v=value: v)() for name, value in drawn.items()}}


def telling(points: Sequence[Settings], first: Sequence[str] = ()) -> tuple[str, ...]:
    """The settings that tell the points apart, as few as will do: rounds is not among them where tau implies it. Those
    named ``first`` are tried first."""
    told: list[str] = []
    groups = 1
    for name in dict.fromkeys(("method", *first, *(name for point in points for name in point))):
        finer = len({tuple(repr(point.get(each)) for each in (*told, name)) for point in points})
        if finer > groups:
            told, groups = [*told, name], finer
    return tuple(told)


def _distinct(grids: Sequence[Settings]) -> Sequence[Settings]:
    """The grids without repeats, which replacing a setting can leave behind."""
    return [grid for number, grid in enumerate(grids) if grid not in grids[:number]]


def load(path: Path) -> Sweep:
    """The ``SWEEP`` of a sweep file. Raises SettingsError for a file that is no sweep."""
    if not path.is_file():
        raise SettingsError(f"{path}: no such file; `raypfrl list` in the checkout shows the sweeps that come with it")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise SettingsError(f"{path}: not a sweep; a sweep is a Python file that sets SWEEP = Sweep(...)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise SettingsError(f"{path}: does not run: {type(error).__name__}: {' '.join(str(error).split())}") from error
    sweep = getattr(module, "SWEEP", None)
    if not isinstance(sweep, Sweep):
        raise SettingsError(f"{path}: not a sweep; a sweep is a Python file that sets SWEEP = Sweep(...)")
    return sweep
