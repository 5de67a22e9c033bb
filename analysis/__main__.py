"""``python -m analysis figures|table|report|keep``: everything that is drawn from committed results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.frames import RESULTS, ResultsError

ROOT = Path(__file__).parent.parent


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 1 (the README has drifted), 2 (cannot be done, and why)."""
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except (ResultsError, OSError) as error:
        print(f"analysis: {error}", file=sys.stderr)
        return 2


def _figures(options: argparse.Namespace) -> int:
    from analysis.figures import FIGURES, make

    unknown = [name for name in options.names if name not in FIGURES]
    if unknown:
        raise ResultsError(f"no figure {unknown[0]}; there are {', '.join(FIGURES)}")
    status = 0
    for name in options.names or FIGURES:
        try:
            paths = make(name, options.results, options.out, partial=options.partial)
        except ResultsError as error:
            print(f"analysis: figure {name} not drawn: {error}", file=sys.stderr)
            status = 2
        else:
            print(*paths)
    return status


def _table(options: argparse.Namespace) -> int:
    from analysis import table

    text = table.markdown(options.results, partial=options.partial)
    texts = {options.readme: table.headlines(options.results, partial=options.partial), options.page: text}
    if options.check:
        return max(table.check(text, path) for path, text in texts.items())
    print(text)
    own = {ROOT / "README.md", ROOT / "docs" / "results.md"}
    for path, text in texts.items():
        if options.results == RESULTS or path not in own:
            table.write(text, path)
            print(f"written to {path}", file=sys.stderr)
    return 0


def _report(options: argparse.Namespace) -> int:
    from analysis.report import write

    print(write(options.sweep, options.out or options.sweep / "report.html"))
    return 0


def _keep(options: argparse.Namespace) -> int:
    from analysis.keep import keep

    print(keep(options.sweep, options.results / (options.name or options.sweep.resolve().name), last=options.last))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="figures|table|report|keep")
    figures = commands.add_parser("figures", help="draw figures (default: all) as PNG and SVG")
    figures.add_argument("names", nargs="*", metavar="NAME")
    figures.add_argument("--out", type=Path, default=ROOT / "docs" / "figures", help="folder to write to")
    figures.set_defaults(run=_figures)
    table = commands.add_parser("table", help="the paper's numbers beside ours; written into the README as well")
    table.add_argument("--readme", type=Path, default=ROOT / "README.md", help="file for the headlines")
    table.add_argument("--page", type=Path, default=ROOT / "docs" / "results.md", help="file for the whole table")
    table.add_argument("--check", action="store_true", help="write nothing; fail where the README has drifted")
    table.set_defaults(run=_table)
    kept = commands.add_parser("keep", help="copy a sweep's tables to the committed results")
    kept.add_argument("sweep", type=Path, metavar="SWEEP_DIR")
    kept.add_argument("--name", help="folder of the copy (default: SWEEP_DIR's)")
    kept.add_argument("--last", action="store_true", help="only each trial's first and last evaluation")
    kept.add_argument("--results", type=Path, default=RESULTS, help="folder that holds the sweeps' folders")
    kept.set_defaults(run=_keep)
    for command in (figures, table):
        command.add_argument("--results", type=Path, default=RESULTS, help="folder that holds the sweeps' folders")
        command.add_argument(
            "--partial", action="store_true", help="use what there is where trials are missing, and say so"
        )
    report = commands.add_parser("report", help="one interactive page of a sweep's folder")
    report.add_argument("sweep", type=Path, metavar="SWEEP_DIR")
    report.add_argument("--out", type=Path, help="the page (default: report.html in the folder)")
    report.set_defaults(run=_report)
    return parser


if __name__ == "__main__":
    sys.exit(main())
