"""Policies pi(a|s; theta) over one flat float64 vector theta.

A policy is a frozen dataclass that holds sizes, never parameters. ``log_prob`` works on torch tensors, so that the
autodiff oracle can differentiate it; everything else is NumPy. torch is imported where it is used.
"""

from collections.abc import Mapping

from raypfrl.policies.feedback import LinearFeedback
from raypfrl.policies.gaussian import UnitGaussian
from raypfrl.policies.modules import ModulePolicy
from raypfrl.policies.networks import MLPGaussian, MLPMultiSoftmax, MLPSoftmax
from raypfrl.policies.policy import Array, Layered, LogLinear, Policy, Vector
from raypfrl.policies.tables import LinearSoftmax, TabularSoftmax

# What a method may ask of the policy, as it asks questions of an oracle, and who has it.
PARTS: Mapping[str, type] = {"blocks": Layered, "table": TabularSoftmax}

__all__ = [
    "PARTS",
    "Array",
    "Layered",
    "LinearFeedback",
    "LinearSoftmax",
    "LogLinear",
    "MLPGaussian",
    "MLPMultiSoftmax",
    "MLPSoftmax",
    "ModulePolicy",
    "Policy",
    "TabularSoftmax",
    "UnitGaussian",
    "Vector",
]
