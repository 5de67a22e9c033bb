"""What is a user's stands in the user's own file: a module offers what its METHODS and POPULATIONS name.

It is found by three doors: the sweep file itself, ``--use FILE``, and the entry points ``raypfrl`` of packages. A file
travels as its text, with the settings, to every process that needs it, and is loaded there once: no disk is
shared, and what a call needs comes with it. The hash of the text names the trials that need it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from importlib.util import spec_from_loader
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from raypfrl.methods import METHODS, Method
from raypfrl.populations import POPULATIONS, Family
from raypfrl.settings import SettingsError, own_settings
from raypfrl.text import cause

GROUP = "raypfrl"  # of entry points: NAME = module, whose METHODS and POPULATIONS are offered
REGISTRIES: Mapping[str, dict[str, Any]] = {"METHODS": METHODS, "POPULATIONS": POPULATIONS}


class Text(NamedTuple):
    """One module as text: its name where it is loaded, where it was read, and what stands in it."""

    module: str
    path: str
    text: str


class Use(NamedTuple):
    """A user's file and the files beside it that it imports, the file itself last."""

    texts: tuple[Text, ...]

    @property
    def module(self) -> str:
        """The name that the file is loaded by."""
        return self.texts[-1].module

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process the file can be imported as soon as this has arrived: what comes after it, as the value of
        a setting, may be of a class that stands in it."""
        return _arrived, (tuple(map(tuple, self.texts)),)

    def __str__(self) -> str:
        """The file's name and the hash of all its texts: what trials that need it are named by."""
        return f"{Path(self.texts[-1].path).name}:{self.module.rpartition('_')[2]}"


class _Texts(MetaPathFinder, ExecutionLoader):
    """Python's own import system, for modules whose text has been given to ``read``."""

    read: dict[str, Text] = {}

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """A module among the texts."""
        return spec_from_loader(fullname, self) if fullname in self.read else None

    def get_source(self, fullname: str) -> str:
        """Its text."""
        return self.read[fullname].text

    def get_filename(self, fullname: str) -> str:
        """Where it was read; on another machine there may be no such file."""
        return self.read[fullname].path

    def is_package(self, fullname: str) -> bool:
        """Whether it has modules of its own."""
        return Path(self.read[fullname].path).name == "__init__.py"


_TEXTS = _Texts()
_OFFERED: dict[tuple[str, str], tuple[str, Use | None]] = {}  # (registry, name): who offers it; a package has no Use
_DONE = set[str]()  # modules whose offers are in the registries


def use(path: Path) -> ModuleType:
    """Load a user's file and offer what it names.

    Raises SettingsError for a file that does not run, or that offers a name which is taken.
    """
    if not path.is_file() or path.suffix != ".py":
        raise SettingsError(f"{path}: no such Python file; give one that sets METHODS, POPULATIONS or SWEEP")
    try:
        text = path.read_text(encoding="utf-8")
        beside = tuple(_beside(text, path.resolve().parent, {}).values())
        name = f"raypfrl_use_{_digest([text, *(each.text for each in beside)])}"
        return _load(Use((*beside, Text(name, str(path.resolve()), text))))
    except SettingsError:
        raise
    except (Exception, SystemExit) as error:
        raise SettingsError(f"{path}: does not run: {cause(error)}") from error


def install(uses: Iterable[Use]) -> None:
    """Load what has travelled here with a call, each once a process.

    Raises SettingsError for a file that does not run here, as where it reads a file that is not there.
    """
    for each in uses:
        if each.module not in _DONE:
            try:
                _load(each)
            except SettingsError:
                raise
            except (Exception, SystemExit) as error:
                raise SettingsError(f"{each} does not run on {platform.node()}: {cause(error)}") from error


def _arrived(texts: Iterable[Iterable[str]]) -> Use:
    one = Use(tuple(Text(*text) for text in texts))
    _found_by_python()
    for text in one.texts:
        if text.module not in sys.modules:
            _TEXTS.read.setdefault(text.module, text)
    return one


def _found_by_python() -> None:
    if _TEXTS not in sys.meta_path:
        sys.meta_path.insert(0, _TEXTS)


def needed(population: str, method: str) -> tuple[Use, ...]:
    """The files that a run of this method on this population needs, each once."""
    return tuple(dict.fromkeys(one for _, one in _offers(population, method) if one))


def label(population: str, method: str) -> str:
    """The files and packages that a run needs beside raypfrl, by name and hash or version; empty for none."""
    return " ".join(dict.fromkeys(name for name, _ in _offers(population, method)))


def remedy(begun: str) -> str:
    """What to do where trials were begun with files and packages (a ``label``) of which one is not here."""
    here = [name for name, _ in _OFFERED.values()]
    lacking = [name for name in begun.split() if name not in here] or begun.split()
    how = [f"install {name}" if "==" in name else f"give --use {name.rpartition(':')[0]}" for name in lacking]
    others = " ".join(dict.fromkeys(here))
    return f"begun with {begun}: {' and '.join(how)}" + (f"; {others} is another" if others else "")


def offers(module: ModuleType, registry: str) -> list[str]:
    """The names that a file which is in use has put into a registry."""
    offered = [(name, one.module) for (kind, name), (_, one) in _OFFERED.items() if kind == registry and one]
    return [name for name, loaded_by in offered if sys.modules.get(loaded_by) is module]


def find_installed() -> None:
    """Offer what installed packages name by their entry points; each once a process.

    Raises SettingsError for one that cannot be imported.
    """
    for name, point in _points():
        if point.value not in _DONE:
            try:
                module = point.load()
            except Exception as error:
                raise SettingsError(f"{name}: {point.value} cannot be imported: {cause(error)}") from error
            _offer(module, name, None)
            _DONE.add(point.value)


def offering() -> dict[str, str]:
    """The versions of the packages that offer something, by their names."""
    return {point.dist.name: point.dist.version for _, point in _points() if point.dist}


def _points() -> list[tuple[str, EntryPoint]]:
    """The entry points, each with the name and the version of its package."""
    return [(f"{p.dist.name}=={p.dist.version}", p) for p in entry_points(group=GROUP) if p.dist is not None]


def _offers(population: str, method: str) -> list[tuple[str, Use | None]]:
    named = (("POPULATIONS", population), ("METHODS", method))
    return [_OFFERED[name] for name in named if name in _OFFERED]


def _load(one: Use) -> ModuleType:
    _found_by_python()
    for text in one.texts:
        if text.module in sys.modules and not _is_loaded(text):
            raise SettingsError(
                f"{text.path}: another module {text.module} is loaded already; rename the file, or, if it has changed, "
                "begin a new process"
            )
        _TEXTS.read[text.module] = text
        if twin := _twin(text):  # a file that is in use and is imported by another one runs once
            sys.modules.setdefault(text.module, twin)
    module = importlib.import_module(one.module)
    if one.module not in _DONE:
        _offer(module, str(one), one)
        _DONE.add(one.module)
    return module


def _twin(text: Text) -> ModuleType | None:
    """The same file, loaded by another name."""
    names = (n for n, other in _TEXTS.read.items() if (other.path, other.text) == (text.path, text.text))
    return next((sys.modules[name] for name in names if name in sys.modules), None)


def _is_loaded(text: Text) -> bool:
    """Whether a loaded module is this text: as a script, a file has imported those beside it from the disk."""
    if text.module in _TEXTS.read:
        return _TEXTS.read[text.module].text == text.text  # a copy elsewhere is the same file
    file = getattr(sys.modules[text.module], "__file__", None)
    return file is not None and Path(file).resolve() == Path(text.path)


def _offer(module: ModuleType, label: str, one: Use | None) -> None:
    """Put what a module names into the registries; what it has imported from there is no offer.

    Raises SettingsError for a name that is taken, and for what is no method or no population.
    """
    new = [
        (registry, name)
        for registry, there in REGISTRIES.items()
        for name, offered in getattr(module, registry, {}).items()
        if there.get(name) is not offered
    ]
    for registry, name in new:
        if name in REGISTRIES[registry]:
            taken = _OFFERED.get((registry, name), ("raypfrl", None))[0]
            raise SettingsError(f"{name} of {label}: {taken} has one of that name in {registry}; choose another")
        _check(f"{name} of {label}", getattr(module, registry)[name], registry)
    for registry, name in new:
        REGISTRIES[registry][name] = getattr(module, registry)[name]
        _OFFERED[registry, name] = label, one


def _check(name: str, offered: Any, registry: str) -> None:
    """Raises SettingsError for what the registry cannot hold."""
    if registry == "METHODS":
        if not isinstance(offered, Method):
            raise SettingsError(f"{name}: no Method; give Method(...), or averaged(direction)")
        offered.settings  # noqa: B018  as early as here: an annotation may name what is not there
        return
    if not isinstance(offered, Family):
        raise SettingsError(f"{name}: no Family; give Family(build), where build(...) gives a Population")
    plain = [p.name for p in signature(offered.build).parameters.values() if p.kind is not Parameter.KEYWORD_ONLY]
    if plain:
        raise SettingsError(f"{name}: options are keyword-only arguments; put a * before {plain[0]}")
    own_settings(offered.build)


def _beside(text: str, folder: Path, found: dict[str, Text]) -> dict[str, Text]:
    """The files in the same folder that a text imports, and those that these import, by the names of their modules."""
    for name in _imported(ast.parse(text)):
        for path in (folder / f"{name}.py", folder / name / "__init__.py"):
            if name not in found and name not in sys.stdlib_module_names and name != "raypfrl" and path.is_file():
                files = [path] if path.parent == folder else sorted(path.parent.rglob("*.py"))
                for file in files:
                    parts = file.relative_to(folder).with_suffix("").parts
                    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                    found[module] = Text(module, str(file), file.read_text(encoding="utf-8"))
                for file in files:
                    _beside(file.read_text(encoding="utf-8"), folder, found)
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    """The first part of every module's name that is imported anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
