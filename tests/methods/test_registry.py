"""What the registry says of its methods, and that docs/methods.md says the same."""

from __future__ import annotations

import re
from inspect import Parameter
from pathlib import Path

import pytest
from cases import few, home
from test_asks import VARIANTS

from raypfrl import Training
from raypfrl.methods import METHODS, WRAPPERS, Method
from raypfrl.settings import LETTERS, own_settings

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("`"): cells
    for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if "|" in line)
    if cells[0].startswith("`")
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_a_methods_settings_say_what_they_mean_and_its_summary_is_a_line(method: Method) -> None:
    for name, letter in method.settings.items():
        assert letter.description, name
        assert "\n" not in letter.description
    assert 20 < len(method.summary) < 300
    assert "\n" not in method.summary


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_where_it_is_from_and_how_near_it_is(name: str) -> None:
    source = METHODS[name].source
    assert "reproduced" in source or "reconstructed" in source or source.startswith("inspired by ")
    assert "\n" not in source


def test_the_page_has_a_row_for_every_method_in_the_registrys_order() -> None:
    assert [*ROWS] == [*METHODS]


@pytest.mark.parametrize("name", METHODS)
def test_a_row_says_what_the_method_does(name: str) -> None:
    """Floats as they are counted in a round; what is kept as it is; questions and settings as they are declared."""
    method, config = METHODS[name], few(home(name), name)
    server = Training(config).server
    server.run_round()
    floats, rest = divmod(server.spent.floats_sent // config.cohort, config.build_population().policy.dim)
    more = f" + {rest}" if rest == 1 else ""
    sends = "2 × body" if rest > 1 else f"{floats} d{more}" if floats else "0"
    keeps = ", ".join(next(iter(server.kept.values()))) or "–"
    variants = [few(home(name), name, **settings) for other, settings in VARIANTS if other == name]
    asked = sorted(set[str]().union(*(method.asks(variant.letters) for variant in variants)))
    own = [
        x if letter.default is Parameter.empty else f"{x} [{'off' if letter.default is None else letter.default}]"
        for x, letter in sorted(method.settings.items())
        if x not in LETTERS or x == "inner_steps"
    ]
    expected = [f"`{name}`", method.source, sends, keeps, ", ".join(asked) or "–", ", ".join(own) or "–"]
    assert ROWS[name][:-1] == expected, " | ".join(expected)


@pytest.mark.parametrize("name", METHODS)
def test_a_row_names_a_test_that_is_there(name: str) -> None:
    for file, test in re.findall(r"`(\w+)::(\w+)`", ROWS[name][-1]):
        assert f"def {test}(" in (ROOT / "tests" / "methods" / f"{file}.py").read_text(encoding="utf-8")
    assert "::" in ROWS[name][-1]


def test_the_page_names_every_setting_of_the_wrappers() -> None:
    for wrapper in WRAPPERS:
        for setting in own_settings(wrapper):
            assert f"`{setting}`" in PAGE
