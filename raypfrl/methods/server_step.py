"""The server's step as a setting: what it does with the averaged change (FedOpt, Reddi et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from raypfrl.methods.method import Arrays, Method
from raypfrl.policies import Vector
from raypfrl.populations import Population
from raypfrl.settings import Real

ServerStep = Annotated[
    Literal["average", "momentum", "adam"], Field(description="what the server does with the averaged change")
]
ServerBeta = Annotated[Real, Field(gt=0, description="step size of the server; 1 takes the whole change")]
Decay = Annotated[Real, Field(ge=0, lt=1, description="momentum and adam: share of the mean change that is remembered")]
Squares = Annotated[Real, Field(ge=0, lt=1, description="adam: share of the mean squared change that is remembered")]
Floor = Annotated[Real, Field(gt=0, description="adam: added to the root of the mean squared change")]


def optimised(
    method: Method, *, server_step: ServerStep = "average", beta_server: ServerBeta = 1.0, server_decay: Decay = 0.9,
    server_squares: Squares = 0.99, server_floor: Floor = 1e-3,
) -> Method:  # fmt: skip
    """The method with, for Delta = what it would combine minus what there is: average: + beta_server Delta; momentum:
    p+ = decay p + Delta, + beta_server p+; adam (FedAdam): p+ = decay p + (1 - decay) Delta, q+ = squares q +
    (1 - squares) Delta^2, + beta_server p+ / (sqrt q+ + floor). p and q are arrays of the server."""
    if server_step == "average" and beta_server == 1.0:
        return method
    rule = {
        "average": partial(_scaled, beta_server),
        "momentum": partial(_momentum, beta_server, server_decay),
        "adam": partial(_adam, beta_server, server_decay, server_squares, server_floor),
    }[server_step]
    phases = tuple(phase._replace(combine=partial(_combine, phase.combine, rule)) for phase in method.phases)
    return method._replace(phases=phases, begin=partial(_begin, method.begin, server_step))


Rule = Callable[[Arrays, str, Vector], Arrays]  # (the server's arrays, a name, Delta) -> its new arrays


def _begin(begin: Callable[..., Arrays], server_step: str, population: Population) -> Arrays:
    arrays, moments = begin(population), {"average": "", "momentum": "p", "adam": "pq"}[server_step]
    return {**arrays, **{f"{name}.{each}": np.zeros_like(x) for name, x in arrays.items() for each in moments}}


def _combine(combine: Callable[..., Arrays], rule: Rule, server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    """The method's own combination, and the rule for every array that agents sent a new one of."""
    combined = {**server, **combine(server, ups, n)}
    for name in sorted(server.keys() & ups[0].keys()):
        combined |= rule(server, name, combined[name] - server[name])
    return combined


def _scaled(beta: float, server: Arrays, name: str, change: Vector) -> Arrays:
    return {name: server[name] + beta * change}


def _momentum(beta: float, decay: float, server: Arrays, name: str, change: Vector) -> Arrays:
    p = decay * server[f"{name}.p"] + change
    return {name: server[name] + beta * p, f"{name}.p": p}


def _adam(beta: float, decay: float, squares: float, floor: float, server: Arrays, name: str, change: Vector) -> Arrays:
    p = decay * server[f"{name}.p"] + (1 - decay) * change
    q = squares * server[f"{name}.q"] + (1 - squares) * change**2
    return {name: server[name] + beta * p / (np.sqrt(q) + floor), f"{name}.p": p, f"{name}.q": q}
