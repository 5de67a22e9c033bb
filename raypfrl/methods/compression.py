"""Compression of what goes up (CompFedRL, Beikmohammadi et al. 2024): an agent sends k entries of its change and where
they stand. With error feedback it keeps what it did not send, and adds it to the next change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from raypfrl.methods.method import Agent, Arrays, Method, Phase, Reply
from raypfrl.policies import Vector
from raypfrl.settings import Whole

Compression = Annotated[
    Literal["none", "top_k", "random_k"],
    Field(description="what an agent sends of its change: all, the k largest entries, or k drawn ones scaled by d/k"),
]
Entries = Annotated[Whole, Field(ge=1, description="k: entries that are sent, and as many places; both are counted")]
ErrorFeedback = Annotated[bool, Field(description="keep what was not sent, and add it to the next change")]


def compressed(
    method: Method, *, compression: Compression = "none", compress_k: Entries = 32, error_feedback: ErrorFeedback = True
) -> Method:
    """The method with C(Delta_i) in the place of each array that goes up for one that the server sent: m = C(e_i +
    Delta_i), e_i+ = e_i + Delta_i - m. The server finds its own array plus m, to combine as ever. What has no array of
    the server's to be a change of (a gradient, a change of a control variate) goes up whole."""
    if compression == "none":
        return method
    phases = tuple(
        Phase(
            phase.down,
            partial(_send, local=phase.local, compression=compression, k=compress_k, feedback=error_feedback),
            partial(_receive, phase.combine),
        )
        for phase in method.phases
    )
    return method._replace(phases=phases, join=partial(_join, method.join))


def top_k(x: Vector, k: int) -> NDArray[np.intp]:
    """Where the k entries of largest size stand, in order; of equal ones the first."""
    return np.sort(np.argsort(-np.abs(x), kind="stable")[:k])


def random_k(x: Vector, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Where k entries stand that are drawn without replacement, in order."""
    return np.sort(rng.choice(x.size, size=min(k, x.size), replace=False))


def _join(join: Callable[..., Arrays], agent: Agent, down: Arrays) -> Arrays:
    """What the method keeps, and e_i = 0 for every array that it is first sent: those are what is compressed."""
    return {**join(agent, down), **{f"e_i.{name}": np.zeros_like(x) for name, x in down.items()}}


def _send(
    agent: Agent, down: Arrays, kept: Arrays, *, local: Callable[..., Reply], compression: str, k: int, feedback: bool
) -> Reply:
    reply = local(agent, down, {name: x for name, x in kept.items() if not name.startswith("e_i.")})
    up, own = dict(reply.up), {**{name: x for name, x in kept.items() if name.startswith("e_i.")}, **reply.kept}
    sent = {**kept, **down}  # in a later phase what the server sent is among what was kept for it
    for name in sorted(name for name in sent.keys() & up.keys() if f"e_i.{name}" in kept):
        x, e = up.pop(name), kept[f"e_i.{name}"] if feedback else 0.0
        if k >= x.size:  # all of it
            up[name] = x
            continue
        change = e + (x - sent[name])
        at = top_k(change, k)
        values = change[at]
        if compression == "random_k":
            at = random_k(change, k, agent.step().perturbation.generator())
            values = change[at] * (1.0 if feedback else x.size / k)  # unbiased alone; a contraction with feedback
        up |= {f"{name}.values": values, f"{name}.at": at.astype(np.float64)}
        if feedback:
            own[f"e_i.{name}"] = change.copy()
            own[f"e_i.{name}"][at] -= values
    return Reply(up, own)


def _receive(combine: Callable[..., Arrays], server: Arrays, ups: Sequence[Arrays], n: int) -> Arrays:
    return combine(server, [_restored(server, row, up) for row, up in enumerate(ups)], n)


def _restored(server: Arrays, row: int, up: Arrays) -> Arrays:
    """What came up, with the server's own array (or the agent's row of it) plus the entries that were sent in the place
    of those."""
    whole = {name: x for name, x in up.items() if not name.endswith((".values", ".at"))}
    for name in sorted(name.removesuffix(".values") for name in up if name.endswith(".values")):
        whole[name] = (server[name][row] if name.endswith("_i") else server[name]).copy()
        whole[name][up[f"{name}.at"].astype(np.intp)] += up[f"{name}.values"]
    return whole
