"""Which code makes the numbers: a hash of the source that computes results, and the commit that it is of."""

from __future__ import annotations

import ast
import hashlib
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

# What asks, places, writes and shows. All else computes, and what computes imports nothing of these.
AROUND = (
    "__init__.py", "check", "cli.py", "doctor.py", "exits.py", "federation/actors.py", "listing.py", "metrics.py",
    "rollouts.py", "sweeps", "tracking",
)  # fmt: skip


@cache
def source() -> str:
    """Twelve hex digits for all of the package's source that computes results; a user's own files are in the trial's
    setting ``uses``. Comments, docstrings and layout are no part of it."""
    named = ((path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")) for path in computing())
    return _hash(part for name, text in named for part in (name, meaning(text)))


def computing() -> Iterator[Path]:
    """The package's files that compute results."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not any(f"{name}/".startswith(f"{around}/") for around in AROUND):
            yield path


def installed() -> str:
    """Twelve hex digits for the bytes of the whole package: two installations of one version can still differ."""
    return _hash(path.read_bytes() for path in sorted(PACKAGE.rglob("*.py")))


def git_commit() -> str | None:
    """The commit that the package's files are of; with + and a hash of them where they are not as committed; None
    where they are no files of a checkout, as in an environment that lies inside one."""
    try:
        _git("ls-files", "--error-unmatch", "__init__.py")
        commit, changed = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+{installed()}" if changed else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=PACKAGE, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def meaning(text: str) -> str:
    """The text of a Python file without what computes nothing."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return ast.unparse(tree)


def _hash(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:12]
