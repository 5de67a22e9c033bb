"""The files for clusters: valid for what reads them, with the fixes that they must keep."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parents[2]
LAUNCHER = [ROOT / "tune_configs" / "cluster.yaml", ROOT / "cluster" / "on_premise.yaml"]


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", LAUNCHER, ids=lambda path: path.name)
def test_ray_takes_the_launchers_files(path: Path) -> None:
    config = read(path)
    validate_config(prepare_config(config))  # type: ignore[no-untyped-call]
    head = " ".join(config["head_start_ray_commands"])
    assert "RAY_enable_autoscaler_v2=0 ray start --head" in head
    assert "--dashboard-host=127.0.0.1" in head
    options = config["docker"]["run_options"]
    assert "--env=RAY_ADDRESS=auto" in options
    assert "--env=RAY_AUTH_MODE=token" in options
    assert any(option.endswith(":/home/raypfrl/results") for option in options)
    assert "~/.ray/auth_token" in config["file_mounts"]


def test_the_kubernetes_job() -> None:
    job = read(ROOT / "cluster" / "rayjob.yaml")
    cluster = job["spec"]["rayClusterSpec"]
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert cluster["authOptions"] == {"mode": "token"}
    pods = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    images = {pod["template"]["spec"]["containers"][0]["image"] for pod in pods}
    assert len(images) == 1
    for pod in pods:
        assert pod["template"]["spec"]["securityContext"]["runAsNonRoot"]
        mounts = pod["template"]["spec"]["containers"][0]["volumeMounts"]
        assert [mount["mountPath"] for mount in mounts] == ["/home/raypfrl/results"]
    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert cluster["rayVersion"] == pinned[1]


def test_the_slurm_script_is_a_script() -> None:
    subprocess.run(["bash", "-n", str(ROOT / "cluster" / "slurm.sh")], check=True)
