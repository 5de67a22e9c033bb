"""How a command ends: its exit statuses besides 0, and SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

FAILED = 1  # a trial, or what the command needs
USAGE = 2  # bad input: nothing was begun
INTERRUPTED = 130  # by Ctrl-C or SIGTERM: the same command goes on


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Take SIGTERM (a preempted node, a time limit) like Ctrl-C: work stops in order, and all can be resumed."""
    before = signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
