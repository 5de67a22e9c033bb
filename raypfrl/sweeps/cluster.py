"""Connecting to Ray."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import ray
from ray._private import ray_constants, services
from ray._private.authentication.authentication_token_generator import generate_new_authentication_token
from ray._private.node import Node

from raypfrl.config import SettingsError
from raypfrl.exits import terminable
from raypfrl.sweeps.machine import cpus_here

JOIN_SECONDS = 600.0  # how long a sweep on a cluster waits for the CPUs that it was told to use
ANSWER_SECONDS = 5.0  # how long a cluster may take to accept a connection
START_SECONDS = 300.0  # how long a local Ray may take to start, on however busy a machine


class DiedError(SettingsError):
    """A process of Ray's has ended while Ray started."""


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
    address, own = cluster_address(), not ray.is_initialized()
    before = signal.getsignal(signal.SIGTERM)
    try:
        if own:
            _connect(address, cpus or cpus_here())
        with terminable():  # now: Ray has put its own handler there
            try:
                there = _cpus_there(cpus if own and address else None)
                yield min(there, cpus) if cpus else there
            finally:
                if own:
                    _shut_down()  # not under Ray's handler either
    finally:
        if own:
            _shut_down()
        signal.signal(signal.SIGTERM, before)  # what comes after is as interruptible as what came before Ray


def _connect(address: str | None, cpus: int) -> None:
    """Join the cluster, or start a local Ray: it takes seconds, so a line says so. Meanwhile another thread imports
    what comes next."""
    print(f"joining the cluster at RAY_ADDRESS = {address} ..." if address else "starting Ray ...", flush=True)
    threading.Thread(target=importlib.import_module, args=("raypfrl.sweeps.trial",), daemon=True).start()
    try:
        if address:
            _join(address)
        else:
            _hold_a_token()
            end = time.monotonic() + START_SECONDS
            while not _started(cpus, last=time.monotonic() > end):
                pass
    except SystemExit:  # as Ray takes SIGTERM
        raise KeyboardInterrupt from None


def _started(cpus: int, *, last: bool) -> bool:
    """Start a local Ray; whether it runs, and not to be tried again unless it is the ``last`` try: on a busy machine
    Ray's own processes give each other up after 30 s."""
    try:
        with _of_its_own():
            _init("local", include_dashboard=False, num_cpus=cpus, _system_config=_SYSTEM)
    except DiedError:
        if last:
            raise
        return False
    return True


def _hold_a_token() -> None:
    """Ray makes the token that its processes know each other by, and keeps it in the user's home. Where nothing can be
    written there, it is in the environment only."""
    try:
        home = Path("~/.ray").expanduser()
        home.mkdir(parents=True, exist_ok=True)
        kept = os.access(home, os.W_OK)
    except (OSError, RuntimeError):  # no such place, no such user
        kept = False
    if not kept and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", generate_new_authentication_token())


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


def _shut_down() -> None:
    """End Ray, with SIGTERM heard all the while: what Ray does last is to wait for its processes, and before that its
    compiled part has put SIGTERM back to what it is for a plain program, behind Python's back."""
    kill = Node.kill_all_processes

    def heard(node: Node, *arguments: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        kill(node, *arguments, **options)

    with mock.patch.object(Node, "kill_all_processes", heard):
        ray.shutdown()


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
def _of_its_own() -> Iterator[None]:
    """Start a local Ray as no public setting of Ray's allows: on 127.0.0.1 only (it takes the machine's address unless
    it believes that there can be no cluster, as on Windows), in processes that a signal to the driver's group does not
    reach (Ray would go before the driver has written its last word), and with more patience than its 30 s.

    Raises SettingsError where it does not start, DiedError where one of its processes ended meanwhile.
    """
    look = services.get_node
    processes = list[services.ConsolePopen]()
    end = time.monotonic() + START_SECONDS

    def patient(*arguments: Any) -> Any:
        while True:
            try:
                return look(*arguments)  # type: ignore[no-untyped-call]
            except RuntimeError:
                if time.monotonic() > end or died():
                    raise
                time.sleep(1)

    class Apart(services.ConsolePopen):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options, process_group=0)
            processes.append(self)

    def died() -> bool:
        return any(process.poll() is not None for process in processes)

    try:
        with (
            mock.patch.object(ray_constants, "ENABLE_RAY_CLUSTER", False),
            mock.patch.object(services, "ConsolePopen", Apart),
            mock.patch.object(services, "get_node", patient),
        ):
            yield
    except SettingsError:
        raise
    except Exception as error:  # Ray raises Exception itself
        kind = DiedError if died() else SettingsError
        for process in processes:
            process.kill()
        raise kind(
            f"Ray did not start ({' '.join(str(error).split())[:200]}); see that other programs leave this machine "
            "room, that /tmp has space, and give the command again"
        ) from None
