"""How a Ray of our own starts and ends: slowly, not at all, and under signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray

from raypfrl import SettingsError
from raypfrl.cli import main
from raypfrl.sweeps import cluster
from raypfrl.sweeps.cluster import connected

BANDIT = {"population": "bandit", "method": "exact", "oracle": "exact", "rounds": 2, "evaluate": 1}


def test_a_slow_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def slow(address: str) -> str:
        asked.append(address)
        if len(asked) < 4:
            raise RuntimeError("not yet")
        return "the node"

    monkeypatch.setattr(cluster.services, "get_node", slow)
    monkeypatch.setattr(cluster.time, "sleep", lambda _: None)
    with cluster._of_its_own():
        assert cluster.services.get_node("here") == "the node"
    assert asked == ["here"] * 4
    assert cluster.services.get_node is slow


def test_a_ray_whose_processes_die_as_it_starts_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine its processes give each other up."""
    tries: list[subprocess.Popen[bytes]] = []

    def start(*_: Any, **__: Any) -> None:
        tries.append(cluster.services.ConsolePopen(["false"] if len(tries) < 2 else ["sleep", "60"]))
        if len(tries) < 3:
            tries[-1].wait()
            cluster.services.get_node("here")

    def gone(address: str) -> str:
        raise RuntimeError("not here")

    monkeypatch.setattr(cluster, "_init", start)
    monkeypatch.setattr(cluster.services, "get_node", gone)
    assert not cluster._started(1, last=False)
    with pytest.raises(SettingsError, match=r"Ray did not start \(not here\)"):
        cluster._started(1, last=True)
    assert cluster._started(1, last=True)
    assert tries[-1].poll() is None
    tries[-1].kill()
    tries[-1].wait()


def test_a_ray_that_does_not_start_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen ...")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    file = tmp_path / "file.py"
    file.write_text(f"from raypfrl.sweeps import Sweep\nSWEEP = Sweep(base={BANDIT}, seeds=1)\n")
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--tracking", "off"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("raypfrl: Ray did not start (The current node timed out during startup.")
    assert not (tmp_path / "out").exists()


def test_sigterm_as_ray_starts_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray takes it by sys.exit."""

    def told(**_: Any) -> None:
        raise SystemExit(signal.SIGTERM)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", told)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(KeyboardInterrupt), connected(2):
        pass


OWN_RAY = """
import os, signal
from ray._private import worker
from ray._private.node import Node
from raypfrl.exits import terminable
from raypfrl.sweeps.cluster import connected

kill, orders = Node.kill_all_processes, ["SIGTERM"]

def struck(*arguments, **options):
    if orders:
        os.kill(os.getpid(), getattr(signal, orders.pop()))
    kill(*arguments, **options)

try:
    with terminable(), connected(1):
        kinds = worker._global_node.all_processes
        print(*{os.getpgid(each.process.pid) for kind in kinds.values() for each in kind}, os.getpgid(0))
        Node.kill_all_processes = struck
except KeyboardInterrupt:
    print("heard")
"""


def test_a_ray_of_our_own_and_signals() -> None:
    """Its processes are in groups of their own, and SIGTERM is heard while it ends, when its compiled part has taken
    the handler away."""
    done = subprocess.run([sys.executable, "-c", OWN_RAY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, groups, heard = done.stdout.splitlines()
    assert said == "starting Ray ..."  # before the seconds that it takes
    *theirs, ours = groups.split()
    assert len(theirs) >= 2
    assert ours not in theirs
    assert ours == str(os.getpgid(0))
    assert heard == "heard"
