"""An ARM core computes the same theta, to the byte: under qemu, with an aarch64 Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ARM = Path(os.environ.get("RAYPFRL_ARM", ROOT / ".arm"))
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
LACKING = (
    "no qemu: apt-get install qemu-user-static"
    if QEMU is None
    else f"no aarch64 Python in {ARM.name}: bash tests/arm/prepare.sh .arm"
)


@pytest.mark.slow
@pytest.mark.skipif(QEMU is None or not (ARM / "root").is_dir(), reason=LACKING)
def test_theta_has_the_same_bytes_on_arm(tmp_path: Path) -> None:
    """Both compile anew: the cache is in a folder of their own."""
    surroundings = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "x86")}
    ours = printed([sys.executable, "train.py"], {**os.environ, **surroundings})
    python = [str(QEMU), "-L", str(ARM / "root"), str(ARM / "root/usr/bin/python3.11")]
    theirs = printed(
        [*python, "train.py"],
        {
            "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "arm"),
            "PYTHONPATH": f"{ROOT}:{ARM / 'site'}", "PYTHONHOME": str(ARM / "root/usr"),
        },
    )  # fmt: skip
    assert len(ours) == 4
    assert theirs == ours


def printed(command: list[str], surroundings: dict[str, str]) -> list[str]:
    """The lines of a command's output."""
    done = subprocess.run(command, cwd=HERE, env=surroundings, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
