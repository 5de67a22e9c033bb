"""What ``raypfrl list`` shows: everything that can be named, from the registries themselves."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from raypfrl.config import RunConfig
from raypfrl.methods import METHODS
from raypfrl.metrics import METRICS
from raypfrl.populations import POPULATIONS


def listing() -> str:
    """Populations, methods, settings with meaning and default, metrics and sweeps."""
    own = {name for family in POPULATIONS.values() for name in family.paper}
    sweeps = {str(path): _summary(_docstring(path)) for path in sweep_files()}
    return "\n\n".join(
        [
            _section("populations", {name: _summary(family.build.__doc__) for name, family in POPULATIONS.items()}),
            _section("methods", {name: method.summary for name, method in METHODS.items()}),
            _section(
                "settings (KEY of --set KEY=VALUE)",
                {
                    name: f"{field.description} [{'the population’s' if name in own else _default(name)}]"
                    for name, field in RunConfig.model_fields.items()
                    if name not in ("population", "method")
                },
            ),
            _section("metrics", METRICS),
            _section(
                "sweeps (raypfrl sweep FILE)", sweeps or {"none here": "they are in the checkout's tune_configs/"}
            ),
        ]
    )


def sweep_files() -> list[Path]:
    """The sweep files of the checkout that one stands in."""
    return sorted(path for path in Path("tune_configs").glob("*.py") if path.name != "__init__.py")


def _default(name: str) -> str:
    default = RunConfig.model_fields[name].default
    if name == "cohort":
        return "all"
    return " ".join(map(str, default)) or "none" if isinstance(default, tuple) else str(default)


def _section(title: str, lines: Mapping[str, str]) -> str:
    width = max(map(len, lines), default=0)
    return "\n".join([title, *(f"  {name:{width}}  {text}" for name, text in lines.items())])


def _docstring(path: Path) -> str | None:
    try:
        return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    except (SyntaxError, ValueError) as error:
        return f"does not run: {error}"


def _summary(docstring: str | None) -> str:
    """The first sentence."""
    text = " ".join((docstring or "").split())
    return text.split(". ")[0].removesuffix(".")
