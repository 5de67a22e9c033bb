"""The command ``raypfrl``. Bad input is one line with the remedy and exit status 2, before anything is written."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from raypfrl.config import RunConfig, SettingsError

FAILED, USAGE, INTERRUPTED = 1, 2, 130
SEQUENCES = ("hidden", "evaluate", "m_adapt")  # settings for which a list is one value


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for every other error."""
        raise SettingsError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status: 0, 1 something failed, 2 bad input, 130 interrupted."""
    try:
        options = _parser().parse_args(argv)
        status: int = options.command(options)
    except SettingsError as error:
        print(f"raypfrl: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return status


def run_file(path: str) -> NoReturn:
    """What a sweep file does when it is run as a script."""
    sys.exit(main(["sweep", path, *sys.argv[1:]]))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="raypfrl", description="Personalized federated reinforcement learning on Ray.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="one run", description="Run one method on one population.")
    run.add_argument("population", metavar="POPULATION")
    run.add_argument("method", metavar="METHOD")
    _add_set(run)
    run.add_argument("--seed", type=int, default=0, help="names every random number (default 0)")
    run.add_argument("--actors", default="auto", metavar="N", help="Ray actors; 0: in process (default auto)")
    run.add_argument("--out", type=Path, metavar="DIR", help="default results/run-<settings' hash>")
    run.set_defaults(command=_run)

    sweep = commands.add_parser("sweep", help="a grid of runs", description="Run a sweep file, or what is missing.")
    sweep.add_argument("file", type=Path, metavar="FILE")
    sweep.add_argument(
        "--seeds", type=_seeds, metavar="N|A,B,C", help="how many seeds, or which (then end with a comma for one)"
    )
    _add_set(sweep)
    sweep.add_argument("--cpus", type=int, metavar="N", help="use so many CPUs (default: all that this process may)")
    sweep.add_argument("--smoke", action="store_true", help="the first point of every grid, one seed, two rounds")
    sweep.add_argument("--asha", action="store_true", help="stop weak trials early; biases any statement about seeds")
    sweep.add_argument("--out", type=Path, metavar="DIR", help="default results/<sweep>")
    sweep.set_defaults(command=_sweep)

    show = commands.add_parser("list", help="populations, methods, settings, sweeps")
    show.set_defaults(command=_list)
    return parser


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
        help="a setting by its letter; in a sweep a list is a grid: m_h=[10,100]",
    )  # fmt: skip


def settings_of(assignments: Sequence[str]) -> dict[str, Any]:
    """``key=value`` texts as settings; values are YAML. Raises SettingsError."""
    settings = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise SettingsError(f"--set {assignment}: give KEY=VALUE, e.g. --set alpha=0.5")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise SettingsError(
                f"--set {assignment}: {text!r} is not a value; quote it or see `raypfrl list`"
            ) from None
        settings[key.strip()] = tuple(value) if isinstance(value, list) and key.strip() in SEQUENCES else value
    return settings


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(part) for part in text.split(",") if part.strip()] if "," in text else list(range(int(text)))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seeds, or seeds like 3,5,8") from None
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise argparse.ArgumentTypeError(f"{text!r}: give at least one seed, none negative, none twice")
    return seeds


def _run(options: argparse.Namespace) -> int:
    from raypfrl.sweeps.single import run

    settings = settings_of(options.settings)
    actors = options.actors if options.actors == "auto" else yaml.safe_load(options.actors)
    given = {"population": options.population, "method": options.method, "seed": options.seed, "actors": actors}
    config = RunConfig(**{**given, **settings})
    return run(config, options.out or Path("results", f"run-{config.key()}"))


def _sweep(options: argparse.Namespace) -> int:
    from raypfrl.sweeps import load
    from raypfrl.sweeps.results import Results

    if options.cpus is not None and options.cpus < 1:
        raise SettingsError(f"--cpus {options.cpus}: give at least 1")
    sweep = load(options.file).with_settings(settings_of(options.settings))
    name = options.file.stem
    if options.smoke:
        sweep, name = sweep.smoke(), f"{name}-smoke"
    configs = sweep.trials(options.seeds if not options.smoke else None)
    results = Results(options.out or Path("results", name), name)

    from raypfrl.sweeps.launch import launch

    return launch(sweep.swept(), configs, results, cpus=options.cpus, asha=options.asha)


def _list(options: argparse.Namespace) -> int:
    from raypfrl.listing import listing

    print(listing())
    return 0


if __name__ == "__main__":
    sys.exit(main())
