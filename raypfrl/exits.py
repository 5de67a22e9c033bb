"""How a command speaks and ends: what its terminal can show, its exit statuses besides 0, SIGTERM, and its end."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

FAILED = 1  # a trial, or what the command needs
USAGE = 2  # bad input: nothing was begun
INTERRUPTED = 130  # by Ctrl-C or SIGTERM: the same command goes on
HOOKS = 10.0  # seconds that what was registered with atexit may take
DEAF = 5.0  # seconds that one call of compiled code may keep a signal from Python


def speak() -> None:
    """Let the terminal get what it can show, and ? for the rest: files are UTF-8, whatever the locale says."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Take SIGTERM (a preempted node, a time limit) like Ctrl-C: work stops in order, and all can be resumed.

    Also where Ctrl-C itself is ignored, as in what a script begins with ``&``.
    """

    def heard(_: int, frame: FrameType | None) -> None:
        interrupt = signal.getsignal(signal.SIGINT)
        (interrupt if callable(interrupt) else signal.default_int_handler)(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def heard_in_time() -> Iterator[None]:
    """A Ctrl-C or SIGTERM that Python has not come to hear within ``DEAF`` seconds ends the process.

    Python hears a signal between two of its own instructions, and a call of compiled code can last for minutes: nothing
    in it can be interrupted, and nothing is written meanwhile, so results on disk are whole. It has to let go of
    Python's lock, as all long calls here do.
    """
    heard = threading.Event()

    def telling(handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], object]:
        def hear(number: int, frame: FrameType | None) -> object:
            heard.set()
            return handler(number, frame)

        return hear

    def watch() -> None:
        while came := os.read(reader, 1):
            if came[0] in before:
                if not heard.wait(DEAF):
                    said = f"\ninterrupted in a call that did not return within {DEAF:g} s; the same command goes on\n"
                    os.write(sys.stderr.fileno(), said.encode())
                    os._exit(INTERRUPTED)
                # Who hears it may swallow it (a finalizer, a callback), so the next one is watched too. In this order:
                # one that has been heard is never waited for again.
                heard.clear()
                if select.select([reader], [], [], 0)[0]:
                    os.read(reader, 1024)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    taken = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in taken.items() if callable(handler)}
    for number, handler in before.items():
        signal.signal(number, telling(handler))
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # written to before Python hears
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writer)
        heard.set()
        watching.join()
        os.close(reader)


def leave(status: int) -> NoReturn:
    """End this process, which has said and written all that it had to.

    The interpreter's own end can last for ever: it waits for every thread that is no daemon, hooks wait for what they
    like, and libraries are taken apart while threads of theirs still run (gRPC and Ray leave a dozen). Here hooks get
    ``HOOKS`` seconds, and nothing else is waited for.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # a reader that has gone
        sys.stdout.flush()
        sys.stderr.flush()
    late = threading.Timer(HOOKS, os._exit, (status,))
    late.daemon = True
    late.start()
    try:
        atexit._run_exitfuncs()
    finally:
        os._exit(status)
