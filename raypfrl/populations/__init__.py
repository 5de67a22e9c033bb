"""The populations. Each file is one family and names what it offers in POPULATIONS; gymnasium knows their ids."""

from __future__ import annotations

import gymnasium

from raypfrl.populations.bandit import POPULATIONS as _BANDIT
from raypfrl.populations.bandit import BanditTask, bandit
from raypfrl.populations.cartpole import POPULATIONS as _CARTPOLE
from raypfrl.populations.cartpole import CartPoleTask, cartpole
from raypfrl.populations.digits import POPULATIONS as _DIGITS
from raypfrl.populations.digits import DigitsTask, digits
from raypfrl.populations.double_integrator import POPULATIONS as _DOUBLE_INTEGRATOR
from raypfrl.populations.double_integrator import DoubleIntegratorTask, double_integrator
from raypfrl.populations.environments import EnvironmentTask, Variant, environments
from raypfrl.populations.garnet import POPULATIONS as _GARNET
from raypfrl.populations.garnet import GarnetTask, garnet
from raypfrl.populations.gridworld import POPULATIONS as _GRIDWORLD
from raypfrl.populations.gridworld import GridworldTask, gridworld
from raypfrl.populations.gymnasium_family import POPULATIONS as _GYMNASIUM
from raypfrl.populations.gymnasium_family import gymnasium_family
from raypfrl.populations.lqr import POPULATIONS as _LQR
from raypfrl.populations.lqr import LqrTask, lqr
from raypfrl.populations.navigation import POPULATIONS as _NAVIGATION
from raypfrl.populations.navigation import NavigationTask, navigation
from raypfrl.populations.pendulum import POPULATIONS as _PENDULUM
from raypfrl.populations.pendulum import PendulumTask, pendulum
from raypfrl.populations.point_mass import POPULATIONS as _POINT_MASS
from raypfrl.populations.point_mass import PointMassTask, point_mass
from raypfrl.populations.population import (
    MDP,
    ClosedForm,
    Compiled,
    Estimator,
    Family,
    Kernel,
    Measured,
    Population,
    Simulated,
    Solved,
    Successors,
    Supervised,
    Tabular,
    Task,
)
from raypfrl.populations.quadratic import POPULATIONS as _QUADRATIC
from raypfrl.populations.quadratic import QuadraticTask, quadratic

POPULATIONS: dict[str, Family] = {  # a user's file adds its own (``uses``)
    **_GRIDWORLD,
    **_NAVIGATION,
    **_BANDIT,
    **_QUADRATIC,
    **_GYMNASIUM,
    **_LQR,
    **_DIGITS,
    **_CARTPOLE,
    **_POINT_MASS,
    **_DOUBLE_INTEGRATOR,
    **_PENDULUM,
    **_GARNET,
}

gymnasium.register(id="raypfrl/Gridworld-v0", entry_point="raypfrl.populations.gridworld:GridworldEnv")
gymnasium.register(id="raypfrl/Navigation-v0", entry_point="raypfrl.populations.navigation:NavigationEnv")
gymnasium.register(id="raypfrl/Bandit-v0", entry_point="raypfrl.populations.bandit:BanditEnv")
gymnasium.register(id="raypfrl/Quadratic-v0", entry_point="raypfrl.populations.quadratic:QuadraticEnv")
gymnasium.register(id="raypfrl/PointMass-v0", entry_point="raypfrl.populations.point_mass:PointMassEnv")
gymnasium.register(
    id="raypfrl/DoubleIntegrator-v0", entry_point="raypfrl.populations.double_integrator:DoubleIntegratorEnv"
)
gymnasium.register(id="raypfrl/Garnet-v0", entry_point="raypfrl.populations.garnet:GarnetEnv")
gymnasium.register(
    id="raypfrl/Variant-v0", entry_point="raypfrl.populations.environments:variant_of", order_enforce=False
)

__all__ = [
    "MDP",
    "POPULATIONS",
    "BanditTask",
    "CartPoleTask",
    "ClosedForm",
    "Compiled",
    "DigitsTask",
    "DoubleIntegratorTask",
    "EnvironmentTask",
    "Estimator",
    "Family",
    "GarnetTask",
    "GridworldTask",
    "Kernel",
    "LqrTask",
    "Measured",
    "NavigationTask",
    "PendulumTask",
    "PointMassTask",
    "Population",
    "QuadraticTask",
    "Simulated",
    "Solved",
    "Successors",
    "Supervised",
    "Tabular",
    "Task",
    "Variant",
    "bandit",
    "cartpole",
    "digits",
    "double_integrator",
    "environments",
    "garnet",
    "gridworld",
    "gymnasium_family",
    "lqr",
    "navigation",
    "pendulum",
    "point_mass",
    "quadratic",
]
