"""Where a method is tried: small runs of seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from raypfrl.config import RunConfig, known
from raypfrl.methods import METHODS, Method
from raypfrl.oracles import answers, covering
from raypfrl.policies import PARTS
from raypfrl.populations import POPULATIONS
from raypfrl.settings import SettingsError, own_settings

USUAL = (("quadratic", "exact"), ("gridworld", "autodiff"), ("navigation", "autodiff"),
         ("garnet", "table"), ("garnet", "continuing"))  # fmt: skip
SHORT = {"rounds": 2, "tau": 2, "evaluate": 1, "m_adapt": (0, 3), "m_eval": 4, "hidden": (4,)}
SMALLEST: tuple[dict[str, int], ...] = ({"n": 2, "horizon": 5}, {"n": 2}, {})  # the first that the population takes


class Place(NamedTuple):
    """A population, and one of the oracles that cover it."""

    population: str
    oracle: str

    def __str__(self) -> str:
        return f"{self.population}, {self.oracle}"

    def lacking(self, method: Method) -> frozenset[str]:
        """What the method asks and is not answered here."""
        population = POPULATIONS[self.population].build()
        answered = answers(self.oracle, population.train[0], population.policy)
        return declared(method) - answered - {x for x, kind in PARTS.items() if isinstance(population.policy, kind)}


def declared(method: Method) -> frozenset[str]:
    """What the method says that it asks, with its settings at their defaults."""
    return method.asks({name: letter.default for name, letter in method.settings.items()})


def places(more: tuple[str, ...] = ()) -> Iterator[Place]:
    """The usual ones, and each of ``more`` on its first oracle that needs no compiler."""
    for name, oracle in USUAL:
        yield Place(name, oracle)
    for name in more:
        population = POPULATIONS[name].build()
        covered = covering(population.train[0], population.policy)
        yield Place(name, next((oracle for oracle in covered if oracle != "fused"), covered[0]))


def small(place: Place, method: str, **more: Any) -> RunConfig:
    """Two short rounds of two agents. Every batch has another size, so that no two can be confused unseen.

    Raises SettingsError where the population cannot be run at all.
    """
    letters = known(place.population, method)
    batches = {name: 4 + i for i, (name, x) in enumerate(METHODS[method].settings.items()) if x.batch}
    own = own_settings(POPULATIONS[place.population].build)
    short = {name: x for name, x in {**SHORT, **batches}.items() if name in (own if name == "hidden" else letters)}
    for smallest in SMALLEST:
        size = {name: value for name, value in smallest.items() if name in letters}
        try:
            return RunConfig(population=place.population, method=method, oracle=place.oracle, **short, **size, **more)
        except SettingsError as error:
            refused = error
    raise refused
