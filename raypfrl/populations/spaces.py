"""Between a policy's arrays and what an environment's spaces take and give. Nothing is shared: what an environment is
given is made for it, and what it gives is copied, so that it may do with both what it likes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from raypfrl.policies import Array


class Observations:
    """Reads observations of a Box (as they are) or a Discrete space (from 0 up) into rows of an array.

    Raises ValueError for another space.
    """

    def __init__(self, space: Space[Any]) -> None:
        if isinstance(space, Discrete):
            self.shape, self.dtype = tuple[int, ...](), np.dtype(np.int64)
            self._start, self.states = int(space.start), int(space.n)
        elif isinstance(space, Box):
            self.shape, self.dtype, self.states = space.shape, np.dtype(space.dtype), 0
        else:
            raise ValueError(f"observations of a {type(space).__name__} space are not covered: Box and Discrete are")

    def rows(self, count: int) -> Array:
        """Room for ``count`` observations."""
        return np.zeros((count, *self.shape), self.dtype)

    def read(self, observation: Any, rows: Array, row: int) -> None:
        """Copy an observation into its row. One of another type is converted where that loses nothing but digits.

        Raises ValueError or TypeError for what is no observation of the space: another shape, a state that it does
        not have, a text. That a Box's bounds are kept is not asked for.
        """
        if self.states:
            state = observation.item() if isinstance(observation, np.ndarray) else observation
            if int(state) != state or not 0 <= state - self._start < self.states:
                raise ValueError(f"the observation {state!r} is not in Discrete({self.states}, start={self._start})")
            rows[row] = int(state) - self._start
            return
        if type(observation) is np.ndarray and observation.dtype is self.dtype and observation.shape == self.shape:
            rows[row] = observation  # as it should be: the usual way, and a short one
            return
        given = np.asarray(observation)
        if given.dtype.kind not in "biuf":
            raise TypeError(f"the observation is of type {given.dtype}, its space of {self.dtype}")
        observation = given.astype(self.dtype)
        if self.dtype.kind in "biu" and not np.array_equal(observation, given):
            raise TypeError(f"the observation {given.tolist()} does not fit the type of its space, {self.dtype}")
        if observation.shape != self.shape:
            raise ValueError(f"the observation has shape {observation.shape}, its space {self.shape}")
        rows[row] = observation


class Actions:
    """Makes what an environment of a Discrete, MultiDiscrete or Box space is given of a policy's actions: whole numbers
    from 0 up are moved to the space's start, real ones clipped to its bounds.

    Raises ValueError for another space.
    """

    def __init__(self, space: Space[Any]) -> None:
        if not isinstance(space, Discrete | MultiDiscrete | Box) or (
            isinstance(space, Box) and not np.issubdtype(space.dtype, np.floating)
        ):
            name = f"{type(space).__name__}{'' if space.dtype is None else f' ({space.dtype})'}"
            raise ValueError(
                f"actions of a {name} space are not covered: Discrete, MultiDiscrete and a Box of real numbers are"
            )
        self._space = space
        self.shape: tuple[int, ...] = space.shape or ()

    def given(self, actions: Array) -> Array:
        """One new action an environment, of actions (batch, ...).

        Raises ValueError for actions that the space does not have, FloatingPointError where they are not finite.
        """
        space = self._space
        if actions[0].size != math.prod(self.shape):
            raise ValueError(f"the policy's actions have shape {actions.shape[1:]}, those of {space} {self.shape}")
        actions = actions.reshape(len(actions), *self.shape)
        if isinstance(space, Box):
            if not np.isfinite(actions).all():
                raise FloatingPointError("the policy's action is not finite")
            return np.clip(actions, space.low, space.high).astype(space.dtype)
        number = space.n if isinstance(space, Discrete) else space.nvec
        if actions.dtype.kind not in "iu" or (actions < 0).any() or (actions >= number).any():
            raise ValueError(f"the policy takes an action that {space} does not have")
        return (actions + space.start).astype(space.dtype)
