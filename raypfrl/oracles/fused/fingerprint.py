"""What a kernel's machine code is made of: the code of its functions and all that they use, as one text.

The text depends on what the functions compute and not on where they stand: neither on their file nor on their module's
name, nor on the process. So compiled code is found again by the next process, wherever that has the functions from, and
never taken for other code.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

OURS = "raypfrl.oracles.fused"  # its sources are part of every compiled file's name as they are
KNOWN = ("builtins", "math", "numpy")  # told by their names; NumPy's version is part of the file's name


def fingerprint(*functions: Callable[..., Any] | None) -> str:
    """The functions' code, and that of every function, number and table that they use, recursively; None for none.

    Raises TypeError for a function that uses anything else.
    """
    seen: dict[Any, int] = {}
    return repr([_value(plain(function), seen) for function in functions])


def used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global names that a function's code reads, with their values; builtins are not among them."""
    for name in sorted(_globals_read(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def plain(value: Any) -> Any:
    """The Python function behind a compiled one; anything else as it is."""
    behind = getattr(value, "py_func", None)
    return behind if inspect.isfunction(behind) and not is_known(value) else value


def is_known(value: Any) -> bool:
    """Whether something is told by its name: the versions of what it comes from are part of the file's name."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(module, str) and (module.split(".")[0] in KNOWN or f"{module}.".startswith(f"{OURS}."))


def _globals_read(code: CodeType) -> set[str]:
    read = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return read.union(*(_globals_read(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _value(value: Any, seen: dict[Any, int]) -> Any:
    value = plain(value)
    if isinstance(value, np.ndarray | np.generic):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return type(value).__name__, repr(value)
    if isinstance(value, tuple | list):
        return type(value).__name__, getattr(value, "_fields", ()), [_value(entry, seen) for entry in value]
    if isinstance(value, frozenset):
        return "frozenset", sorted(repr(_value(entry, seen)) for entry in value)
    if isinstance(value, CodeType):
        return _code(value, seen)
    if isinstance(value, FunctionType) and not is_known(value):
        return _function(value, seen)
    if is_known(value):
        return getattr(value, "__module__", ""), getattr(value, "__qualname__", None) or value.__name__
    raise TypeError(
        f"a kernel's functions use {value!r}, which is neither a number, a table nor a function; of modules other than "
        "numpy and math import what they use by name"
    )


def _function(function: FunctionType, seen: dict[Any, int]) -> Any:
    if function in seen:
        return "again", seen[function]
    seen[function] = len(seen)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    defaults: Mapping[str, Any] = function.__kwdefaults__ or {}
    return (
        _code(function.__code__, seen),
        [_value(value, seen) for value in (*(function.__defaults__ or ()), *cells)],
        [(name, _value(value, seen)) for name, value in sorted(defaults.items())],
        [(name, _value(value, seen)) for name, value in used(function)],
    )


def _code(code: CodeType, seen: dict[Any, int]) -> Any:
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return arguments, names, code.co_code, [_value(constant, seen) for constant in code.co_consts]
