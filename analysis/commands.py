"""What can be asked of results on the command line: ``raypfrl report`` and the like, and ``python -m analysis``.

Light to import: what draws is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
FORMATS = ("png", "svg", "pdf")


def _figures_arguments(figures: argparse.ArgumentParser) -> None:
    figures.add_argument(
        "names", nargs="*", metavar="NAME", help="a figure, or a folder of results; default: all figures"
    )
    figures.add_argument("--out", type=Path, default=Path("figures"), help="folder to write to (default figures)")
    figures.add_argument(
        "--format", action="append", choices=FORMATS, dest="formats", help="may be repeated; default: all three"
    )
    figures.add_argument(
        "--columns", type=int, choices=(1, 2), help="for a paper: one or two columns wide, the caption beside it only"
    )
    _add_results(figures)


def _table_arguments(table: argparse.ArgumentParser) -> None:
    table.add_argument("--readme", type=Path, default=ROOT / "README.md", help="file for the headlines")
    table.add_argument("--page", type=Path, default=ROOT / "docs" / "results.md", help="file for the whole table")
    action = table.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="fail where one of the two files has drifted")
    action.add_argument("--write", action="store_true", help="write the table into both files, between their markers")
    _add_results(table)


def _report_arguments(report: argparse.ArgumentParser) -> None:
    report.add_argument("sweep", metavar="DIR", help="a folder of results, or the name of a sweep")
    report.add_argument(
        "--out", type=Path, help="the page (default: report.html in the folder; of committed results NAME.html here)"
    )
    report.add_argument("--live", action="store_true", help="write it again and again until the sweep has ended")


def _compare_arguments(compare: argparse.ArgumentParser) -> None:
    compare.add_argument("sweeps", nargs="+", metavar="DIR", help="folders of results, or names of sweeps")
    compare.add_argument(
        "--where", action="append", default=[], metavar="KEY=VALUE", help="only the points with it, or KEY=A,B for two"
    )
    compare.add_argument("--against", metavar="POINT", help="compare every point with this one only")
    compare.add_argument("--measure", default="return", help="return (default), success or final_distance")
    compare.add_argument("--before", action="store_true", help="before the adaptation step; default: after it")
    compare.add_argument("--format", choices=("text", "csv", "latex", "markdown"), default="text")
    compare.add_argument("--out", type=Path, metavar="FILE", help="write it there; default: to the terminal")


def _keep_arguments(kept: argparse.ArgumentParser) -> None:
    kept.add_argument("sweep", type=Path, metavar="DIR")
    kept.add_argument("--name", help="folder of the copy (default: DIR's)")
    kept.add_argument("--last", action="store_true", help="only each trial's first and last evaluation")
    kept.add_argument("--metrics", action="store_true", help="what else was measured too, such as the diagnostics")
    kept.add_argument("--compress", action="store_true", help="tables as .csv.gz")
    kept.add_argument("--results", type=Path, help="folder to copy to (default: the committed results)")


def _add_results(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--results", type=Path, help="folder of the sweeps' folders (default: results/ here, else what is committed)"
    )
    command.add_argument("--partial", action="store_true", help="use what there is where trials are missing; say so")


def _figures(options: argparse.Namespace) -> int:
    from analysis.figures import FIGURES, make
    from analysis.frames import ResultsError, places

    for name in options.names:
        there = [options.results / name] if options.results else places(name)
        if name not in FIGURES and not any(folder.is_dir() for folder in there):
            known = f"there are {', '.join(FIGURES)}; a folder of results is drawn by its curves"
            raise ResultsError(f"no figure {name!r}; {known}")
    status = 0
    for name in options.names or FIGURES:
        try:
            paths = make(
                name, options.results, options.out, partial=options.partial, columns=options.columns,
                formats=options.formats or FORMATS,
            )  # fmt: skip
        except ResultsError as error:
            print(f"figure {name} not drawn: {error}", file=sys.stderr)
            status = 2
        else:
            print(*paths)
    return status


def _table(options: argparse.Namespace) -> int:
    from analysis import findings, table
    from analysis.frames import RESULTS

    results = options.results or RESULTS
    whole, headlines = (made(results, partial=options.partial) for made in (table.markdown, table.headlines))
    blocks = [(options.readme, table.TABLE, headlines), (options.page, table.TABLE, whole)]
    if results == RESULTS and options.readme == ROOT / "README.md":
        blocks += [
            (options.readme, findings.FOUND, findings.readme(results)),
            (ROOT / "docs" / "claims.md", findings.CLAIMS, findings.page(results)),
        ]
    if options.check:
        return max(table.check(text, page, block) for page, block, text in blocks)
    print(whole)
    if options.write:
        for page, block, text in blocks:
            table.write(text, page, block)
            print(f"written to {page}", file=sys.stderr)
    return 0


def _report(options: argparse.Namespace) -> int:
    from analysis.frames import RESULTS, found
    from analysis.report import follow, write

    folder = found(options.sweep)
    own = RESULTS not in folder.parents  # nothing is written among the committed results, or where raypfrl is installed
    out = options.out or (folder / "report.html" if own else Path(f"{folder.name}.html"))
    if not options.live:
        print(write(folder, out))
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        for state in follow(folder, out):
            print(f"{time.strftime('%H:%M:%S')} {out}: {state}", flush=True)
    return 0


def _compare(options: argparse.Namespace) -> int:
    from analysis.comparison import compare, conditions
    from analysis.frames import found

    table = compare(
        *map(found, options.sweeps), measure=options.measure, phase="before" if options.before else "after",
        against=options.against, where=conditions(options.where),
    )  # fmt: skip
    text = getattr(table, options.format)()
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n", encoding="utf-8")
        print(options.out)
    else:
        print(text)
    return 0


def _keep(options: argparse.Namespace) -> int:
    from analysis.frames import RESULTS
    from analysis.keep import keep

    out = (options.results or RESULTS) / (options.name or options.sweep.absolute().name)
    print(keep(options.sweep, out, last=options.last, metrics=options.metrics, compress=options.compress))
    return 0


def run(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """A command, with matplotlib's own backend for files, whatever MPLBACKEND was inherited (a notebook's, say)."""
    os.environ["MPLBACKEND"] = "agg"
    return command(options)


Command = tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]
COMMANDS: dict[str, Command] = {
    "report": ("one interactive page of a sweep", _report_arguments, _report),
    "compare": (
        "points of one sweep or several, paired by seed, with intervals and tests",
        _compare_arguments,
        _compare,
    ),
    "figures": (
        "figures of the studies, or of any sweep, as PNG, SVG and PDF with their captions",
        _figures_arguments,
        _figures,
    ),
    "table": ("the paper's numbers beside ours", _table_arguments, _table),
}
KEEP: Command = ("copy a sweep's tables to the committed results", _keep_arguments, _keep)
