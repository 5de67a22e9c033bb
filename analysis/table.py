"""The paper's numbers beside ours, with a verdict by rule; as Markdown: all of them, and the README's few."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.frames import ResultsError, Sweep, load
from analysis.statistics import mean_interval, mean_of_new, median_of_new, quantile_interval, share, wilson
from analysis.targets import PAPER_SEEDS, TARGETS, Count, Number, Order, Target

BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"
AGREES, DIFFERS, NOT_COMPARABLE = "agrees", "**differs**", "not comparable"
HEADLINES = (  # shown in the README, beside whatever does not agree
    "F, exact", "F, first order", "F, FedAvg-PG", "F at alpha = 3, exact", "median return, m_h = 100",
    "median return, m_h = 500", "median return, m_h = 1000", "seeds that train (≥ 1.5), m_h = 1000",
    "median return, FedAvg-PG", "zero-shot return", "zero-shot success, %", "return after a 200-trajectory step",
)  # fmt: skip
RULE = f"""\
The rule of the verdicts. A mean or median agrees where the paper's value, give or take its rounding, lies in the 95 %
range of the same statistic of {PAPER_SEEDS} new seeds, worked out from ours: a t interval for means, order statistics
(no assumption about the distribution) for medians. The 95 % interval is that of our own mean (t) or median (order
statistics). A count agrees where its 95 % Wilson interval and the paper's overlap. An order agrees where the interval
of the median difference within a seed lies on the paper's side, and is not comparable where the interval holds both
signs. What has no noise agrees where it rounds to the paper's value."""


class Row(NamedTuple):
    """One line of the table, as text."""

    quantity: str
    paper: str
    ours: str
    interval: str
    new: str
    verdict: str


def judge(target: Target, frame: pd.DataFrame) -> Row:
    """The target beside what the sweep's evaluations give. Raises ResultsError where they do not have it."""
    try:
        ours = target.find(frame)
    except KeyError as error:
        raise ResultsError(f"{target.quantity}: the results have no value at {error}") from None
    if isinstance(target, Number):
        return _number(target, ours)
    return _count(target, ours) if isinstance(target, Count) else _order(target, ours)


def rows(results: Path, *, partial: bool = False) -> tuple[dict[str, list[Row]], list[Sweep]]:
    """Heading -> rows, and the sweeps used. Where ``partial``, a row that cannot be had says so instead of raising."""
    table, sweeps = {}, []
    for (heading, name), targets in TARGETS.items():
        try:
            sweep = load(results / name, partial=partial)
        except ResultsError:
            if not partial:
                raise
            table[heading] = [_lacking(target) for target in targets]
            continue
        sweeps.append(sweep)
        table[heading] = [_judge_or_lacking(target, sweep, partial) for target in targets]
    return table, sweeps


def markdown(results: Path, *, partial: bool = False) -> str:
    """The table, its rule and where it comes from. Raises ResultsError where results are lacking."""
    table, sweeps = rows(results, partial=partial)
    lines = [
        f"| quantity | paper | ours | 95 % interval | range of {PAPER_SEEDS} new seeds | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for heading, found in table.items():
        lines.append(f"| **{heading}** | | | | | |")
        lines += ["| " + " | ".join(row) + " |" for row in found]
    parts = ["\n".join(lines), _counted(table), RULE, _sources(sweeps)]
    gaps = [f"{sweep.name}: {gap}" for sweep in sweeps for gap in sweep.gaps]
    if gaps:
        parts.insert(0, f"**Partial results**, without {'; '.join(gaps[:5])}{' and more' if len(gaps) > 5 else ''}.")
    return "\n\n".join(parts)


def headlines(results: Path, *, partial: bool = False) -> str:
    """The README's table: the headline rows, what does not agree, and the count of verdicts."""
    table, _ = rows(results, partial=partial)
    lines = ["| quantity | paper | ours | 95 % interval | verdict |", "|---|---|---|---|---|"]
    for (_, name), found in zip(TARGETS, table.values(), strict=True):
        seeds = " (100 seeds)" if name.endswith("_100") else ""
        shown = [row for row in found if row.quantity in HEADLINES or row.verdict != AGREES]
        lines += [f"| {r.quantity}{seeds} | {r.paper} | {r.ours} | {r.interval} | {r.verdict} |" for r in shown]
    return "\n".join(lines) + "\n\n" + _counted(table)


def _counted(table: dict[str, list[Row]]) -> str:
    verdicts = [row.verdict for found in table.values() for row in found]
    agree, differ, rest = (verdicts.count(v) for v in (AGREES, DIFFERS, NOT_COMPARABLE))
    return f"Of {len(verdicts)} numbers {agree} agree, {differ} differ and {rest} are not comparable."


def write(text: str, readme: Path) -> None:
    """Put the table between its markers. Raises ResultsError where the file or a marker is not there."""
    before, _, after = _split(readme)
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def check(text: str, readme: Path) -> int:
    """0 where the file holds this table, else 1, saying what to do. Raises ResultsError as ``write`` does."""
    if _split(readme)[1].strip() == text.strip():
        return 0
    print(f"{readme}: the table is not what the results give; run python -m analysis table", file=sys.stderr)
    return 1


def _split(readme: Path) -> tuple[str, str, str]:
    if not readme.is_file():
        raise ResultsError(f"{readme}: no such file to write the table into; give --readme FILE")
    text = readme.read_text()
    before, begin, rest = text.partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not (begin and end):
        raise ResultsError(f"{readme}: no {BEGIN} ... {END} to write the table between; add the two lines")
    return before, inside, after


def _number(target: Number, ours: pd.Series) -> Row:
    if target.kind == "noiseless":
        value = float(ours.iloc[0])
        if np.ptp(ours.to_numpy()) > 1e-9 * abs(value):
            raise ResultsError(f"{target.quantity} has no noise, but differs between seeds")
        verdict = AGREES if abs(value - target.value) <= target.half else DIFFERS
        return Row(target.quantity, target.paper, _text(value, target), "no noise", "", verdict)
    median = target.kind == "median"
    interval = quantile_interval(ours) if median else mean_interval(ours)
    new = median_of_new(ours, PAPER_SEEDS) if median else mean_of_new(ours, PAPER_SEEDS)
    agrees = new.low <= target.value + target.half and target.value - target.half <= new.high
    ours_in, new_in = (f"{_text(i.low, target)} to {_text(i.high, target)}" for i in (interval, new))
    verdict = AGREES if agrees else DIFFERS
    return Row(target.quantity, target.paper, _text(interval.estimate, target), ours_in, new_in, verdict)


def _count(target: Count, ours: pd.Series) -> Row:
    found, paper = share(ours, at_least=target.at_least, at_most=target.at_most), wilson(target.count, PAPER_SEEDS)
    agrees = found.low <= paper.high and paper.low <= found.high
    return Row(
        target.quantity, f"{target.count} of {PAPER_SEEDS}", f"{found.k} of {found.n}",
        f"{100 * found.low:.0f} to {100 * found.high:.0f} %", "", AGREES if agrees else DIFFERS,
    )  # fmt: skip


def _order(target: Order, ours: pd.Series) -> Row:
    interval = quantile_interval(ours)
    verdict = AGREES if interval.high < 0 else DIFFERS if interval.low > 0 else NOT_COMPARABLE
    span = f"{interval.low:+.2f} to {interval.high:+.2f}"
    return Row(target.quantity, target.paper, f"{interval.estimate:+.2f}", span, "", verdict)


def _text(value: float, target: Number) -> str:
    """With one digit more than the paper prints, except for counts of trajectories."""
    digits = {0.005: 3, 0.05: 2}.get(target.half, 0 if target.value > 100 else 1)
    return f"{value:.{digits}f}"


def _judge_or_lacking(target: Target, sweep: Sweep, partial: bool) -> Row:
    try:
        return judge(target, sweep.evaluations)
    except ResultsError as error:
        if partial:
            return _lacking(target)
        raise ResultsError(f"{sweep.name}: {error}") from None


def _lacking(target: Target) -> Row:
    paper = f"{target.count} of {PAPER_SEEDS}" if isinstance(target, Count) else target.paper
    return Row(target.quantity, paper, "no results", "", "", NOT_COMPARABLE)


def _sources(sweeps: list[Sweep]) -> str:
    def source(sweep: Sweep) -> str:
        commit = str(sweep.about.get("git_commit") or "")[:7]
        seeds = sweep.trials["seed"].nunique()
        return f"{sweep.name} ({len(sweep.trials)} trials, {seeds} seeds{', commit ' + commit if commit else ''})"

    return f"From the results of {', '.join(map(source, sweeps))}."
