"""What a local run opens to others, and what it keeps to itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LISTENING = "0A"
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")

SCRIPT = """
import sys
from pathlib import Path

import pytest

from raypfrl.sweeps.cluster import connected
from raypfrl.federation.actors import AgentActor
import ray

def descendants(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(deeper for child in children for deeper in descendants(int(child)))]

with connected(2):
    ray.get(AgentActor.remote().about.remote())
    import os
    sockets = set()
    for pid in descendants(os.getpid()):
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(handle)
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == "0A" and cells[9] in sockets:
                print("listens on", cells[1].split(":")[0])
"""


@pytest.mark.ray
def test_a_local_run_listens_on_loopback_only() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True)
    addresses = re.findall(r"^listens on (\w+)$", done.stdout, re.MULTILINE)
    assert len(addresses) >= 3, "raylet, GCS and workers listen"
    assert set(addresses) <= set(LOOPBACK)


def test_the_image_is_made_of_named_files_only() -> None:
    root = Path(__file__).parents[2]
    lines = (root / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    assert [line for line in lines if line and line[0] not in "#!"] == ["*", "**/__pycache__"]
    copied = [
        word.removeprefix("./")
        for line in (root / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
        if not word.startswith("--")
    ]
    assert set(copied) == allowed
    assert all((root / name).exists() for name in copied)


def test_no_secret_is_written(tmp_path: Path) -> None:
    secret = "5ec7e7" * 7
    environment = {**os.environ, "WANDB_API_KEY": secret[:40], "WANDB_MODE": "offline"}
    command = [sys.executable, "-m", "raypfrl.cli", "run", "gridworld", "exact", "--set", "rounds=1", "--actors", "0"]
    settings = ["--set", "oracle=exact", "--out", str(tmp_path / "out")]
    done = subprocess.run(command + settings, env=environment, capture_output=True, text=True, timeout=120, check=True)
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if secret[:40].encode() in path.read_bytes()]
    assert secret[:40] not in done.stdout + done.stderr
