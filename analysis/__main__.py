"""``python -m analysis COMMAND``: the commands of raypfrl that draw, and ``keep``, for results to commit."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from analysis.commands import COMMANDS, KEEP, run
from analysis.frames import ResultsError
from raypfrl.exits import speak


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 1 (a file has drifted, or a pipe broke), 2 (cannot be done, and
    why)."""
    speak()
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (help, arguments, function) in {**COMMANDS, "keep": KEEP}.items():
        command = commands.add_parser(name, help=help)
        arguments(command)
        command.set_defaults(function=function)
    options = parser.parse_args(argv)
    try:
        status = run(options.function, options)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ResultsError, OSError) as error:
        print(f"analysis: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
