"""Settings are keyword-only arguments: of a method's functions, and of what builds a population. Their letters' types
say what a value may be and what it means, each in one place: here what several share, else beside its method."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo

from raypfrl.text import short


class SettingsError(ValueError):
    """Something that was asked for cannot be run. The message is one line and says the remedy."""


def did_you_mean(kind: str, name: object, known: Iterable[str]) -> str:
    """The message for an unknown name, with the nearest known one."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"unknown {kind} {short(name)}: " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")


def resolved(folder: Path) -> Path:
    """The folder with its links followed. Raises SettingsError for a loop of them."""
    try:
        return folder.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links, before Python 3.13
        raise SettingsError(f"{folder}: {getattr(error, 'strerror', error)}; give a folder") from None


def whole(value: Any) -> Any:
    """YAML reads 1e3 as text, and 5.0 as a float: both are whole numbers where they are whole."""
    if isinstance(value, bool):
        raise ValueError("should be a whole number, not true or false")
    try:
        number = float(value) if isinstance(value, str | float) else value
    except ValueError:
        return value
    return int(number) if isinstance(number, float) and number.is_integer() else number


def sequence(value: Any) -> Any:
    """A single entry stands for a sequence of one."""
    return (value,) if isinstance(value, int | str) and not isinstance(value, bool) else value


def lone(value: Any) -> Any:
    """A single number stands for a sequence of one."""
    return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else value


def real(value: Any) -> Any:
    """A number, and not a word for yes or no."""
    if isinstance(value, bool):
        raise ValueError("should be a number, not true or false")
    return value


class Trajectories(NamedTuple):
    """Marks a letter as the size of a batch. needed: whether the batch must hold a trajectory; else it is enough that
    the method's batches together do."""

    needed: bool = True


Whole = Annotated[int, BeforeValidator(whole)]
Real = Annotated[float, BeforeValidator(real), Field(allow_inf_nan=False)]
Batch = Annotated[Whole, Field(ge=0, le=10_000_000), Trajectories()]

# The population's
Agents = Annotated[Whole, Field(ge=1, le=100_000, description="training agents")]
Discount = Annotated[Real, Field(ge=0, le=1, description="discount, absolute: gamma^0 at h = 0")]
Horizon = Annotated[Whole, Field(ge=0, le=10_000, description="H: an episode has H + 1 decisions")]
Hidden = Annotated[
    tuple[Annotated[Whole, Field(ge=1, le=10_000)], ...],
    BeforeValidator(sequence),
    Field(description="hidden layer widths of a neural policy"),
]

# The method's
Tau = Annotated[Whole, Field(ge=1, lt=2**24, description="local steps a round")]
Alpha = Annotated[Real, Field(ge=0, description="adaptation step size")]
Beta = Annotated[Real, Field(gt=0, description="step size of a local step")]
InnerBatch = Annotated[Batch, Field(description="trajectories of the inner batch D_in")]
HessianBatch = Annotated[Batch, Field(description="trajectories of the Hessian batch D_h")]
OuterBatch = Annotated[Batch, Field(description="trajectories of the outer batch D_out")]
SharedBatch = Annotated[Batch, Trajectories(needed=False), Field(description="trajectories, a part of one batch")]
InnerSteps = Annotated[Whole, Field(ge=1, le=100, description="nu: adaptation steps, of m_in trajectories each")]


class Letter(NamedTuple):
    """One setting: its type with bounds and meaning, and its default (``Parameter.empty``: there is none)."""

    type: Any
    default: Any

    @property
    def description(self) -> str:
        """What it means; empty where its type does not say."""
        said = [part.description for part in _parts(self.type) if isinstance(part, FieldInfo) and part.description]
        return said[-1] if said else ""

    @property
    def sequence(self) -> bool:
        """Whether a value may be a tuple."""
        kind = get_args(self.type)[0] if _parts(self.type) else self.type
        return any(tuple in (one, get_origin(one)) for one in (kind, *get_args(kind)))

    @property
    def batch(self) -> Trajectories | None:
        """The mark of a batch's size."""
        return next((part for part in reversed(_parts(self.type)) if isinstance(part, Trajectories)), None)


LETTERS: Mapping[str, Any] = {
    "n": Agents, "gamma": Discount, "horizon": Horizon, "hidden": Hidden, "tau": Tau, "alpha": Alpha, "beta": Beta,
    "m_in": InnerBatch, "m_h": HessianBatch, "m_out": OuterBatch, "inner_steps": InnerSteps,
}  # fmt: skip


@cache
def own_settings(function: Callable[..., Any]) -> Mapping[str, Letter]:
    """The keyword-only arguments of a function, by name. A plain ``gamma: float`` means the letter of that name."""
    return {
        name: Letter(_type(name, parameter.annotation, function), parameter.default)
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }


def settings_of(function: Callable[..., Any]) -> dict[str, Letter]:
    """The settings of a function and of the functions that are bound to it by ``partial``."""
    return {name: letter for one in _functions(function) for name, letter in own_settings(one).items()}


def bound(function: Callable[..., Any], settings: Mapping[str, Any]) -> Callable[..., Any]:
    """The function with its settings given, and those of the functions that are bound to it."""
    if isinstance(function, partial):
        arguments = [bound(each, settings) if callable(each) else each for each in function.args]
        return partial(bound(function.func, settings), *arguments, **function.keywords)
    return partial(function, **{name: settings[name] for name in own_settings(function)})


def _functions(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    if isinstance(function, partial):
        yield from _functions(function.func)
        for argument in function.args:
            if callable(argument):
                yield from _functions(argument)
    else:
        yield function


def _type(name: str, hint: Any, function: Callable[..., Any]) -> Any:
    if isinstance(hint, str):  # under ``from __future__ import annotations``; others than these may be unresolvable
        hint = eval(hint, function.__globals__)
    if name in LETTERS and not hasattr(hint, "__metadata__"):
        return LETTERS[name]
    return Any if hint is Parameter.empty else hint


def _parts(kind: Any) -> tuple[Any, ...]:
    """What an Annotated type is annotated with, the innermost first."""
    return (*_parts(get_args(kind)[0]), *kind.__metadata__) if hasattr(kind, "__metadata__") else ()
