"""``raypfrl check``: what the library's own tests ask of every method and every population, asked of any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from raypfrl.check.found import Found, report
from raypfrl.check.methods import check_method
from raypfrl.check.populations import check_population
from raypfrl.methods import METHODS
from raypfrl.populations import POPULATIONS
from raypfrl.settings import SettingsError, did_you_mean
from raypfrl.sweeps import Sweep
from raypfrl.uses import find_installed, offers, use


def check(names: Sequence[str]) -> Iterator[Found]:
    """Look at everything that is named: a Python file and what it offers, a method, or a population.

    Raises SettingsError for what is none of these.
    """
    for name in names:
        if name.endswith(".py"):
            yield from _check_file(Path(name))
            continue
        if name not in METHODS and name not in POPULATIONS:
            find_installed()
        if name not in METHODS and name not in POPULATIONS:
            raise SettingsError(did_you_mean("method, population or Python file", name, [*METHODS, *POPULATIONS]))
        if name in POPULATIONS:
            yield from check_population(name)
        if name in METHODS:
            yield from check_method(name)


def _check_file(path: Path) -> Iterator[Found]:
    module = use(path)
    methods, populations = offers(module, "METHODS"), offers(module, "POPULATIONS")
    sweep = getattr(module, "SWEEP", None)
    if not methods and not populations and not isinstance(sweep, Sweep):
        raise SettingsError(f"{path}: offers nothing; set METHODS, POPULATIONS or SWEEP")
    for name in populations:
        yield from check_population(name)
    for name in methods:
        yield from check_method(name, more=tuple(populations))
    if isinstance(sweep, Sweep):
        yield from report(f"SWEEP of {path.name}", {"its points can be run": lambda: f"{len(sweep.trials())} trials"})


__all__ = ["Found", "check", "check_method", "check_population"]
