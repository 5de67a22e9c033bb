"""The methods. Each file is one family and names what it offers in METHODS: read ``per_fedavg_pg`` first, the paper's
three directions side by side, then ``method``, what a method is made of."""

from __future__ import annotations

from raypfrl.methods import (
    afedpg,
    averaged_tables,
    fast_fedpg,
    gossip,
    hessian_free,
    independent,
    maml_lqr,
    mixing,
    moreau,
    natural_gradient,
    per_fedavg_pg,
    scaffold,
    sg_mrl,
    shared_representation,
    temporal_differences,
    variance_reduced,
    zeroth_order,
)
from raypfrl.methods.compression import compressed
from raypfrl.methods.method import Agent, Arrays, Direction, MAdapt, Method, Phase, Reply, asks, averaged
from raypfrl.methods.server_step import optimised

_FILES = (
    per_fedavg_pg, independent, hessian_free, sg_mrl, scaffold, fast_fedpg, moreau, mixing, shared_representation,
    gossip, zeroth_order, variance_reduced, maml_lqr, afedpg, natural_gradient, averaged_tables, temporal_differences,
)  # fmt: skip
METHODS: dict[str, Method] = {  # a user's file adds its own (``uses``)
    name: method for file in _FILES for name, method in file.METHODS.items()
}
# What every method can be put into, the inner first; their settings are every method's. The server restores what came
# up before it takes its step.
WRAPPERS = (optimised, compressed)

__all__ = [
    "METHODS",
    "WRAPPERS",
    "Agent",
    "Arrays",
    "Direction",
    "MAdapt",
    "Method",
    "Phase",
    "Reply",
    "asks",
    "averaged",
]
