"""A sweep as data: base settings, grids over any of them, seeds. No Ray here."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raypfrl.config import RunConfig, every_setting, known
from raypfrl.methods import METHODS
from raypfrl.populations import POPULATIONS
from raypfrl.settings import SettingsError, did_you_mean
from raypfrl.streams import SERVER, Purpose, Stream
from raypfrl.uses import use

Settings = Mapping[str, Any]
MOST = 1_000_000  # seeds of a point, and points drawn from samplers
TRIALS = 100_000  # of a sweep


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
        if self.against and self.against not in (settings := every_setting()):
            raise SettingsError(did_you_mean("setting", self.against, settings))

    def points(self) -> list[Settings]:
        """Every point of every grid, without the seed, in the order of the file. Raises SettingsError for none."""
        return [drawn for number, point in enumerate(self.undrawn()) for drawn in self._draw(point, number)]

    def undrawn(self) -> list[Settings]:
        """The points with their samplers."""
        self._refuse_empty()
        self._refuse_too_many(1, "points")
        others, points = every_setting(), dict[str, Settings]()  # by their text: a dropped choice would leave one twice
        for grid in self.grids:
            merged = {**self.base, **grid}
            choices = [value if isinstance(value, list) else [value] for value in merged.values()]
            for combination in itertools.product(*choices):
                point = _fitting(dict(zip(merged, combination, strict=True)), grid, others)
                points.setdefault(repr(point), point)
        return list(points.values())

    def trials(self, seeds: Sequence[int] | None = None) -> list[RunConfig]:
        """One RunConfig a trial, seeds innermost. Raises SettingsError for the first that cannot be run."""
        named = range(self.seeds) if seeds is None else seeds
        if len(named) > MOST:
            raise SettingsError(f"{len(named)} seeds: give at most {MOST}")
        self._refuse_too_many(len(named), "trials")
        configs = [RunConfig(**{**point, "seed": seed}) for point in self.points() for seed in named]
        return list({config.key(): config for config in configs}.values())

    def swept(self) -> tuple[str, ...]:
        """The settings that tell the points apart: all that are listed or drawn, and of others as few as will do."""
        chosen = [
            name
            for grid in self.grids
            for name, value in {**self.base, **grid}.items()
            if is_sampler(value) or (isinstance(value, list) and len(value) > 1)
        ]
        return telling(self.points(), chosen)

    def with_settings(self, settings: Settings) -> Sweep:
        """The sweep with ``settings`` in place of whatever it says of them."""
        known_to_some = every_setting()
        for name in settings:
            if name not in known_to_some:
                raise SettingsError(did_you_mean("setting", name, known_to_some))
        if "seed" in settings:
            raise SettingsError("--set seed: a sweep takes its seeds by --seeds, e.g. --seeds 3,5")
        grids = [{name: value for name, value in grid.items() if name not in settings} for grid in self.grids]
        return dataclasses.replace(self, base={**self.base, **settings}, grids=_distinct(grids))

    def smoke(self) -> Sweep:
        """The first point of every grid for two short rounds: shows in seconds that the sweep runs."""
        self._refuse_empty()
        grids = [{k: v[0] if isinstance(v, list) else v for k, v in {**self.base, **g}.items()} for g in self.grids]
        shorter = {"rounds": 2, "tau": 1, "evaluate": 1, "m_eval": 8}
        for grid in grids:  # not every method has local steps
            grid |= {name: shorter[name] for name in shorter.keys() & known(grid["population"], grid["method"])}
        return dataclasses.replace(self, base={}, grids=grids, seeds=1, samples=1)

    def _refuse_empty(self) -> None:
        if empty := [name for grid in self.grids for name, value in {**self.base, **grid}.items() if value == []]:
            raise SettingsError(f"{empty[0]} = []: give at least one value")
        if not self.grids:
            raise SettingsError("grids = []: give at least one grid, or leave it out")

    def _refuse_too_many(self, seeds: int, what: str) -> None:
        """Raise SettingsError, with the arithmetic, before anything is written out in full."""
        sizes = [
            {name: len(value) for name, value in {**self.base, **grid}.items() if isinstance(value, list)}
            for grid in self.grids
        ]
        drawn = any(hasattr(value, "sample") for grid in self.grids for value in {**self.base, **grid}.values())
        factors = {"samples": self.samples if drawn else 1, "seeds": seeds}
        count = sum(math.prod(size.values()) for size in sizes) * math.prod(factors.values())
        if count > TRIALS:
            grids = " + ".join(" x ".join(f"{n} {name}" for name, n in size.items()) or "1" for size in sizes)
            times = "".join(f" x {n} {name}" for name, n in factors.items() if n > 1)
            grids = f"({grids})" if len(sizes) > 1 and times else grids
            raise SettingsError(
                f"{grids}{times} = {count} {what}: at most {TRIALS} fit into one sweep; divide it among "
                "several, each with an --out of its own"
            )

    def _draw(self, point: Settings, number: int) -> Iterator[Settings]:
        samplers = {name: value for name, value in point.items() if is_sampler(value)}
        if not samplers:
            yield point
            return
        for sample in range(self.samples):
            rng = Stream(number, SERVER, sample, 0, Purpose.SEARCH).generator()
            drawn = {name: sampler.sample(random_state=rng) for name, sampler in samplers.items()}
            yield {**point, **{name: getattr(value, "item", lambda v=value: v)() for name, value in drawn.items()}}


def telling(points: Sequence[Settings], chosen: Sequence[str] = ()) -> tuple[str, ...]:
    """The settings that tell the points apart: those that were ``chosen`` for it, and of others as few as will do, so
    that rounds is not among them where tau implies it."""
    told: list[str] = []
    groups = 1
    for name in dict.fromkeys(("method", *chosen, *(name for point in points for name in point))):
        finer = len({tuple(repr(point.get(each)) for each in (*told, name)) for point in points})
        if finer > groups or (name in chosen and any(name in point for point in points)):
            told, groups = [*told, name], finer
    return tuple(told)


def is_sampler(value: object) -> bool:
    """Whether it is one of Ray Tune's samplers."""
    return hasattr(value, "sample")


def label(config: RunConfig, swept: Sequence[str]) -> str:
    """What tells a trial's curve from the others of its sweep: ``exact m_h=100``."""
    told = {name: getattr(config, name) for name in swept if name != "method" and hasattr(config, name)}
    parts = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in told.items()]
    return " ".join([config.method, *parts])


def _fitting(point: Settings, grid: Settings, others: Container[str]) -> Settings:
    """The point without what stands in the base for other methods and populations than its own."""
    population, method = point.get("population"), point.get("method")
    if population not in POPULATIONS or method not in METHODS:
        return point  # which a RunConfig refuses in better words
    own = known(population, method)
    return {name: value for name, value in point.items() if name in grid or name in own or name not in others}


def _distinct(grids: Sequence[Settings]) -> Sequence[Settings]:
    """The grids without repeats, which replacing a setting can leave behind."""
    return [grid for number, grid in enumerate(grids) if grid not in grids[:number]]


def shipped() -> dict[str, Path]:
    """The sweeps that come with raypfrl, name -> file; one in a folder has the folder's name before its own."""
    folder = Path(__file__).parents[2] / "tune_configs"
    files = sorted(folder.rglob("*.py"), key=lambda path: (len(path.parts), path))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in files if path.name != "__init__.py"}


def name_of(path: Path) -> str:
    """The name of a sweep, which its results have: that of a shipped one, else its file's."""
    known = {file.resolve(): name for name, file in shipped().items()}
    return path.as_posix() if path.as_posix() in shipped() else known.get(path.resolve(), path.stem)


def load(path: Path) -> Sweep:
    """The ``SWEEP`` of a sweep file, or of the shipped one of that name; its METHODS and POPULATIONS are offered too.

    Raises SettingsError for what is no sweep.
    """
    name = path.as_posix()
    if not path.is_file() and name in shipped():
        path = shipped()[name]
    if not path.is_file():
        if path.suffix != ".py" and not path.is_absolute():
            raise SettingsError(did_you_mean("sweep", name, shipped()) + "; or give a file, SWEEP.py")
        raise SettingsError(f"{path}: no such file; `raypfrl list` shows the sweeps that come with raypfrl")
    if path.suffix != ".py":
        raise SettingsError(f"{path}: not a sweep; a sweep is a Python file that sets SWEEP = Sweep(...)")
    sweep = getattr(use(path), "SWEEP", None)
    if not isinstance(sweep, Sweep):
        raise SettingsError(f"{path}: not a sweep; a sweep is a Python file that sets SWEEP = Sweep(...)")
    return sweep
