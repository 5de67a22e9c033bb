"""Texts from elsewhere in one line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from raypfrl.text import LONGEST, cause, message, pasted, printable, short


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain, with 'quotes' and 10 %", "plain, with 'quotes' and 10 %"),
        ("Magnússon 🙂", "Magnússon 🙂"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("a\0b\x1b[31m", "a\\x00b\\x1b[31m"),
        ("caf\udce9", "caf\\udce9"),
        ("a\u2028b\x85", "a\\u2028b\\x85"),
        ("", ""),
    ],
)
def test_a_line_says_what_it_cannot_show(text: str, line: str) -> None:
    assert printable(text) == message(text) == line
    line.encode()


def test_a_long_message_is_cut_and_says_so() -> None:
    assert message("x" * LONGEST) == "x" * LONGEST
    cut = message("x\n" * 500_000)
    assert cut.startswith("x\\nx\\n")
    assert cut.endswith("... (1000000 characters)")
    assert short("a\nb") == "'a\\nb'"
    assert short(tuple(range(500))).startswith("(0, 1, 2, ")
    assert short(tuple(range(500))).endswith("... (2390 characters)")
    assert len(cut) < 2 * LONGEST
    assert len(printable("x" * 10_000)) == 10_000


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("caf\udce9"), "ValueError: caf\\udce9"),
        (KeyError("a"), "KeyError: 'a'"),
        (StopIteration(), "StopIteration"),
        (Mute(), "Mute: (its message cannot be had)"),
    ],
)
def test_a_cause_is_its_kind_and_its_words(error: Exception, said: str) -> None:
    assert cause(error) == said


@pytest.mark.parametrize("name", ["plain", "two words", "it's", '$HOME `x` "q"', "a\nb", "ö\\n", b"caf\xe9 '\\"])
def test_a_path_can_be_pasted_into_a_shell(name: str | bytes) -> None:
    path = Path("/tmp") / os.fsdecode(name)
    shown = pasted(path)
    assert shown.isprintable()
    printed = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True).stdout
    assert printed == os.fsencode(path)
