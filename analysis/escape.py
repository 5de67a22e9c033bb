"""Text that came from a run (a message, a name, a label, a path) as text: in whatever it is written into, it is no
command. The report page needs nothing of this: its data travels as base64, and is shown by ``textContent``."""

from __future__ import annotations

import re

LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip


def line(text: object) -> str:
    """One line for a terminal: what cannot be printed (line ends, escape sequences) by its code."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def mathtext(text: object) -> str:
    """For matplotlib: a dollar is a dollar."""
    return line(text).replace("$", r"\$")


def markdown(text: object) -> str:
    """For a cell of a Markdown table: no markup, no HTML, no link, no further cell."""
    return re.sub(r"([\\`*_\[\]<>|~$&:@]|(?<=www)\.)", r"\\\1", line(text))


def latex(text: object) -> str:
    """For LaTeX's text mode."""
    return "".join(LATEX.get(c, c) for c in line(text))


def csv(text: object) -> str:
    """For a cell of a CSV file: no formula, for a spreadsheet that would compute it. Numbers stay numbers."""
    shown = line(text)
    formula = shown.startswith(("=", "+", "-", "@")) and not _number(shown)
    return f"'{shown}" if formula else shown


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
