"""The names that W&B takes: its limits, applied here and nowhere else.

What is too long is cut, with a mark made of the whole, so that what was different stays different. The limits are
counted in bytes of UTF-8, the strictest reading; emoji and slashes are W&B's to show, except where it refuses them.
"""

from __future__ import annotations

import hashlib
import re

LIMITS = {"project": 128, "group": 128, "job_type": 64, "name": 128, "tag": 64}  # bytes
PLAIN = 64  # bytes of a run's id and of an artifact's name, which take letters, digits, - and _ only


def fitted(kind: str, text: str) -> str:
    """``text`` as W&B takes it for a ``kind`` of name (a key of ``LIMITS``)."""
    sound = text.encode("utf-8", "backslashreplace").decode()  # a file's name may be no text
    refused, instead = (r"[/\\#?%:\x00-\x1f\x7f]", "-") if kind == "project" else (r"[\x00-\x1f\x7f]", " ")
    shown = re.sub(refused, instead, sound).strip() or "-"
    return shown if len(shown.encode()) <= LIMITS[kind] else _cut(shown, LIMITS[kind], f"…{_digest(sound)}")


def run_id(sweep: str, trial: str) -> str:
    """The W&B run of a trial, the same whenever and wherever it is run, and no other sweep's. Artifacts are named
    likewise."""
    room, plain = PLAIN - len(trial) - 1, re.sub(r"[^A-Za-z0-9_-]", "-", sweep)
    return f"{plain if plain == sweep and len(plain) <= room else _cut(plain, room, f'-{_digest(sweep)}')}-{trial}"


def _cut(text: str, most: int, mark: str) -> str:
    return text.encode()[: most - len(mark.encode())].decode(errors="ignore").rstrip() + mark


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
