"""A user's own files, as docs/extending.md shows them, and a process that forgets them again."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium

from raypfrl import uses
from raypfrl.sweeps.sweep import load, shipped

DOCS = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", DOCS, re.DOTALL))
BESIDE = {"physics", "my_study", "constants", "world", "world.wind", "world.other"}
SMALL = ["rounds=3", "tau=2", "n=2", "evaluate=1", "m_in=2", "m_h=2", "m_out=2", "m_adapt=[0,2]", "m_eval=4"]
SET = [word for setting in SMALL for word in ("--set", setting)]


def study(folder: Path, old: str = "", new: str = "", name: str = "my_study.py") -> Path:
    """The study and the file beside it in a folder, with ``new`` in place of ``old``."""
    assert old in FILES["my_study.py"] + FILES["physics.py"]
    for file, text in FILES.items():
        (folder / (name if file == "my_study.py" else file)).write_text(text.replace(old, new), encoding="utf-8")
    return folder / name


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Afterwards the process is as before: what is loaded within is not."""
    kept = [*uses.REGISTRIES.values(), uses._OFFERED, uses._TEXTS.read, gymnasium.registry]
    before, modules, done = [dict(each) for each in kept], set(sys.modules), set(uses._DONE)
    try:
        yield
    finally:
        for each, was in zip(kept, before, strict=True):
            each.clear()
            each.update(was)
        uses._DONE.intersection_update(done)
        for name in set(sys.modules) - modules:
            if name.startswith("raypfrl_use_") or name in BESIDE:
                del sys.modules[name]


@contextlib.contextmanager
def offered(sweep: str) -> Iterator[None]:
    """Within, what a shipped sweep offers of its own is there."""
    with forgotten():
        load(shipped()[sweep])
        yield
