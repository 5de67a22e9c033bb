"""Several nodes: the bytes of one, the loss of one, and what is refused before training starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from scene import SWEEP, launched, values
from strikes import order

import raypfrl
from raypfrl import SettingsError
from raypfrl.sweeps.nodes import check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
privileged = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"),
    reason="namespaces need root and iproute2",
)
PORT = 6398
RAY = [sys.executable, "-m", "ray.scripts.scripts"]


@pytest.fixture
def cluster(orders: Path) -> Iterator[Cluster]:
    """A head without CPUs, so that trials and agents are elsewhere."""
    order(orders)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def connect(cluster: Cluster) -> None:
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)


@pytest.mark.parametrize(("nodes", "strategy"), [(2, "SPREAD"), (3, "PACK")])
def test_many_nodes_give_the_bytes_of_one(
    quiet: dict[str, Any],
    cluster: Cluster,
    tmp_path: Path,
    nodes: int,
    strategy: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for _ in range(nodes):
        cluster.add_node(num_cpus=1)
    connect(cluster)
    assert launched(tmp_path / "sweep", strategy=strategy) == 0
    assert f"on {nodes + 1} nodes" in capfd.readouterr().out
    assert values(tmp_path / "sweep") == quiet


def test_a_lost_node_changes_nothing(quiet: dict[str, Any], orders: Path, cluster: Cluster, tmp_path: Path) -> None:
    for _ in range(2):
        cluster.add_node(num_cpus=2)
    connect(cluster)
    order(orders, "agent.1.node")
    assert launched(tmp_path / "sweep") == 0
    assert not list(orders.iterdir()), "the strike did not happen"
    assert values(tmp_path / "sweep") == quiet
    assert "died" in (tmp_path / "sweep" / "log.txt").read_text()


class Host:
    """A node as a process of its own, started by ``prefix`` (a namespace and what is mounted or routed there)."""

    def __init__(self, prefix: list[str], *arguments: str, **more: str) -> None:
        environment = {**os.environ, "RAY_TMPDIR": f"{tempfile.gettempdir()}/rp{os.getpid()}", **more}
        self._process = subprocess.Popen(
            [*prefix, *RAY, "start", "--block", *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=environment,
        )  # fmt: skip

    def end(self) -> None:
        for pid in _descendants(self._process.pid):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        self._process.wait()


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = children.read_text().split() if children.exists() else []
    return [deeper for child in found for deeper in _descendants(int(child))] + [pid]


def mounted(command: str) -> list[str]:
    """A prefix: what follows sees its own mounts."""
    return ["unshare", "--mount", "sh", "-c", f'{command} && exec "$0" "$@"']


@privileged
@pytest.mark.parametrize(
    ("hide", "said"),
    [
        ("mount -t tmpfs none {package}", "raypfrl cannot be imported"),
        ("mount --bind {other} {package}", "source .* install the same versions on every node"),
        ("mount -t tmpfs none {results}", "does not see: they would be lost with this node's disk"),
    ],
    ids=["no package", "another version", "another disk"],
)
def test_a_node_that_does_not_fit_is_named_before_training(
    cluster: Cluster, tmp_path: Path, hide: str, said: str
) -> None:
    package, other, results = Path(raypfrl.__file__).parent, tmp_path / "other", tmp_path / "results"
    shutil.copytree(package, other)
    (other / "metrics.py").write_text((other / "metrics.py").read_text() + "\n# another version\n")
    results.mkdir()
    host = Host(
        mounted(hide.format(package=package, other=other, results=results)),
        f"--address={cluster.address}",
        "--num-cpus=2",
    )
    try:
        _until(lambda: len(cluster.list_all_nodes()) > 0)
        ray.init(address=cluster.address, log_to_driver=False)
        _until(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
        with pytest.raises(SettingsError, match=said):
            launched(results / "sweep")
        assert not (results / "sweep").exists()
        if "disk" in said:
            assert check(results / "sweep", own_disk=True) == 2
    finally:
        host.end()


@pytest.fixture
def hosts() -> Iterator[Callable[..., None]]:
    """Three hosts on a network of their own: namespaces rp0, rp1 and rp2 behind a bridge."""

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    ip("link", "add", "rpbr", "type", "bridge")
    ip("addr", "add", "10.77.0.1/24", "dev", "rpbr")
    ip("link", "set", "rpbr", "up")
    for number in range(3):
        name = f"rp{number}"
        ip("netns", "add", name)
        ip("link", "add", f"rpv{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", f"rpv{number}", "master", "rpbr", "up")
        ip("-n", name, "addr", "add", f"10.77.0.1{number}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "route", "add", "default", "via", "10.77.0.1")
    yield ip
    for number in range(3):
        ip("netns", "del", f"rp{number}")
    ip("link", "del", "rpbr")


@privileged
def test_a_host_that_is_cut_off_changes_nothing(
    quiet: dict[str, Any], orders: Path, hosts: Callable[..., None], tmp_path: Path
) -> None:
    """The driver is on the first host; the second has the agents and is cut off in round 1; the third has room."""
    subprocess.run([*RAY, "get-auth-token", "--generate"], stdout=subprocess.DEVNULL, check=True)
    file = tmp_path / "small.py"
    file.write_text(
        f"from raypfrl.sweeps import Sweep\n\nSWEEP = Sweep(base={SWEEP.base}, grids={SWEEP.grids}, seeds=1)\n"
    )
    address, token = f"10.77.0.10:{PORT}", {"RAY_AUTH_MODE": "token"}
    on = [["ip", "netns", "exec", f"rp{number}"] for number in range(3)]
    started = [Host(on[0], "--head", f"--port={PORT}", "--node-ip-address=10.77.0.10", "--num-cpus=0",
                    "--include-dashboard=false", **token)]  # fmt: skip
    order(orders, "agent.1.cut")
    try:
        started.append(Host(on[1], f"--address={address}", "--node-ip-address=10.77.0.11", "--num-cpus=2", **token))
        driver = subprocess.Popen(
            [*on[0], sys.executable, str(Path(__file__).parent / "strikes.py"), "sweep", str(file), "--cpus", "2",
             "--out", str(tmp_path / "sweep"), "--tracking", "off"],
            env={**os.environ, "RAY_ADDRESS": address, **token},
        )  # fmt: skip
        _until(lambda: not list(orders.iterdir()), 240)
        started.append(Host(on[2], f"--address={address}", "--node-ip-address=10.77.0.12", "--num-cpus=2", **token))
        hosts("link", "set", "rpv1", "down")
        assert driver.wait(240) == 0
        assert values(tmp_path / "sweep") == quiet
        assert "Its node died." in (tmp_path / "sweep" / "log.txt").read_text()
    finally:
        driver.kill()
        for host in reversed(started):
            host.end()


def _until(true: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "the nodes did not come up"
        time.sleep(0.5)
