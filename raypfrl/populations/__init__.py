"""The registry of populations, and their gymnasium environments' registration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium

from raypfrl.populations.bandit import PAPER as _BANDIT
from raypfrl.populations.bandit import BanditTask, bandit
from raypfrl.populations.gridworld import PAPER as _GRIDWORLD
from raypfrl.populations.gridworld import GridworldTask, gridworld
from raypfrl.populations.navigation import PAPER as _NAVIGATION
from raypfrl.populations.navigation import NavigationTask, navigation
from raypfrl.populations.population import MDP, ClosedForm, Population, Task
from raypfrl.populations.quadratic import PAPER as _QUADRATIC
from raypfrl.populations.quadratic import QuadraticTask, quadratic


class Family(NamedTuple):
    """What builds a population, and the paper's settings for it: the defaults of a run."""

    build: Callable[..., Population]
    paper: Mapping[str, Any]


POPULATIONS: Mapping[str, Family] = {
    "gridworld": Family(gridworld, _GRIDWORLD),
    "navigation": Family(navigation, _NAVIGATION),
    "bandit": Family(bandit, _BANDIT),
    "quadratic": Family(quadratic, _QUADRATIC),
}

gymnasium.register(id="raypfrl/Gridworld-v0", entry_point="raypfrl.populations.gridworld:GridworldEnv")
gymnasium.register(id="raypfrl/Navigation-v0", entry_point="raypfrl.populations.navigation:NavigationEnv")
gymnasium.register(id="raypfrl/Bandit-v0", entry_point="raypfrl.populations.bandit:BanditEnv")
gymnasium.register(id="raypfrl/Quadratic-v0", entry_point="raypfrl.populations.quadratic:QuadraticEnv")

__all__ = [
    "MDP",
    "POPULATIONS",
    "BanditTask",
    "ClosedForm",
    "Family",
    "GridworldTask",
    "NavigationTask",
    "Population",
    "QuadraticTask",
    "Task",
    "bandit",
    "gridworld",
    "navigation",
    "quadratic",
]
