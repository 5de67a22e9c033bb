"""The command ``raypfrl``. Bad input is one line with the remedy and exit status 2, before anything is written."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from analysis import commands as drawing
from raypfrl.config import RunConfig, SettingsError, every_setting
from raypfrl.exits import FAILED, INTERRUPTED, USAGE, leave, speak, terminable
from raypfrl.tracking import Tracking
from raypfrl.uses import find_installed, use


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for every other error."""
        raise SettingsError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status: 0, 1 something failed, 2 bad input, 130 interrupted."""
    speak()
    try:
        options = _parser().parse_args(argv)
        for file in getattr(options, "use", ()):
            use(file)
        status: int = options.command(options)
        sys.stdout.flush()  # a reader that has gone is noticed here, and not at the interpreter's end
    except SettingsError as error:
        print(f"raypfrl: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # a full disk, a folder without write access
        print(f"raypfrl: {error}; put that right, and the same command goes on from what is there", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("raypfrl: interrupted; the same command goes on from what is there", file=sys.stderr)
        return INTERRUPTED
    return status


def program(argv: Sequence[str] | None = None) -> NoReturn:
    """The program ``raypfrl``: the command in a process that ends when it has said its last word."""
    with terminable():
        status = main(argv)
    leave(status)


def run_file(path: str) -> NoReturn:
    """What a sweep file does when it is run as a script."""
    program(["sweep", path, *sys.argv[1:]])


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="raypfrl", description="Personalized federated reinforcement learning on Ray.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)
    for name, (help, arguments, command) in COMMANDS.items():
        of_its_own = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        arguments(of_its_own)
        of_its_own.set_defaults(command=command)
    return parser


def _run_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument("population", metavar="POPULATION")
    run.add_argument("method", metavar="METHOD")
    _add_set(run)
    _add_diagnostics(run)
    _add_use(run)
    _add_tracking(run)
    _add_allow_mixed(run)
    run.add_argument("--seed", type=int, default=0, help="names every random number (default 0)")
    run.add_argument("--actors", default="auto", metavar="N", help="Ray actors; 0: in process (default auto)")
    run.add_argument("--out", type=Path, metavar="DIR", help="default results/run-<settings' hash>")


def _sweep_arguments(sweep: argparse.ArgumentParser) -> None:
    sweep.add_argument("file", type=Path, metavar="SWEEP", help="a sweep file, or the name of one that `list` shows")
    sweep.add_argument(
        "--seeds", type=_seeds, metavar="N|A,B,C", help="how many seeds, or which (then end with a comma for one)"
    )
    _add_set(sweep)
    _add_diagnostics(sweep)
    _add_use(sweep)
    sweep.add_argument("--cpus", type=_count, metavar="N", help="use so many CPUs (default: all that this process may)")
    sweep.add_argument(
        "--smoke",
        action="store_true",
        help="does it run? the first point of every grid, one seed, two rounds of one local step",
    )
    sweep.add_argument("--samples", type=_count, metavar="N", help="points drawn from samplers (default: the file's)")
    sweep.add_argument("--search", choices=("optuna",), help="draw them where earlier ones did well")
    sweep.add_argument("--asha", action="store_true", help="stop weak trials early; biases any statement about seeds")
    sweep.add_argument("--out", type=Path, metavar="DIR", help="default results/<sweep>")
    sweep.add_argument(
        "--strategy", choices=("PACK", "SPREAD"), default="PACK", help="a trial's agents near together, or over nodes"
    )
    _add_own_disk(sweep)
    _add_tracking(sweep)
    _add_allow_mixed(sweep)


def _resume_arguments(resume: argparse.ArgumentParser) -> None:
    resume.add_argument("folder", type=Path, metavar="DIR")
    resume.add_argument(
        "--cpus", type=_count, metavar="N", help="use so many CPUs (default: all that this process may)"
    )
    _add_use(resume)
    _add_own_disk(resume)
    _add_tracking(resume)
    _add_allow_mixed(resume)


def _sync_arguments(sync: argparse.ArgumentParser) -> None:
    sync.add_argument("folder", type=Path, metavar="DIR")


def _dashboard_arguments(dashboard: argparse.ArgumentParser) -> None:
    dashboard.add_argument("file", type=Path, metavar="SWEEP")
    dashboard.add_argument("--entity", required=True, metavar="NAME", help="W&B user or team")
    dashboard.add_argument("--project", default="raypfrl", metavar="NAME", help="W&B project (default raypfrl)")
    dashboard.add_argument("--dry-run", action="store_true", help="write its JSON to the terminal; needs no network")


def _doctor_arguments(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("folder", type=Path, metavar="DIR", nargs="?", default=Path("results"), help="default results")


def _rollout_arguments(rollout: argparse.ArgumentParser) -> None:
    rollout.add_argument("folder", type=Path, metavar="DIR", help="a folder of results")
    _add_use(rollout)
    rollout.add_argument("--trial", metavar="KEY", help="default: the first that finished")
    rollout.add_argument("--agent", type=int, metavar="I", help="default: the first of those held out")
    rollout.add_argument("--m-adapt", type=int, default=200, metavar="M", help="of the adaptation step (default 200)")
    rollout.add_argument("--episodes", type=int, default=12, metavar="N", help="default 12")


def _theory_arguments(theory: argparse.ArgumentParser) -> None:
    theory.add_argument("population", metavar="POPULATION")
    _add_set(theory)
    _add_use(theory)


def _list_arguments(list_: argparse.ArgumentParser) -> None:
    list_.add_argument(
        "what", nargs="?", metavar="WHAT", help="populations, methods, settings, metrics or sweeps; default: all of it"
    )
    list_.add_argument("--copy", metavar="NAME", help="put the sweep NAME into this folder, to edit")
    _add_use(list_)


def _check_arguments(check: argparse.ArgumentParser) -> None:
    check.add_argument("names", metavar="FILE|NAME", nargs="+", help="a file of yours; a method; a population")
    _add_use(check)


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
        help="a setting by its letter; in a sweep a list is a grid: m_h=[10,100]",
    )  # fmt: skip


def _add_diagnostics(parser: argparse.ArgumentParser) -> None:
    diagnose = "measure what the paper's bounds are about"
    parser.add_argument(
        "--diagnostics", action="append_const", const="diagnostics=true", dest="settings", help=diagnose
    )


def _add_use(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--use",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a file of yours with METHODS or POPULATIONS",
    )


def _add_own_disk(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--own-disk", action="store_true", help="on several nodes: keep the results on this node's own disk"
    )


def _add_tracking(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tracking", choices=("offline", "online", "off"),
        help="W&B (default: what WANDB_MODE says, else online where a key is configured, else offline)",
    )  # fmt: skip
    parser.add_argument("--project", metavar="NAME", help="W&B project (default WANDB_PROJECT, or raypfrl)")
    parser.add_argument("--log-theta", action="store_true", help="give the final theta to W&B too, as a file")


def _add_allow_mixed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-mixed", action="store_true", help="go on although other source has computed what is there"
    )


def _tracking(options: argparse.Namespace) -> Tracking:
    tracking = Tracking(options.tracking, options.project, options.log_theta)
    tracking.resolved()  # refuses a mode now, before anything is written
    return tracking


def settings_of(assignments: Sequence[str]) -> dict[str, Any]:
    """``key=value`` texts as settings; values are YAML, and a list is one value for a setting that is a tuple. Raises
    SettingsError."""
    settings, known = {}, every_setting()
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise SettingsError(f"--set {assignment!r}: give KEY=VALUE, e.g. --set alpha=0.5")
        value = _value(f"--set {key}", text)
        is_one = isinstance(value, list) and (letter := known.get(key.strip())) and letter.sequence
        settings[key.strip()] = tuple(value) if is_one else value
    return settings


def _value(option: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise SettingsError(f"{option}: {text[:80]!r} is not a value; quote it or see `raypfrl list`") from None


def _seeds(text: str) -> Sequence[int]:
    try:
        if "," in text:
            seeds: Sequence[int] = [int(part) for part in text.split(",") if part.strip()]
        else:
            seeds = range(min(int(text), 2**32))  # far more than a sweep takes, and still countable
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seeds, or seeds like 3,5,8") from None
    if not seeds or (isinstance(seeds, list) and (min(seeds) < 0 or len(set(seeds)) < len(seeds))):
        raise argparse.ArgumentTypeError(f"{text!r}: give at least one seed, none negative, none twice")
    return seeds


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text}: give a number from 1 to 100000")
    return int(text)


def _run(options: argparse.Namespace) -> int:
    from raypfrl.sweeps.single import run

    settings = settings_of(options.settings)
    actors = _value("--actors", options.actors)
    given = {"population": options.population, "method": options.method, "seed": options.seed, "actors": actors}
    config = RunConfig(**{**given, **settings})
    out = options.out or Path("results", f"run-{config.key()}")
    return run(config, out, _tracking(options), allow_mixed=options.allow_mixed)


def _sweep(options: argparse.Namespace) -> int:
    from raypfrl.sweeps import load
    from raypfrl.sweeps.results import Results
    from raypfrl.sweeps.search import Search
    from raypfrl.sweeps.sweep import name_of

    sweep = load(options.file).with_settings(settings_of(options.settings))
    name = name_of(options.file)
    if options.smoke:
        sweep, name = sweep.smoke(), f"{name}-smoke"
    elif options.samples:
        sweep = dataclasses.replace(sweep, samples=options.samples)
    seeds = None if options.smoke else options.seeds
    search = Search(sweep, seeds) if options.search and not options.smoke else None
    results = Results(options.out or Path("results", name), name)
    if search:
        search.grow(results)
    configs = list(search.trials.values()) if search else sweep.trials(seeds)

    from raypfrl.sweeps.launch import launch

    return launch(
        sweep.swept(), configs, results, search=search, cpus=options.cpus, asha=options.asha, strategy=options.strategy,
        own_disk=options.own_disk, tracking=_tracking(options), allow_mixed=options.allow_mixed,
    )  # fmt: skip


def _resume(options: argparse.Namespace) -> int:
    from raypfrl.sweeps.resume import resume

    return resume(options.folder, options.cpus, options.own_disk, _tracking(options), allow_mixed=options.allow_mixed)


def _sync(options: argparse.Namespace) -> int:
    from raypfrl.tracking.sync import sync

    return sync(options.folder)


def _dashboard(options: argparse.Namespace) -> int:
    from raypfrl.sweeps import load
    from raypfrl.sweeps.sweep import name_of
    from raypfrl.tracking.dashboards import publish

    print(publish(name_of(options.file), load(options.file), options.entity, options.project, dry_run=options.dry_run))
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from raypfrl.doctor import examine

    lines, troubles = examine(options.folder)
    print("\n".join([*lines, "", *([f"wrong: {trouble}" for trouble in troubles] or ["nothing is wrong"])]))
    return FAILED if troubles else 0


def _rollout(options: argparse.Namespace) -> int:
    from raypfrl.rollouts import roll_out

    for line in roll_out(options.folder, options.trial, options.agent, options.m_adapt, options.episodes):
        print(line, flush=True)
    return 0


def _theory(options: argparse.Namespace) -> int:
    from raypfrl.theory_report import report

    settings = settings_of(options.settings)
    epsilon = settings.pop("epsilon", 0.01)
    if not isinstance(epsilon, int | float) or not 0 < epsilon < float("inf"):
        raise SettingsError(f"epsilon = {epsilon!r}: give the wanted E||grad F||^2, a number above 0")
    config = RunConfig(**{"population": options.population, "method": "exact", **settings})
    batches = {name: getattr(config, name) for name in ("alpha", "beta", "tau", "rounds", "m_in", "m_h", "m_out")}
    try:
        print(report(config.build_population(), **batches, n=config.cohort, epsilon=float(epsilon)))
    except ValueError as error:
        raise SettingsError(str(error)) from None
    except ArithmeticError:
        raise SettingsError("the constants are not finite for these settings; lower gamma, alpha or beta") from None
    return 0


def _list(options: argparse.Namespace) -> int:
    from raypfrl.listing import copied, listing

    find_installed()
    print(copied(options.copy) if options.copy else listing(options.what))
    return 0


def _check(options: argparse.Namespace) -> int:
    from raypfrl.check import check
    from raypfrl.text import entries

    about, wrong = "", 0
    for found in check(options.names):
        if found.about != about:
            print(found.about)
        print(entries({found.verdict: found.said}, width=len("advice")), flush=True)
        about, wrong = found.about, wrong + (found.verdict == "wrong")
    print(f"\n{wrong} wrong" if wrong else "\nnothing is wrong")
    return FAILED if wrong else 0


def _drawing(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A command of ``analysis``: its packages are an extra, and its errors are said as every other."""

    def run(options: argparse.Namespace) -> int:
        try:
            from analysis.frames import ResultsError
        except ModuleNotFoundError as error:
            raise _without(error) from None
        try:
            return drawing.run(command, options)
        except ModuleNotFoundError as error:
            raise _without(error) from None
        except ResultsError as error:
            raise SettingsError(str(error)) from None

    return run


def _without(error: ModuleNotFoundError) -> SettingsError:
    return SettingsError(f"this needs {error.name}: pip install 'raypfrl[analysis]'")


COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]] = {
    "run": ("one run of a method on a population", _run_arguments, _run),
    "sweep": ("a grid of runs from a sweep file, or what is missing of it", _sweep_arguments, _sweep),
    "resume": ("go on where a sweep or run stopped, from what its folder says", _resume_arguments, _resume),
    "sync": ("upload to W&B what is not there yet", _sync_arguments, _sync),
    "dashboard": ("publish a sweep's W&B workspace", _dashboard_arguments, _dashboard),
    "doctor": ("what is installed, what is there, and what is wrong", _doctor_arguments, _doctor),
    "rollout": (
        "write episodes of one agent before and after adaptation: a film, paths in the plane",
        _rollout_arguments,
        _rollout,
    ),
    "theory": ("the paper's constants and bounds for a population and settings", _theory_arguments, _theory),
    "check": ("whether methods and populations are right, a file's of yours or named", _check_arguments, _check),
    "list": ("populations, methods, settings, sweeps", _list_arguments, _list),
    **{name: (help, arguments, _drawing(command)) for name, (help, arguments, command) in drawing.COMMANDS.items()},
}

if __name__ == "__main__":
    program()
