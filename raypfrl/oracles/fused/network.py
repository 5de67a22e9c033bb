"""What a policy brings to the compiled estimators: the way from observation to the outputs y, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from raypfrl.oracles.fused.lanes import Lanes


class Network(NamedTuple):
    """The compiled functions of a policy.

    forward(theta, xi, h): observation -> outputs of decision h
    forward_tangent(theta, v, xi, h): doutputs, along v
    backward(theta, xi, end, gradient): score of the decisions below ``end`` -> gradient, one trajectory a lane
    backward_tangent(theta, v, xi, end, gradient): score and dscore of these decisions -> gradient
    feature(xi, h, j): the j-th of the state's features, which a baseline is linear in; after forward
    """

    forward: Callable[..., None]
    forward_tangent: Callable[..., None]
    backward: Callable[..., None]
    backward_tangent: Callable[..., None]
    feature: Callable[..., Lanes]
