"""Any environment that gymnasium can make, for a try from the command line:

    raypfrl run gymnasium first_order --set env_id=CartPole-v1 --set vary=force_mag --set low=5 --set high=15

A family of one's own is a few lines (``environments``)."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Annotated, Any, Literal

from pydantic import Field

from raypfrl.populations.environments import Variant, View, environments, spread, variant_of
from raypfrl.populations.population import Estimator, Family, Population
from raypfrl.settings import Agents, Discount, Hidden, Horizon, Real, Whole

# For a first look: whether a family learns is a matter of its own settings.
# Steps that fit normalised advantages: returns as they are ask for other steps in every environment.
SUGGESTED: Mapping[str, Any] = {
    "rounds": 50, "tau": 1, "alpha": 5.0, "beta": 1.0, "m_in": 20, "m_h": 20, "m_out": 20, "m_adapt": (0, 20),
    "m_eval": 64, "baseline": "linear", "normalise": True, "average": True,
}  # fmt: skip


def gymnasium_family(
    *,
    env_id: Annotated[str, Field(description="a gymnasium id, e.g. CartPole-v1 or module:Name-v0")] = "CartPole-v1",
    vary: Annotated[
        str, Field(description="the constructor's argument or the attribute that tells agents apart; left out: none")
    ] = "",
    low: Annotated[Real, Field(description="vary: its value in the first agent")] = 0.5,
    high: Annotated[Real, Field(description="vary: its value in the last agent")] = 1.5,
    n: Agents = 4,
    gamma: Discount = 0.99,
    horizon: Horizon = 199,
    hidden: Hidden = (32,),
    std: Annotated[float, Field(ge=0, description="standard deviation of a Gaussian policy; 0: learned")] = 0.0,
    squash: Annotated[bool, Field(description="squash real actions into their bounds; else they are clipped")] = False,
    standardise: Annotated[
        Whole, Field(ge=0, le=10_000, description="episodes from which an agent scales its own observations; 0: none")
    ] = 0,
    baseline: Annotated[
        Literal["none", "time", "linear", "value"], Field(description="what the policy gradient takes off a return")
    ] = "none",
    normalise: Annotated[bool, Field(description="advantages to mean 0 and standard deviation 1")] = False,
    average: Annotated[bool, Field(description="average the policy gradient over decisions, not trajectories")] = False,
    entropy: Annotated[Real, Field(ge=0, description="what a decision's entropy is worth beside its reward")] = 0.0,
) -> Population:
    """n agents on one gymnasium id that differ in one number, spread evenly from low to high, and unseen ones halfway
    between neighbours; without ``vary`` n copies and none unseen.

    Raises ValueError as ``environments`` does.
    """
    if not vary:
        agents, held_out = [Variant()] * n, list[Variant]()
    else:
        takes = vary in _arguments(env_id)
        agents, held_out = spread(
            n, low, high, lambda x: Variant(kwargs={vary: x}) if takes else Variant(attributes={vary: x})
        )
    return environments(
        "gymnasium", env_id, agents, held_out=held_out, gamma=gamma, horizon=horizon, hidden=hidden, std=std or None,
        squash=squash, standardise=standardise, estimator=Estimator(baseline, normalise, average, entropy),
    )  # fmt: skip


def _arguments(env_id: str) -> Mapping[str, Any]:
    return signature(type(variant_of(env_id, Variant(), View()).unwrapped)).parameters


POPULATIONS: Mapping[str, Family] = {"gymnasium": Family(gymnasium_family, SUGGESTED)}
