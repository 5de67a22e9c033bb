"""The paper's numbers beside ours, with a verdict by rule; as Markdown: all of them, and the README's few."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.frames import ResultsError, Sweep, load
from analysis.statistics import (
    LEVEL,
    Interval,
    mean_interval,
    mean_of_new,
    median_of_new,
    quantile_interval,
    share,
    wilson,
)
from analysis.targets import JUDGES, PAPER_SEEDS, TARGETS, Count, Number, Order, Target

TABLE = "table"  # the block of a page that it is written into: <!-- table:begin --> ... <!-- table:end -->
AGREES, UNCLEAR, DIFFERS, NOT_COMPARABLE = "agrees", "unclear", "**differs**", "not comparable"
NUMBERS = sum(
    isinstance(target, Number) and target.kind != "noiseless" for found in TARGETS.values() for target in found
)
STRICT = 1 - 0.05 / NUMBERS  # Bonferroni: the level at which one of so many numbers errs with 5 %
HEADLINES = (  # shown in the README, beside whatever does not agree
    "F, exact", "F, first order", "F, FedAvg-PG", "F at alpha = 3, exact", "median return, m_h = 100",
    "median return, m_h = 500", "median return, m_h = 1000", "seeds that train (≥ 1.5), m_h = 1000",
    "median return, FedAvg-PG", "zero-shot return", "zero-shot success, %", "return after a 200-trajectory step",
)  # fmt: skip
RULE = f"""\
The rule of the verdicts. A mean or median agrees where the paper's value, give or take its rounding, lies in the 95 %
range of the same statistic of {PAPER_SEEDS} new seeds, worked out from ours: a t interval for means, order statistics
(no assumption about the distribution) for medians. It differs where it lies outside the range at {100 * STRICT:.2f} %,
which one of {NUMBERS} numbers leaves by chance with 5 %; between the two it is unclear. Few-shot means are of runs that
the paper's code judges with the same random numbers for every seed: their range has the variance of that too, measured
with ten evaluation seeds (`few_shot_judges`). The 95 % interval is that of our own mean (t) or median (order
statistics). A count agrees where its 95 % Wilson interval and the paper's overlap. An order agrees where the interval
of the median difference within a seed lies on the paper's side, and is not comparable where the interval holds both
signs. What has no noise agrees where it rounds to the paper's value."""
RESAMPLED = 400  # pairs of ten seeds that the rule is tried on


class Row(NamedTuple):
    """One line of the table, as text."""

    quantity: str
    paper: str
    ours: str
    interval: str
    new: str
    verdict: str


def judge(target: Target, frame: pd.DataFrame, judges: pd.DataFrame | None = None) -> Row:
    """The target beside what the sweep's evaluations give; ``judges``: those of the same runs by several evaluation
    seeds, where the paper's has one for all. Raises ResultsError where they do not have it."""
    try:
        ours = target.find(frame)
    except KeyError as error:
        raise ResultsError(f"{target.quantity}: the results have no value at {error}") from None
    if isinstance(target, Number):
        return _number(target, ours, _common(target, judges))
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
        judges = _judges(results, name)
        table[heading] = [_judge_or_lacking(target, sweep, partial, judges) for target in targets]
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
    parts = ["\n".join(lines), _counted(table), RULE, *_errors(sweeps), _sources(sweeps)]
    gaps = [f"{sweep.name}: {gap}" for sweep in sweeps for gap in sweep.gaps]
    if gaps:
        parts.insert(0, f"**Partial results**, without {'; '.join(gaps[:5])}{' and more' if len(gaps) > 5 else ''}.")
    return "\n\n".join(parts)


def headlines(results: Path, *, partial: bool = False) -> str:
    """The README's table: the headline rows, what does not agree, and the count of verdicts."""
    table, _ = rows(results, partial=partial)
    lines = ["| quantity | paper | ours | 95 % interval | verdict |", "|---|---|---|---|---|"]
    many = {target.quantity for (_, name), found in TARGETS.items() if name.endswith("_100") for target in found}
    for (_, name), found in zip(TARGETS, table.values(), strict=True):
        seeds = " (100 seeds)" if name.endswith("_100") else ""
        fewer = set() if seeds else many  # the same quantity of more seeds is shown in its place
        shown = [r for r in found if r.quantity not in fewer and (r.quantity in HEADLINES or r.verdict != AGREES)]
        lines += [f"| {r.quantity}{seeds} | {r.paper} | {r.ours} | {r.interval} | {r.verdict} |" for r in shown]
    return "\n".join(lines) + "\n\n" + _counted(table)


def _counted(table: dict[str, list[Row]]) -> str:
    verdicts = [row.verdict for found in table.values() for row in found]
    agree, unclear, differ, rest = (verdicts.count(v) for v in (AGREES, UNCLEAR, DIFFERS, NOT_COMPARABLE))
    first = f"Of {len(verdicts)} numbers {agree} agree, {unclear} are unclear,"
    return f"{first} {differ} differ and {rest} are not comparable."


def write(text: str, page: Path, block: str = TABLE) -> None:
    """Put the text between the block's markers. Raises ResultsError where the file or a marker is not there."""
    before, _, after = _split(page, block)
    page.write_text(f"{before}{begin(block)}\n{text}\n{end(block)}{after}", encoding="utf-8")


def check(text: str, page: Path, block: str = TABLE) -> int:
    """0 where the block holds this text, else 1, saying what to do. Raises ResultsError as ``write`` does."""
    if _split(page, block)[1].strip() == text.strip():
        return 0
    print(f"{page}: the {block} is not what the results give; run raypfrl table --write", file=sys.stderr)
    return 1


def begin(block: str) -> str:
    """The marker before a block."""
    return f"<!-- {block}:begin -->"


def end(block: str) -> str:
    """The marker after it."""
    return f"<!-- {block}:end -->"


def _split(page: Path, block: str) -> tuple[str, str, str]:
    if not page.is_file():
        raise ResultsError(f"{page}: no such file to write the table into; give --readme FILE")
    before, opened, rest = page.read_text(encoding="utf-8").partition(begin(block))
    inside, closed, after = rest.partition(end(block))
    if not (opened and closed):
        raise ResultsError(
            f"{page}: no {begin(block)} ... {end(block)} to write the {block} between; add the two lines"
        )
    return before, inside, after


def _number(target: Number, ours: pd.Series, common: float = 0.0) -> Row:
    if target.kind == "noiseless":
        value = float(ours.iloc[0])
        if np.ptp(ours.to_numpy()) > 1e-9 * abs(value):
            raise ResultsError(f"{target.quantity} has no noise, but differs between seeds")
        verdict = AGREES if abs(value - target.value) <= target.half else DIFFERS
        return Row(target.quantity, target.paper, _text(value, target), "no noise", "", verdict)
    interval = quantile_interval(ours) if target.kind == "median" else mean_interval(ours)
    new = _of_new(target, ours, common)
    ours_in, new_in = (f"{_text(i.low, target)} to {_text(i.high, target)}" for i in (interval, new))
    verdict = _verdict(target, ours, target.value, common)
    return Row(target.quantity, target.paper, _text(interval.estimate, target), ours_in, new_in, verdict)


def _verdict(target: Number, ours: pd.Series, value: float, common: float = 0.0) -> str:
    """By RULE, for a value of ten seeds that is not known better than to ``target.half``."""
    for level, verdict in ((LEVEL, AGREES), (STRICT, UNCLEAR)):
        new = _of_new(target, ours, common, level)
        if new.low <= value + target.half and value - target.half <= new.high:
            return verdict
    return DIFFERS


def _of_new(target: Number, ours: pd.Series, common: float, level: float = LEVEL) -> Interval:
    if target.kind == "median":
        return median_of_new(ours, PAPER_SEEDS, level)
    return mean_of_new(ours, PAPER_SEEDS, level, common)


def _judges(results: Path, name: str) -> pd.DataFrame | None:
    folder = results / JUDGES.get(name, name)
    return load(folder).evaluations if name in JUDGES and folder.is_dir() else None


def _common(target: Number, judges: pd.DataFrame | None) -> float:
    """The variance over evaluation seeds of the mean over the same runs."""
    if judges is None or target.kind != "mean":
        return 0.0
    means = [float(target.find(rows).mean()) for _, rows in judges.groupby("evaluation_seed")]
    return float(np.var(means, ddof=1))


def _errors(sweeps: list[Sweep]) -> list[str]:
    """How often the rule errs, for a sweep of many seeds: ten of them as ours, ten others as the paper's."""
    said = []
    for sweep in sweeps:
        targets = next(found for (_, name), found in TARGETS.items() if name == sweep.directory.name)
        many = sweep.trials["seed"].nunique() >= 10 * PAPER_SEEDS
        numbers = [target for target in targets if isinstance(target, Number) and target.kind != "noiseless"]
        if many:
            found = np.mean([_resampled(target, target.find(sweep.evaluations)) for target in numbers], axis=0)
            said.append(f"{sweep.directory.name} {100 * found[0]:.1f} % and {100 * found[1]:.1f} %")
    if not said:
        return []
    return [
        f"How often the rule errs: of a sweep with a hundred seeds, ten are taken as ours and ten others as the "
        f"paper's, {RESAMPLED} times for every number. They are not found to agree, and found to differ, in: "
        f"{'; '.join(said)}."
    ]


def _resampled(target: Number, scores: pd.Series) -> tuple[float, float]:
    """The shares of pairs of ten seeds that do not agree, and that differ."""
    r, x = np.random.default_rng(0), scores.to_numpy(np.float64)
    drawn = np.stack([r.permutation(len(x))[: 2 * PAPER_SEEDS] for _ in range(RESAMPLED)])
    ours, theirs = x[drawn[:, :PAPER_SEEDS]], x[drawn[:, PAPER_SEEDS:]]
    value = np.median(theirs, axis=1) if target.kind == "median" else theirs.mean(axis=1)
    seeds = pd.RangeIndex(PAPER_SEEDS, name="seed")
    verdicts = [_verdict(target, pd.Series(a, index=seeds), v) for a, v in zip(ours, value.tolist(), strict=True)]
    return 1 - verdicts.count(AGREES) / RESAMPLED, verdicts.count(DIFFERS) / RESAMPLED


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


def _judge_or_lacking(target: Target, sweep: Sweep, partial: bool, judges: pd.DataFrame | None) -> Row:
    try:
        return judge(target, sweep.evaluations, judges)
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
