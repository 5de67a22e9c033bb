"""Texts that come from elsewhere (exceptions, environments, paths), made fit for one line of a table or a terminal."""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path

LONGEST = 500  # characters of a message
COLUMNS = 100  # of a listing


def printable(text: str) -> str:
    """The text with every character escaped that no line can show: newlines, NUL, lone surrogates."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def message(text: str) -> str:
    """The text in one line; a long one is cut, and says so."""
    cut = f"{text[:LONGEST]}... ({len(text)} characters)" if len(text) > LONGEST else text
    return printable(cut)


def short(value: object) -> str:
    """A value as Python writes it, cut after 80 characters, for within a message."""
    text = repr(value)
    return f"{text[:80]}... ({len(text)} characters)" if len(text) > 80 else text


def cause(error: BaseException) -> str:
    """An exception's kind and what it says, as a message."""
    try:
        said = str(error)
    except Exception:  # its own __str__ raises
        said = "(its message cannot be had)"
    return message(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def entries(texts: Mapping[str, str], width: int = 0) -> str:
    """A name a line, with its text beside it: long lines are wrapped, and a line break in a text stays one."""
    width = max(width, *map(len, texts), 0)
    lines = []
    for name, text in texts.items():
        wrapped = [
            row
            for line in text.splitlines() or [""]
            for row in textwrap.wrap(line, COLUMNS - width - 4, break_long_words=False, break_on_hyphens=False) or [""]
        ]
        lines += [f"  {head:{width}}  {row}".rstrip() for head, row in zip([name, *[""] * len(wrapped)], wrapped)]  # noqa: B905
    return "\n".join(lines)


def pasted(path: Path) -> str:
    """A path as a shell's word, whatever is in it."""
    text = str(path)
    if text.isprintable():
        return shlex.quote(text)
    plain = (chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\x{b:02x}" for b in os.fsencode(path))
    return f"$'{''.join(plain)}'"
