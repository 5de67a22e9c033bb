"""The folder of the strikes' orders, and one local Ray for the faults that leave it alive."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import strikes
from scene import plan, values

from raypfrl.federation import train
from raypfrl.sweeps.cluster import connected
from raypfrl.sweeps.machine import about
from raypfrl.sweeps.results import Results, pack


@pytest.fixture(scope="session")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the strikes' orders, known to every process of the session."""
    folder = tmp_path_factory.mktemp("strikes")
    os.environ[strikes.FOLDER] = str(folder)
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)  # for Ray's workers
    return folder


@pytest.fixture(scope="module")
def two_cpus(orders: Path) -> Iterator[None]:
    """A local Ray for a module's tests."""
    with connected(2):  # which waits for Ray for as long as a busy machine needs
        yield


@pytest.fixture(scope="module")
def quiet(orders: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The sweep undisturbed, one process after the other in this one: no actor, no driver to lose."""
    folder = tmp_path_factory.mktemp("quiet") / "sweep"
    results = Results(folder, "quiet")
    results.begin(plan(), about(1))
    for config in plan():
        training = train(config)
        for metrics in training:
            results.record(config.key(), config, {**metrics, "checkpoint": pack(training.state())})
    return values(folder)
