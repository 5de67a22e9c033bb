"""Which code made a number: what counts as a change of source, and whose commit is claimed."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from raypfrl.sweeps import source as module
from raypfrl.sweeps.source import AROUND, PACKAGE, computing, git_commit, meaning, source

TEXT = '"""Doc."""\n\n\ndef f(x):\n    """Doc."""\n    return x + 1\n'


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (TEXT.replace("Doc.", "Another."), True),
        (TEXT.replace("    return", "    # why\n\n    return"), True),
        (TEXT.replace('    """Doc."""\n', ""), True),
        (TEXT.replace("x + 1", "(x\n            + 1)"), True),
        (TEXT.replace("x + 1", "x + 2"), False),
        (TEXT.replace("x + 1", "x + 1.0"), False),
        (TEXT.replace("def f(x):", "@twice\ndef f(x):"), False),
        (TEXT + "\n\ng = f\n", False),
    ],
)
def test_what_computes_counts_and_nothing_else(other: str, same: bool) -> None:
    assert (meaning(TEXT) == meaning(other)) is same


def test_the_packages_own_computing_files_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "raypfrl"
    for name in ("methods/exact.py", "sweeps/launch.py", "federation/agent.py", "federation/actors.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(TEXT)
    monkeypatch.setattr(module, "PACKAGE", package)

    def after(name: str, text: str) -> str:
        (package / name).write_text(text)
        source.cache_clear()
        return source()

    first = after("methods/exact.py", TEXT)
    changed = TEXT.replace("1", "2")
    assert after("sweeps/launch.py", changed) == after("federation/actors.py", changed) == first
    assert len({first, after("federation/agent.py", changed), after("methods/new.py", "")}) == 3
    source.cache_clear()


def test_what_computes_imports_nothing_of_what_is_around() -> None:
    """Else a change there could change a number unseen."""
    files = list(computing())
    assert {"streams.py", "server.py", "exact.py", "config.py", "agent.py"} <= {path.name for path in files}
    around = {name.removesuffix(".py").replace("/", ".") for name in AROUND}
    assert all((PACKAGE / name).exists() for name in AROUND)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            inner = [name.removeprefix("raypfrl.") for name in names if name.startswith("raypfrl.")]
            met = [name for name in inner if any(f"{name}.".startswith(f"{other}.") for other in around)]
            assert not met, f"{path} imports {met}"


def git(folder: Path, *arguments: str) -> str:
    named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *named, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_commit_is_claimed_for_its_own_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("checkout/raypfrl", "checkout/.venv/raypfrl", "elsewhere/raypfrl"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("x = 1\n")
    checkout, package = tmp_path / "checkout", tmp_path / "checkout" / "raypfrl"
    (checkout / "notes.md").write_text("a")
    git(checkout, "init", "-q")
    git(checkout, "add", "raypfrl", "notes.md")
    git(checkout, "commit", "-qm", "first")
    commit = git(checkout, "rev-parse", "HEAD")

    def claimed(folder: Path) -> str | None:
        monkeypatch.setattr(module, "PACKAGE", folder)
        return git_commit()

    assert claimed(package) == commit
    (checkout / "notes.md").write_text("b")
    assert claimed(package) == commit, "what is around the package makes no number"
    assert claimed(checkout / ".venv" / "raypfrl") is None, "an environment inside a checkout"
    assert claimed(tmp_path / "elsewhere" / "raypfrl") is None
    trees = [commit]
    for name, text in (("__init__.py", "x = 2\n"), ("__init__.py", "x = 3\n"), ("new.py", "y = 1\n")):
        (package / name).write_text(text)
        trees.append(claimed(package) or "")
    assert len(set(trees)) == 4
    assert all(tree.startswith(f"{commit}+") for tree in trees[1:])
