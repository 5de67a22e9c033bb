"""Points of one sweep or of several against each other, paired by seed.

A *point* is all settings but the seed. Two points that were run with the same seeds share their random numbers' names,
so that the difference seed by seed has less noise than the two alone. What is compared, for the agents that learn
(train) and those that do not (held_out):

    final         each trial's last evaluation
    trajectories  at equal trajectories per agent: the most that both points have
    floats        at equal floats sent: the most that both points have
    area          mean height of the learning curve over trajectories, up to the most that both have

Of every comparison: the median of the differences with its exact order-statistic interval, in how many seeds the
first is higher, Wilcoxon's signed-rank test, the matched-pairs rank-biserial correlation as effect size, and Holm's
correction of the p-values over all pairs of one kind and split.
"""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import escape
from analysis.frames import FIRST, ResultsError, Sweep, label, load, settings, telling
from analysis.statistics import LEVEL, holm, paired

KINDS = {
    "final": "at the end of training",
    "trajectories": "at equal trajectories per agent",
    "floats": "at equal floats sent",
    "area": "mean height of the learning curve over trajectories",
}
SPLITS = {"train": "agents that learn", "held_out": "unseen agents"}
MOST = 60  # pairs; beyond, a table says nothing
MOST_GAPS = 10  # points that are named as left out
LEAST = 2  # common seeds; of one there is neither an interval nor a test
SHORT = 0.1  # how far below an equal budget, as a share of it, an evaluation may lie
COLUMNS = {  # of the frame, and what stands in them
    "split": "train: the agents that learn; held_out: those that do not",
    "kind": "what is compared: final, trajectories, floats, area",
    "at": "the equal budget; empty for final",
    "a": "the first point",
    "b": "the second point",
    "seeds": "common seeds: the sample size",
    "median_a": "median over the common seeds of the first",
    "median_b": "and of the second",
    "difference": "median over the seeds of a - b",
    "low": "its interval's lower end",
    "high": "its interval's upper end",
    "level": "what the interval covers at least; below 0.95 it is only the range of the seeds",
    "wins": "seeds where a is higher than b",
    "p": "Wilcoxon's signed-rank test, two-sided",
    "p_holm": "the same after Holm's correction over the pairs of this split and kind",
    "effect": "matched-pairs rank-biserial correlation, from -1 to 1",
    "why_not": "why there is no comparison",
}


@dataclass(frozen=True)
class Comparison:
    """All comparisons. ``frame`` has one row each, with the columns of ``COLUMNS``; the methods give it as text."""

    frame: pd.DataFrame
    measure: str
    phase: str
    gaps: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """What has to be known to read the table, one sentence each."""
        told = self.frame["seeds"] > 0
        fewest = int(self.frame.loc[told, "seeds"].min()) if told.any() else 0
        family = self.frame[told].groupby(["split", "kind"]).size()
        notes = [
            f"{self.measure} {self.phase} adaptation; a - b within each seed: median, exact order-statistic interval.",
            "p: Wilcoxon's signed-rank test, two-sided; it takes the seeds as independent and the differences as "
            "symmetric about their median. effect: matched-pairs rank-biserial correlation.",
        ]
        if len(family) and family.max() > 1:
            notes.append(f"p (Holm): corrected for the {family.max()} pairs of the same split and kind.")
        if fewest and (level := float(self.frame.loc[told, "level"].min())) < LEVEL:
            notes.append(
                f"With {fewest} seeds an interval is only the range of the seeds; it covers the true median with "
                f"{level:.1%}. The smallest p that {fewest} seeds can give is {min(1.0, 2.0 ** (1 - fewest)):.2g}."
            )
        if (self.frame["kind"] == "floats").any():
            notes.append("Floats sent: as counted at each evaluation, or, in older folders, in proportion to rounds.")
        if self.gaps:
            more = f"; and {len(self.gaps) - MOST_GAPS} more points" if len(self.gaps) > MOST_GAPS else ""
            shown = escape.line("; ".join(self.gaps[:MOST_GAPS]))
            notes.append(f"Left out, since they did not finish: {shown}{more}.")
        return notes

    def text(self) -> str:
        """For a terminal, 80 columns wide as long as the points' names let it."""
        parts = []
        for (split, kind), rows in self.frame.groupby(["split", "kind"], sort=False):
            parts.append(f"{SPLITS[str(split)]}, {KINDS[str(kind)]}")
            for row in rows.to_dict("records"):
                at = "" if pd.isna(row["at"]) else f"  (at {row['at']:,.0f})"
                parts.append(f"  {escape.line(row['a'])}  minus  {escape.line(row['b'])}{at}")
                if row["why_not"]:
                    parts.append(f"      not compared: {row['why_not']}")
                    continue
                p = f"p {_p(row['p'])}" + (f" (Holm {_p(row['p_holm'])})" if len(rows) > 1 else "")
                found = (
                    f"      {row['difference']:+.3g}  [{row['low']:+.3g}, {row['high']:+.3g}] {row['level']:.1%}  "
                    f"higher in {row['wins']} of {row['seeds']}"
                )
                tested = f"{p}  effect {row['effect']:+.2f}"
                parts += [f"{found}  {tested}"] if len(found) + len(tested) < 79 else [found, f"      {tested}"]
            parts.append("")
        return "\n".join([*parts, *(textwrap.fill(note, 80) for note in self.notes())])

    def csv(self) -> str:
        """Every column, one line a comparison."""
        named = self.frame.map(lambda cell: escape.csv(cell) if isinstance(cell, str) else cell)
        return str(named.to_csv(index=False, lineterminator="\n")).rstrip("\n")

    def markdown(self) -> str:
        """One table, its notes below."""
        heads, rows = self._cells()
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(map(escape.markdown, row)) + " |" for row in rows]
        return "\n".join([*lines, "", *self.notes()])

    def latex(self) -> str:
        """A tabular for the package booktabs, its notes as comments."""
        heads, rows = self._cells()
        heads = [{"p": "$p$", "p (Holm)": "$p$ (Holm)"}.get(head, head) for head in heads]
        lines = [f"% {note}" for note in self.notes()]
        lines += [rf"\begin{{tabular}}{{{'l' * 4}{'r' * (len(heads) - 4)}}}", r"\toprule", " & ".join(heads) + r" \\"]
        lines += [r"\midrule", *(" & ".join(map(escape.latex, row)) + r" \\" for row in rows)]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        heads = ["agents", "compared", "a", "b", "seeds", "a - b", "interval", "wins", "p", "p (Holm)", "effect"]
        rows = []
        for row in self.frame.to_dict("records"):
            at = "" if pd.isna(row["at"]) else f" ({row['at']:,.0f})"
            start = [row["split"], row["kind"] + at, row["a"], row["b"], str(row["seeds"])]
            if row["why_not"]:
                rows.append([*start, "", row["why_not"], "", "", "", ""])
                continue
            interval = f"{row['low']:+.3g} to {row['high']:+.3g} ({row['level']:.0%})"
            rows.append(
                [*start, f"{row['difference']:+.3g}", interval, f"{row['wins']} of {row['seeds']}", _p(row["p"]),
                 _p(row["p_holm"]), f"{row['effect']:+.2f}"]
            )  # fmt: skip
        return heads, rows


def compare(
    *places: str | Path | Sweep,
    measure: str = "return",
    phase: str = "after",
    against: str | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
) -> Comparison:
    """Compare the points of the sweeps in ``places`` (folders, or what ``read`` gave), every pair of them, or each with
    the point called ``against``.

    measure: return, success or final_distance; phase: "after" the adaptation step (the largest m_adapt of each trial)
    or "before" it; where: setting -> the values to keep, as text. Trials that did not finish are left out, and counted
    by point in ``gaps``.

    Raises ResultsError where fewer than two points are left, where there are too many pairs, and for unknown names.
    """
    sweeps = [place if isinstance(place, Sweep) else load(Path(place), partial=True) for place in places]
    gaps = tuple(gap for sweep in sweeps for gap in _left_out(sweep))
    trials, rows = _joined(sweeps, measure, phase)
    swept = [name for sweep in sweeps for name in sweep.about.get("swept", ())]
    for name, values in (where or {}).items():
        if name not in trials:
            raise ResultsError(f"no setting {name!r}; there are {', '.join(settings(trials))}")
        kept = trials[name].map(_word).isin(list(values))
        if not kept.any():
            raise ResultsError(
                f"no point with {name} = {', '.join(values)}; there are {', '.join(_words(trials[name]))}"
            )
        trials = trials[kept]
    names = _names(trials, swept)
    families = trials["population"].map(_word) if "population" in trials else names.map(lambda name: "")
    pairs = _pairs(dict(zip(names, families, strict=True)), against, gaps)
    curves = {name: rows[rows["trial"].isin(trials["trial"][names == name])] for name in dict.fromkeys(names)}
    found = [
        _compared(split, kind, a, b, curves[a], curves[b], measure)
        for split in SPLITS
        if any((curve["split"] == split).any() for curve in curves.values())
        for kind in KINDS
        for a, b in pairs
    ]
    frame = pd.DataFrame(found, columns=list(COLUMNS))
    frame["p_holm"] = frame.groupby(["split", "kind"])["p"].transform(holm)
    return Comparison(frame, measure, phase, gaps)


def conditions(texts: Iterable[str]) -> dict[str, list[str]]:
    """``KEY=A,B`` texts as ``where`` of ``compare``. Raises ResultsError."""
    found = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise ResultsError(f"--where {text!r}: give KEY=VALUE, or KEY=A,B for either")
        found[name] = [_word(_literal(value)) for value in values.split(",")]
    return found


def _left_out(sweep: Sweep) -> list[str]:
    """A line for every point that lacks seeds: how many of how many, and why."""
    planned = sweep.about["trials"]
    swept = telling(pd.DataFrame(planned.values()).map(str), sweep.about.get("swept", ()))
    ended, there = (
        dict(zip(sweep.trials["trial"], sweep.trials["status"], strict=True)),
        set(sweep.evaluations["trial"]),
    )
    seeds, lost = Counter[str](), Counter[tuple[str, str]]()
    for trial, given in planned.items():
        seeds[point := label({**given, "seed": None}, swept)] += 1
        if trial not in there:
            why = ended.get(trial, "missing")
            lost[point, "without a finite evaluation" if why == "finished" else why] += 1
    return [f"{point}: {count} of {seeds[point]} seeds {why}" for (point, why), count in lost.items()]


def _joined(sweeps: Sequence[Sweep], measure: str, phase: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The finished trials of all sweeps, and their evaluations at the m_adapt that ``phase`` means, with the floats
    sent by then. Trials of several folders that are the same trial count once."""
    if phase not in ("before", "after"):
        raise ResultsError(f"phase {phase!r}: give before or after")
    trials = pd.concat([s.trials[s.trials["status"] == "finished"] for s in sweeps], ignore_index=True)
    rows = pd.concat([sweep.evaluations for sweep in sweeps], ignore_index=True)
    if measure not in ("return", "success", "final_distance") or measure not in rows:
        raise ResultsError(f"measure {measure!r}: give return, success or final_distance, where it was measured")
    if trials.empty:
        raise ResultsError("no trial has finished: there is nothing to compare yet")
    if rows[measure].isna().all():
        raise ResultsError(f"no {measure} in these results: not every population has a goal; compare return")
    trials = trials.drop_duplicates("trial")
    rows = rows[rows["phase"] == phase].drop_duplicates(["trial", "round", "split", "m_adapt"])
    size = rows["m_adapt"].map(lambda m: np.inf if m == "exact" else float(m))
    rows = rows[size == size.groupby(rows["trial"]).transform("max")]
    return trials, rows.assign(floats=_floats(trials, rows, [sweep.metrics for sweep in sweeps]))


def _floats(trials: pd.DataFrame, rows: pd.DataFrame, metrics: Sequence[pd.DataFrame]) -> pd.Series:
    """The floats sent by each evaluation: as counted then, or, in folders from before that was written down, in
    proportion to the rounds from the trial's total. NaN where neither is known."""
    counted = pd.concat([table[table["metric"] == "floats_sent"] for table in metrics])
    there = counted.drop_duplicates(["trial", "round"]).set_index(["trial", "round"])["value"].astype(float)
    then = pd.Series(there.reindex(pd.MultiIndex.from_frame(rows[["trial", "round"]])).to_numpy(), index=rows.index)
    if not {"floats_sent", "round"} <= set(trials):
        return then
    total = trials.set_index("trial")
    return then.fillna(rows["trial"].map(total["floats_sent"] / total["round"]).astype(float) * rows["round"])


def _names(trials: pd.DataFrame, swept: Sequence[str]) -> pd.Series:
    """What each trial's point is called: its method, and the settings that tell the points apart."""
    differ = [name for name in telling(trials, swept) if name != "method"]
    differ.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    words = [trials["method"].map(_word), *(name + "=" + trials[name].map(_word) for name in differ)]
    return pd.Series([" ".join(parts) for parts in zip(*words, strict=True)], index=trials.index, dtype=object)


def _pairs(points: Mapping[str, str], against: str | None, gaps: Sequence[str]) -> list[tuple[str, str]]:
    """Which points (name -> population) are compared: those of one population, whose returns mean the same."""
    names = list(points)
    without = f" (left out: {escape.line('; '.join(gaps[:MOST_GAPS]))})" if gaps else ""
    if against is not None and against not in points:
        raise ResultsError(
            f"no point {escape.line(against)!r}; there are {'; '.join(map(escape.line, names))}{without}"
        )
    of_one = [(a, b) for a, b in itertools.combinations(names, 2) if points[a] == points[b]]
    pairs = (
        of_one if against is None else [(n, against) for n in names if n != against and points[n] == points[against]]
    )
    if not pairs:
        raise ResultsError(
            f"nothing to compare: {'; '.join(map(escape.line, names))}{without}; name another folder too, with a point "
            "of the same population"
        )
    if len(pairs) > MOST:
        raise ResultsError(
            f"{len(names)} points are {len(pairs)} pairs: choose points with --where KEY=VALUE, or compare all with "
            f"one, as --against {escape.line(names[-1])!r}"
        )
    return pairs


def _compared(
    split: str, kind: str, a: str, b: str, first: pd.DataFrame, second: pd.DataFrame, measure: str
) -> dict[str, object]:
    row: dict[str, object] = {"split": split, "kind": kind, "at": np.nan, "a": a, "b": b, "seeds": 0, "why_not": ""}
    numbers = ("median_a", "median_b", "difference", "low", "high", "level", "p", "effect")
    row |= dict.fromkeys(numbers, np.nan) | {"wins": 0}
    first, second = (curve[curve["split"] == split] for curve in (first, second))
    common = sorted(set(first["seed"]) & set(second["seed"]))
    try:
        for name, curve in ((a, first), (b, second)):
            if curve.empty:
                raise _NotCompared(f"{name} was not evaluated on {SPLITS[split]}")
            if (gone := curve[measure].isna()).any():
                raise _NotCompared(f"{name} has {'no' if gone.all() else 'not everywhere a'} {measure}")
        if len(common) < LEAST:
            raise _NotCompared(f"{len(common)} common seed{'s' * (len(common) != 1)}, and it takes {LEAST}")
        first, second = (curve[curve["seed"].isin(common)] for curve in (first, second))
        scores, at = _scores(kind, first, second, measure)
    except _NotCompared as why:
        return row | {"why_not": str(why)}
    found = paired(*scores)
    return row | {
        "at": at, "seeds": len(common), "median_a": float(scores[0].median()), "median_b": float(scores[1].median()),
        "difference": found.difference.estimate, "low": found.difference.low, "high": found.difference.high,
        "level": found.difference.level, "wins": found.wins.k, "p": found.p, "effect": found.effect,
    }  # fmt: skip


class _NotCompared(Exception):
    """Why two points cannot be compared in this way."""


def _scores(kind: str, first: pd.DataFrame, second: pd.DataFrame, measure: str) -> tuple[list[pd.Series], float]:
    """One score a seed of either point, and the equal budget."""
    curves = (first, second)
    if kind == "final":
        return [
            _by_seed(curve, curve.groupby("seed")["round"].transform("max"), "round", measure) for curve in curves
        ], np.nan
    axis = "floats" if kind == "floats" else "trajectories"
    if any(curve[axis].isna().any() for curve in curves):
        raise _NotCompared(f"{axis} were not counted")
    most = min(float(curve.groupby("seed")[axis].max().min()) for curve in curves)
    if most == 0:
        raise _NotCompared("one of them sends none" if kind == "floats" else "one of them samples none")
    if kind == "area":
        return [_area(curve, most, measure) for curve in curves], most
    return [_at(curve, axis, most, measure) for curve in curves], most


def _by_seed(curve: pd.DataFrame, value: pd.Series | float, axis: str, measure: str) -> pd.Series:
    chosen = curve[curve[axis] == value]
    return chosen.set_index("seed")[measure].sort_index().astype(float)


def _at(curve: pd.DataFrame, axis: str, most: float, measure: str) -> pd.Series:
    """Each seed's last evaluation within the budget, which has to be near it: nothing is made up between two."""
    within = curve[curve[axis] <= most * (1 + 1e-9)]
    last = within.groupby("seed")[axis].transform("max")
    if (short := float(last.min())) < (1 - SHORT) * most:
        raise _NotCompared(f"no evaluation near {most:,.0f} ({axis}); the last before it is at {short:,.0f}")
    return _by_seed(within, last, axis, measure)


def _area(curve: pd.DataFrame, most: float, measure: str) -> pd.Series:
    """Each seed's mean height from 0 to ``most`` trajectories: trapezia between the evaluations."""
    areas = {}
    for seed, rows in curve.groupby("seed"):
        x, y = rows.sort_values("trajectories")[["trajectories", measure]].to_numpy(dtype=float).T
        if (x <= most).sum() < 3:
            raise _NotCompared("fewer than three evaluations of a seed are no curve")
        inside = np.append(x[x < most], most)
        areas[seed] = float(np.trapezoid(np.interp(inside, x, y), inside) / (most - x[0]))
    return pd.Series(areas, dtype=float).rename_axis("seed").sort_index()


def _word(value: object) -> str:
    """A setting's value as the point's name has it."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "none"
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _words(values: pd.Series) -> list[str]:
    return sorted({escape.line(_word(value)) for value in values})


def _literal(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _p(value: object) -> str:
    number = float(str(value))
    return "< 0.001" if number < 0.001 else f"{number:.3f}"
