"""Upload, from the journal, what the server does not have. It can be repeated, and stopped at any time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from raypfrl.config import SettingsError
from raypfrl.tracking.journal import command, journal_of, say
from raypfrl.tracking.server import Trouble, check_server
from raypfrl.tracking.writer import Writer, run_alone


def sync(folder: Path) -> int:
    """Upload what the server does not have yet of the runs in ``folder``; the exit status. Raises SettingsError."""
    if not journal_of(folder).exists():
        raise SettingsError(f"{folder}: no journal in its wandb folder; for W&B's files from elsewhere: `wandb sync`")
    return subprocess.call(command("sync", folder.resolve()))


def upload(folder: Path) -> int:
    """The same, in the process that imports wandb."""
    for path in sorted(folder.glob("wandb/*run-*/*.wandb")):
        data = path.read_bytes()
        if not data.startswith(b":W&B") or len(data) <= 7:
            say(f"{path.relative_to(folder)} is unreadable: skipped; its run comes from the journal")
    done = 0
    with tempfile.TemporaryDirectory() as into:
        writer = Writer(folder, online=True, into=Path(into), finish=60.0)
        writer.read()
        due = [run for run in writer.runs.values() if not writer.is_up(run)]
        print(f"{len(writer.runs) - len(due)} of {len(writer.runs)} runs are up", flush=True)
        try:
            if due:
                check_server()
            for done, run in enumerate(due):
                writer.write(run)
                writer.interrupt(run)
                print(f"{done + 1} of {len(due)}: {run.begin['name']}", flush=True)
        except Trouble as trouble:
            say(f"{trouble}; {len(due) - done} of {len(due)} are left, and the same command goes on with them")
            return 1
    return 0


if __name__ == "__main__":
    run_alone(lambda: upload(Path(sys.argv[1])))
