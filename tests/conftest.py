"""What all tests share: the filter for one warning that is torch's own, no tracking but where it is the subject, and
the mark of those that start Ray."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import own
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """torch scripts its forward-mode decompositions at the first jvp, and warns of itself."""
    config.addinivalue_line("filterwarnings", "ignore:.torch.jit.script. is deprecated:DeprecationWarning")
    os.environ["WANDB_MODE"] = "disabled"  # tests/tracking takes it away again
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a script begins with &: those whom the tests
        signal.signal(signal.SIGINT, signal.default_int_handler)  # interrupt would inherit it


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_for_the_next_file() -> Iterator[None]:
    """What a file's tests load from a user's file is not in the registries when the next file's tests run."""
    with own.forgotten():
        yield


STARTS_RAY = {"two_cpus", "actors", "cluster", "site", "hosts"}  # fixtures
PATIENCE = 1800  # seconds: Ray's processes run at a low priority, and take minutes to start on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts Ray by a fixture; where a test starts it itself, it says so."""
    for item in items:
        if not STARTS_RAY.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("ray")
        if item.get_closest_marker("ray") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE))
