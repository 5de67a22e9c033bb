"""The nodes of a cluster, looked at before a sweep starts: the same package everywhere, and results on a disk that
outlives a node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raypfrl.config import SettingsError
from raypfrl.sweeps.machine import versions
from raypfrl.sweeps.source import installed
from raypfrl.uses import offering

SECONDS = 60.0  # how long a node may take to answer


def packages() -> dict[str, str | None]:
    """What has to be the same on every node: the versions of all that computes, and of all that offers something."""
    return {**versions(), **offering(), "source": installed()}


def check(folder: Path, *, own_disk: bool) -> int:
    """Look at every node of the cluster; how many there are. On one node there is nothing to check.

    Raises SettingsError for a node without the package or with other versions, and for a ``folder`` that not every
    node sees, unless ``own_disk`` says that the driver's disk is meant.
    """
    nodes = {node["NodeID"]: node for node in _alive()}
    if len(nodes) == 1:
        return 1
    answers = _ask(nodes, str(folder.parent))
    here, blind = packages(), []
    for node, answer in answers.items():
        name = f"node {nodes[node]['NodeManagerAddress']}"
        if "trouble" in answer:
            raise SettingsError(f"{name}: {answer['trouble']}; install raypfrl there as on the other nodes")
        there = answer["versions"]
        if other := [
            f"{p} {there.get(p, 'nowhere')} (here {here.get(p, 'nowhere')})"
            for p in here | there
            if there.get(p) != here.get(p)
        ]:
            raise SettingsError(f"{name} has {', '.join(other)}; install the same versions on every node")
        if not answer["sees"]:
            blind.append(name)
    if blind and not own_disk:
        raise SettingsError(
            f"results go to {folder}, which {', '.join(blind)} does not see: they would be lost with this node's disk; "
            "give --out a folder that all nodes share, or --own-disk if this node's disk is meant"
        )
    return len(nodes)


def listed() -> list[str]:
    """Every node of the cluster: its address and its CPUs."""
    return [f"{node['NodeManagerAddress']}, {node['Resources'].get('CPU', 0):g} CPUs" for node in _alive()]


def _alive() -> list[dict[str, Any]]:
    import ray

    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _ask(nodes: Mapping[str, Any], folder: str) -> dict[str, dict[str, Any]]:
    """What each node answers: its versions, and whether it sees a file just written to ``folder``."""
    import tempfile

    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def look(probe: str) -> dict[str, Any]:
        """Runs on the node. Sent by value, so that it can say that raypfrl is missing there."""
        from pathlib import Path

        try:
            from raypfrl.sweeps.nodes import packages
        except ImportError as error:
            return {"trouble": f"raypfrl cannot be imported ({error})"}
        return {"versions": packages(), "sees": Path(probe).exists()}

    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".seen-by-all-") as probe:
        calls = {
            node: ray.remote(num_cpus=0)(look)
            .options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False), max_retries=0)
            .remote(probe.name)
            for node in nodes
        }
        return {node: _answer(call) for node, call in calls.items()}


def _answer(call: Any) -> dict[str, Any]:
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    try:
        answer: dict[str, Any] = ray.get(call, timeout=SECONDS)
    except GetTimeoutError:
        return {"trouble": f"no answer within {SECONDS:g} s"}
    except RayError as error:
        return {"trouble": str(error).strip().splitlines()[-1]}
    return answer
