"""Where a run begins: the setting ``theta0`` as a vector."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np

from raypfrl.policies import Policy, Vector
from raypfrl.settings import SettingsError
from raypfrl.streams import SERVER, Purpose, Stream

SHARED = "shared"  # the family's own, draw 0
PAPER = 123  # the seed of the reference's only theta^0, of NumPy's default generator
MARK = "@"  # between a file and the hash of the theta in it


def begin(theta0: int | str, policy: Policy) -> tuple[int | str, Vector | None]:
    """``theta0`` as equal runs name it, and theta^0 (d,), or None for the family's shared one.

    paper: drawn as the paper's own code does. A number: another draw of the policy's initialisation (0 is the shared
    one). Else the checkpoint of a finished trial, or any .npz file with a theta; it is named with the hash of that
    theta, and a later look finds the same one or refuses. Raises SettingsError for what cannot be begun from.
    """
    if theta0 in (SHARED, 0):
        return SHARED, None
    if theta0 == "paper":
        return theta0, policy.init(np.random.default_rng(PAPER))
    if not isinstance(theta0, int):
        return _from_file(theta0, policy)
    if not 0 <= theta0 < 2**32:
        raise SettingsError(f"theta0 = {theta0}: give shared, paper, a draw from 1 to {2**32 - 1}, or a file")
    shared, drawn = (
        policy.init(Stream(draw, SERVER, 0, 0, Purpose.INIT).generator()) for draw in (0, theta0)
    )  # fmt: skip
    if np.array_equal(shared, drawn):
        raise SettingsError(f"theta0 = {theta0}: the policy begins at the same theta whatever is drawn; leave it out")
    return theta0, drawn


def _from_file(theta0: str, policy: Policy) -> tuple[str, Vector]:
    name, mark, expected = theta0.rpartition(MARK) if _hashed(theta0) else (theta0, "", "")
    path = Path(name)
    if not path.is_file():
        raise SettingsError(f"theta0 = {name!r}: no such file; give shared, paper, a number, or checkpoints/TRIAL.npz")
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            theta = np.array(arrays["theta"], np.float64)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile):
        raise SettingsError(f"theta0 = {name!r}: no .npz file with an array theta; give a trial's checkpoint") from None
    if theta.shape != (policy.dim,) or not np.isfinite(theta).all():
        wanted = f"({policy.dim},) finite numbers"
        raise SettingsError(f"theta0 = {name!r}: its theta is {theta.shape}, and the policy needs {wanted}")
    found = hashlib.sha256(theta.tobytes()).hexdigest()[:12]
    if mark and found != expected:
        raise SettingsError(f"theta0 = {theta0!r}: the theta in that file is another now ({found}); give the file anew")
    return f"{name}{MARK}{found}", theta


def _hashed(theta0: str) -> bool:
    end = theta0.rpartition(MARK)[2]
    return MARK in theta0 and len(end) == 12 and set(end) <= set("0123456789abcdef")
