"""What ``raypfrl list`` shows: everything that can be named, from the registries themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from inspect import Parameter
from pathlib import Path

from raypfrl.config import RunSettings, every_setting
from raypfrl.methods import METHODS, Method
from raypfrl.metrics import METRICS
from raypfrl.populations import POPULATIONS, Family
from raypfrl.settings import Letter, SettingsError, did_you_mean, own_settings
from raypfrl.sweeps.sweep import load, shipped
from raypfrl.text import entries
from raypfrl.uses import label

TABLE_1 = "table1/"  # the folder of the sweeps of the paper's Table 1


def listing(what: str | None = None) -> str:
    """Populations and methods with their own settings, the run's settings with meaning and default, metrics, the
    systems of the paper's Table 1 with the methods that are them, sweeps; or of these, in short, ``what`` is asked for.
    Raises SettingsError for what there is no list of."""
    if what is not None:
        if what not in SECTIONS:
            raise SettingsError(did_you_mean("list", what, SECTIONS))
        return SECTIONS[what]()
    return "\n\n".join(
        [
            _section("populations", {name: _population(name, family) for name, family in POPULATIONS.items()}),
            _section("methods", {name: _method(name, method) for name, method in METHODS.items()}),
            *(section() for section in (settings, metrics, sweeps)),
        ]
    )


def populations() -> str:
    """Every population in a line, and the names of its options."""
    rows = {name: [_summary(f.build.__doc__), _asked(own_settings(f.build))] for name, f in POPULATIONS.items()}
    return _section("populations [their options]", {name: "\n".join(said) for name, said in rows.items()})


def methods() -> str:
    """Every method in a line, the names of its settings, and what its agents' oracles have to answer with them as they
    are, beside a policy gradient and returns."""
    rows = {}
    for name, method in METHODS.items():
        asked = sorted(method.asks({name: letter.default for name, letter in method.settings.items()}))
        of_oracles = [f"needs {', '.join(asked)}"] if asked else []
        rows[name] = "\n".join([method.source or method.summary, _asked(method.settings), *of_oracles])
    return _section("methods [settings with a default]", rows)


def settings() -> str:
    """Settings of the run with meaning and default, and of methods and populations with meaning."""
    run = {name: letter for name, letter in every_setting().items() if name in RunSettings.model_fields}
    own = {name: letter for name, letter in every_setting().items() if name not in run}
    return "\n\n".join(
        [
            _section("settings of every run (KEY of --set KEY=VALUE)", {n: _setting(x) for n, x in run.items()}),
            _section("settings of a method or a population", {n: x.description for n, x in own.items()}),
        ]
    )


def metrics() -> str:
    """Everything that is measured."""
    return _section("metrics", METRICS)


def sweeps() -> str:
    """The sweeps that come with raypfrl, first those of the paper's Table 1."""
    found = {name: _summary(_docstring(path)) for name, path in shipped().items()}
    systems = {
        name: f"{found.pop(name)}\n{_runs(path)}" for name, path in shipped().items() if name.startswith(TABLE_1)
    }
    return "\n\n".join(
        [
            _section("Table 1 of the paper, a sweep for each of its systems (raypfrl sweep NAME)", systems),
            _section("sweeps (raypfrl sweep NAME; raypfrl list --copy NAME puts its file here, to edit)", found),
        ]
    )


SECTIONS: Mapping[str, Callable[[], str]] = {
    "populations": populations, "methods": methods, "settings": settings, "metrics": metrics, "sweeps": sweeps,
}  # fmt: skip


def copied(name: str) -> Path:
    """The file of the shipped sweep ``name``, copied into the current folder.

    Raises SettingsError for an unknown name, and where a file of that name is there already.
    """
    if name not in shipped():
        raise SettingsError(did_you_mean("sweep", name, shipped()))
    copy = Path(shipped()[name].name)
    try:
        with copy.open("xb") as file:
            file.write(shipped()[name].read_bytes())
    except FileExistsError:
        raise SettingsError(f"{copy} is here already; rename it, or copy from another folder") from None
    return copy


def _population(name: str, family: Family) -> str:
    suggested = {name: f" {_value(value)}" for name, value in family.suggested.items()}
    said = [_summary(family.build.__doc__), _letters(own_settings(family.build)), f"suggests:{_joined(suggested)}"]
    return "\n".join([*said, *_from(label(name, ""))])


def _method(name: str, method: Method) -> str:
    source = [f"source: {method.source}"] if method.source else []
    return "\n".join([method.summary, _letters(method.settings), *source, *_from(label("", name))])


def _asked(settings: Mapping[str, Letter]) -> str:
    """The names of settings, in brackets those with a value of their own."""
    wanted, free = (
        [name for name, letter in settings.items() if (letter.default is Parameter.empty) is without]
        for without in (True, False)
    )
    return " ".join([*(["asks for", *wanted] if wanted else []), *([f"[{' '.join(free)}]"] if free else [])])


def _from(file: str) -> list[str]:
    """The file or package of the user's that something is in."""
    return [f"in {file}"] if file else []


def _letters(letters: Mapping[str, Letter]) -> str:
    return "settings:" + _joined({name: _default(letter) for name, letter in letters.items()})


def _joined(texts: Mapping[str, str]) -> str:
    return ",".join(f" {name}{text}" for name, text in texts.items())


def _setting(letter: Letter) -> str:
    return letter.description + _default(letter)


def _default(letter: Letter) -> str:
    return "" if letter.default is Parameter.empty else f" [{_value(letter.default)}]"


def _value(value: object) -> str:
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def _section(title: str, lines: Mapping[str, str]) -> str:
    return f"{title}\n{entries(lines)}"


def _runs(path: Path) -> str:
    """What a sweep runs, or why it does not."""
    try:
        points = load(path).points()
    except SettingsError as error:
        return str(error)
    methods, populations = (
        ", ".join(dict.fromkeys(point[key] for point in points)) for key in ("method", "population")
    )
    return f"runs: {methods} on {populations}"


def _docstring(path: Path) -> str | None:
    try:
        return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    except (SyntaxError, ValueError) as error:
        return f"does not run: {error}"


def _summary(docstring: str | None) -> str:
    """The first sentence."""
    text = " ".join((docstring or "").split())
    return re.split(r"(?<!et al)\. ", text)[0].removesuffix(".")
