"""Ray's cluster launcher and jobs, for real: ``ray up`` and ``ray submit`` over ssh to 127.0.0.1, with an sshd of the
test's own, and ``ray job submit`` to a local head. They need root, sshd, rsync, and ray[default]."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scene import SWEEP, values

ROOT = Path(__file__).parents[2]
PORT, SSH_PORT, DASHBOARD_PORT = 6399, 2299, 8299
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.getuid() != 0, reason="an sshd that lets this user in needs root"),
    pytest.mark.skipif(not SSHD or not shutil.which("rsync"), reason="there is no sshd or no rsync"),
]


class Site:
    """A home folder of its own, in which sshd and everything that comes over ssh live."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            "HOME": str(home),
            "PATH": f"{home}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_ADDRESS": f"127.0.0.1:{PORT}",
            "RAY_AUTH_MODE": "token",
            "RAY_TMPDIR": str(home / "ray"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "WANDB_MODE": "disabled",
        }

    def run(self, *command: object, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command], env={**os.environ, **self.environment, **more}, cwd=self.home,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def end_nodes(self) -> None:
        """End every process of this home, and no other: ``ray stop`` would end all of Ray's on the machine."""
        for _ in range(2):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    mine = f"HOME={self.home}".encode() in (process / "environ").read_bytes().split(b"\0")
                    if mine:
                        os.kill(int(process.name), signal.SIGKILL)
                except OSError:
                    continue
            time.sleep(1)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    home = Path("/tmp") / f"rp{os.getpid()}"  # short: a socket's path has at most 107 characters
    (home / "bin").mkdir(parents=True)
    site = Site(home)
    for name in ("key", "host"):
        site.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / name)
    names = " ".join(f"{name}={value}" for name, value in site.environment.items())
    (home / "sshd_config").write_text(
        f"Port {SSH_PORT}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nHostKey {home}/host\nStrictModes no\n"
        f"AuthorizedKeysFile {home}/key.pub\nPasswordAuthentication no\nPidFile none\nSetEnv {names}\n"
    )
    (home / ".profile").write_text(f"export PATH={site.environment['PATH']}\n")  # a login shell begins with its own
    ssh = home / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -p {SSH_PORT} -i {home}/key "$@"\n')  # ssh's ~ is not $HOME
    ssh.chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)
    assert site.run("ray", "get-auth-token", "--generate").returncode == 0
    (home / "files").mkdir()
    (home / "files" / "small.py").write_text(
        "from raypfrl.cli import run_file\nfrom raypfrl.sweeps import Sweep\n\n"
        f"SWEEP = Sweep(base={SWEEP.base}, grids={SWEEP.grids}, seeds=2)\n\n"
        'if __name__ == "__main__":\n    run_file(__file__)\n'
    )
    server = subprocess.Popen([str(SSHD), "-D", "-f", str(home / "sshd_config")])
    yield site
    site.end_nodes()
    server.terminate()
    server.wait()
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def here(site: Site) -> dict[str, Any]:
    """The sweep on this machine alone."""
    done = site.run(sys.executable, "files/small.py", "--out", site.home / "here", RAY_ADDRESS="local")
    assert done.returncode == 0, done.stderr
    return values(site.home / "here")


def test_up_and_submit(site: Site, here: dict[str, Any]) -> None:
    """The on-premise template with this machine as both nodes: no Docker, and no ``ray stop``."""
    cluster = yaml.safe_load((ROOT / "cluster" / "on_premise.yaml").read_text())
    del cluster["docker"]
    cluster["provider"] = {"type": "local", "head_ip": "127.0.0.1", "worker_ips": ["127.0.0.2"]}
    cluster["auth"] = {"ssh_user": "root", "ssh_private_key": str(site.home / "key")}
    cluster["min_workers"] = cluster["max_workers"] = 1
    for commands in ("head_start_ray_commands", "worker_start_ray_commands"):
        cluster[commands] = [line.replace("6379", str(PORT)) for line in cluster[commands] if line != "ray stop"]
    cluster["head_start_ray_commands"][0] += " --num-cpus=1 --node-ip-address=127.0.0.1"
    cluster["worker_start_ray_commands"][0] += " --num-cpus=1 --node-ip-address=127.0.0.2"
    (site.home / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    up = site.run("ray", "up", "-y", "--no-config-cache", "cluster.yaml")
    assert up.returncode == 0, up.stdout + up.stderr

    sweep = ["--seeds", 2, "--cpus", 2, "--out", site.home / "submitted"]
    submitted = site.run("ray", "submit", "cluster.yaml", "files/small.py", "--", *sweep)
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert "on 2 nodes" in submitted.stdout
    assert values(site.home / "submitted") == here

    wrong = site.run("ray", "submit", "cluster.yaml", "files/small.py", "--", "--seeds", 0)
    assert wrong.returncode != 0
    assert "give at least one seed" in wrong.stdout + wrong.stderr
    site.end_nodes()


@pytest.mark.skipif(importlib.util.find_spec("aiohttp_cors") is None, reason="there is no ray[default]")
def test_job_submit(site: Site, here: dict[str, Any]) -> None:
    head = site.run("ray", "start", "--head", f"--port={PORT}", "--num-cpus=2", f"--dashboard-port={DASHBOARD_PORT}")
    assert head.returncode == 0, head.stdout + head.stderr
    address = f"http://127.0.0.1:{DASHBOARD_PORT}"
    for out, seeds, status in (("job", "2", 0), ("wrong", "0", 1)):
        command = [sys.executable, "small.py", "--seeds", seeds, "--out", site.home / out]
        submit = ["ray", "job", "submit", "--working-dir", site.home / "files", "--"]
        done = site.run(*submit, *command, RAY_ADDRESS=address)
        assert done.returncode == status, done.stdout + done.stderr
    assert values(site.home / "job") == here
    site.end_nodes()
