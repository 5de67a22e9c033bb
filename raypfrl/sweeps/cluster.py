"""Connecting to Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import ray
from ray._private import ray_constants, services

from raypfrl.config import SettingsError
from raypfrl.exits import terminable
from raypfrl.sweeps.machine import cpus_here

JOIN_SECONDS = 600.0  # how long a sweep on a cluster waits for the CPUs that it was told to use
ANSWER_SECONDS = 5.0  # how long a cluster may take to accept a connection

# Ray's default lets a driver wait for its first idle workers: without an end, if one of them dies as it starts.
_SYSTEM = {"prestart_worker_first_driver": False}


def cluster_address() -> str | None:
    """The cluster that RAY_ADDRESS names; None where a Ray of this machine is meant."""
    address = os.environ.get("RAY_ADDRESS", "")
    return None if address in ("", "local") else address


@contextlib.contextmanager
def connected(cpus: int | None) -> Iterator[int]:
    """The Ray that is already running in this process, the cluster that RAY_ADDRESS names, or a local one; gives the
    CPUs to use, at most ``cpus``.

    Inside, SIGTERM is taken like Ctrl-C.
    """
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # results.py writes the rows, once
    os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
    address, own = cluster_address(), not ray.is_initialized()
    if own and address:
        _join(address)
    elif own:
        with _loopback():
            _init("local", include_dashboard=False, num_cpus=cpus or cpus_here(), _system_config=_SYSTEM)
    try:
        with terminable():  # now: Ray has put its own handler there
            there = _cpus_there(cpus if own and address else None)
            yield min(there, cpus) if cpus else there
    finally:
        if own:
            ray.shutdown()


def _join(address: str) -> None:
    """Connect to a cluster. Raises SettingsError where none answers; ``ray.init`` alone would wait for ever where
    nothing listens."""
    try:
        place = services.canonicalize_bootstrap_address(address.removeprefix("ray://")) or ""
        host, _, port = place.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
        _init(address)
    except (OSError, RuntimeError, ValueError):
        raise SettingsError(
            f"no cluster answers at RAY_ADDRESS = {address}; start it, set RAY_AUTH_MODE=token if it asks for one, "
            "or unset RAY_ADDRESS to run on this machine"
        ) from None


def _init(address: str, **local: Any) -> None:
    ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **local)


def _cpus_there(wanted: int | None) -> int:
    """The cluster's CPUs, once there are as many as ``wanted``: nodes join one after the other."""
    end = time.monotonic() + JOIN_SECONDS
    while True:
        there = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
        if not wanted or there >= wanted:
            return there
        if time.monotonic() > end:
            raise SettingsError(f"--cpus {wanted}: the cluster has {there} after {JOIN_SECONDS:g} s; lower it")
        print(f"waiting for nodes: {there} of {wanted} CPUs", file=sys.stderr, flush=True)
        time.sleep(5)


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Let a local Ray listen on 127.0.0.1 only. Ray has no public setting for that: it takes the machine's address
    unless it believes that there can be no cluster, as on Windows."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
