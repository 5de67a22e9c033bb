"""The registry of populations, and their gymnasium environments' registration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from raypfrl.populations.gridworld import PAPER as _GRIDWORLD
from raypfrl.populations.gridworld import GridworldTask, gridworld
from raypfrl.populations.navigation import PAPER as _NAVIGATION
from raypfrl.populations.navigation import NavigationTask, navigation
from raypfrl.populations.population import MDP, Population, Task

# name -> (what builds it, the paper's settings for it: the defaults of a run)
POPULATIONS: Mapping[str, tuple[Callable[..., Population], Mapping[str, Any]]] = {
    "gridworld": (gridworld, _GRIDWORLD),
    "navigation": (navigation, _NAVIGATION),
}

gymnasium.register(id="raypfrl/Gridworld-v0", entry_point="raypfrl.populations.gridworld:GridworldEnv")
gymnasium.register(id="raypfrl/Navigation-v0", entry_point="raypfrl.populations.navigation:NavigationEnv")

__all__ = ["MDP", "POPULATIONS", "GridworldTask", "NavigationTask", "Population", "Task", "gridworld", "navigation"]
