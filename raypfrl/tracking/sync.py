"""Upload, from the journal, what the server does not have. It can be repeated, and stopped at any time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from raypfrl.exits import FAILED
from raypfrl.settings import SettingsError, resolved
from raypfrl.tracking.journal import command, journal_of, say
from raypfrl.tracking.server import Trouble, check_server
from raypfrl.tracking.writer import Run, Writer, run_alone


def sync(folder: Path) -> int:
    """Upload what the server does not have yet of the runs in ``folder``; the exit status. Raises SettingsError."""
    there = resolved(folder)
    if not journal_of(there).exists():
        raise SettingsError(f"{folder}: no journal in its wandb folder; for W&B's files from elsewhere: `wandb sync`")
    return subprocess.call(command("sync", there))


def upload(folder: Path) -> int:
    """The same, in the process that imports wandb."""
    for path in sorted(folder.glob("wandb/*run-*/*.wandb")):
        data = path.read_bytes()
        if not data.startswith(b":W&B") or len(data) <= 7:
            say(f"{path.relative_to(folder)} is unreadable: skipped; its run comes from the journal")
    with tempfile.TemporaryDirectory() as into:
        writer = Writer(folder, online=True, into=Path(into), finish=60.0)
        writer.read()
        due = [run for run in writer.runs.values() if not writer.is_up(run)]
        print(f"{len(writer.runs) - len(due)} of {len(writer.runs)} runs are up", flush=True)
        return _upload(writer, due)


def _upload(writer: Writer, due: Sequence[Run]) -> int:
    """One run after the other. One that the server refuses holds up no other; a server that is gone ends it."""
    done = refused = 0
    try:
        if due:
            check_server()
        for number, run in enumerate(due, 1):
            name = f"{number} of {len(due)}: {run.begin['name']}"
            try:
                writer.write(run)
                writer.interrupt(run)
            except Trouble as trouble:
                check_server()  # else it is gone
                refused += 1
                say(f"{name} ({run.begin['run']}) is not up: {trouble}")
            else:
                done += 1
                print(name, flush=True)
    except Trouble as trouble:
        say(f"{trouble}; {len(due) - done} of {len(due)} are left, and the same command goes on with them")
        return FAILED
    if refused:
        say(f"{refused} of {len(due)} are not up; the same command tries them again")
    return FAILED if refused else 0


if __name__ == "__main__":
    run_alone(lambda: upload(Path(sys.argv[1])))
