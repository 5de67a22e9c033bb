"""Connecting to Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from typing import Any

import ray

from raypfrl.sweeps.machine import cpus_here


@contextlib.contextmanager
def connected(cpus: int | None) -> Iterator[int]:
    """A local Ray, or the cluster that RAY_ADDRESS names; gives the CPUs to use, at most ``cpus``.

    SIGTERM (a preempted node, a time limit) is taken like Ctrl-C: work stops in order, and all can be resumed.
    """
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # results.py writes the rows, once
    os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
    address = os.environ.get("RAY_ADDRESS", "local")
    local: Any = {"include_dashboard": False, "num_cpus": cpus or cpus_here()} if address == "local" else {}
    ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **local)
    before = signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        there = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
        yield min(there, cpus) if cpus else there
    finally:
        signal.signal(signal.SIGTERM, before)
        ray.shutdown()
