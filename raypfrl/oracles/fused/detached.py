"""A task's plain functions, made ready to be compiled."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from raypfrl.oracles.fused.fingerprint import is_known, plain, used
from raypfrl.oracles.fused.lanes import jit


def detached(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of the function that is compiled where it is called, and so are the plain functions that it uses.

    The copies belong to this module, not to the one that they were written in: compiled code on disk names the module
    of every function in it, and the next process may have the task's under another name, or not as a file.
    """
    return _copy(plain(function), {})


def _copy(function: FunctionType, copies: dict[FunctionType, Callable[..., Any]]) -> Callable[..., Any]:
    if function in copies:
        return copies[function]

    def value(used: Any) -> Any:
        used = plain(used)
        return _copy(used, copies) if isinstance(used, FunctionType) and not is_known(used) else used

    own: dict[str, Any] = {"__builtins__": builtins, "__name__": __name__}
    cells = tuple(CellType() for _ in function.__closure__ or ())
    copy = FunctionType(function.__code__, own, function.__name__, function.__defaults__, cells or None)
    copy.__kwdefaults__, copy.__module__ = function.__kwdefaults__, __name__
    copies[function] = jit(copy)
    own |= {name: value(read) for name, read in used(function)}
    for cell, read in zip(cells, function.__closure__ or (), strict=True):
        cell.cell_contents = value(read.cell_contents)
    return copies[function]
