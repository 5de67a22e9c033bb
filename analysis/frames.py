"""The result files of one sweep, read, checked against the sweep's plan and joined.

A sweep's folder holds ``trials.csv`` (one row a trial: its settings and how it ended), ``evaluations.csv`` (one row an
evaluation) and ``sweep.json`` (what was planned, with what, on what). A trial that is missing, diverged or failed is
never dropped in silence: ``load`` raises, or, told that the sweep is partial, lists it in ``Sweep.gaps``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

RESULTS = Path(__file__).parent / "results"  # the committed results
OUTCOMES = (  # trials.csv: columns that are no settings
    "status", "round", "trajectories", "env_steps", "floats_sent", "seconds", "message", "commit", "source",
)  # fmt: skip
FIRST = ("population", "method", "alpha", "beta", "tau", "m_in", "m_h", "m_out", "curvature", "curvature_clip")
SCHEDULE = ("evaluate", "m_adapt", "m_eval")  # settings that say when to evaluate, not what is learned
NEEDED = {
    "trials.csv": ("trial", "seed", "method", "status"),
    "evaluations.csv": ("trial", "round", "split", "m_adapt", "return"),
    "metrics.csv": ("trial", "round"),
    "diagnostics.csv": ("trial", "round", "metric", "value"),  # in folders from before metrics.csv
}
NUMBERS = (  # columns that hold nothing else
    "seed", "round", "return", "success", "final_distance", "before/return", "after/return", "before/success",
    "after/success", "trajectories", "env_steps", "floats_sent", "seconds", "drift",
)  # fmt: skip
LONG = ["trial", "round", "metric", "value"]
MEASURED = ("trial", "seed", "round", "return", "success", "final_distance", "trajectories", "drift", "missed")
KEY = ["trial", "round", "split", "m_adapt"]  # names one evaluation; a resumed trial may have written it twice


class ResultsError(ValueError):
    """Result files that cannot be used as they are; the message is one line and names the remedy."""


@dataclass(frozen=True)
class Sweep:
    """A sweep's results.

    trials: one row a trial, as in the file. evaluations: one row an evaluation of a finished trial, joined with the
    trial's settings, plus ``phase`` ("before" at m_adapt = 0, "after" otherwise). about: ``sweep.json``.
    gaps: one line for every planned trial that did not finish; empty unless loaded as partial.
    rows: every evaluation, of trials that did not finish too, as in the file.
    metrics: trial, round, metric, value: every number that was measured besides (diagnostics, say), in long form.
    """

    name: str
    directory: Path
    trials: pd.DataFrame
    evaluations: pd.DataFrame
    about: Mapping[str, Any]
    gaps: tuple[str, ...] = ()
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)
    metrics: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=LONG))


def places(place: str | Path) -> tuple[Path, Path, Path]:
    """Where ``found`` looks, in its order."""
    return Path(place), Path("results", place), RESULTS / place


def found(place: str | Path) -> Path:
    """The folder of results that ``place`` is, or that it names: ``results/NAME`` here, else the committed ``NAME``.

    Raises ResultsError where there is none.
    """
    *here, committed = places(place)
    for folder in here:
        if folder.is_dir():
            return folder
    if committed.is_dir():
        print(f"no results/{place} here: taking those that come with raypfrl, in {committed}", file=sys.stderr)
        return committed
    sweeps = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("sweep.json"))
    known = ", ".join(sweeps) or "none"
    raise ResultsError(f"{place}: no such folder of results; run the sweep, or name another folder or one of {known}")


def read(place: str | Path, *, partial: bool = False) -> Sweep:
    """The results in a folder, or of the sweep of that name (see ``found``), as tidy frames.

    Raises ResultsError as ``load`` does: a trial that is missing is never dropped in silence.
    """
    return load(found(place), partial=partial)


def load(directory: Path, *, partial: bool = False) -> Sweep:
    """The sweep in ``directory``.

    Raises ResultsError where the folder or a file is missing, empty or not a table of the expected columns, and,
    unless ``partial``, where a planned trial is missing, diverged, failed or has no evaluation.
    """
    if not directory.is_dir():
        raise ResultsError(f"{directory}: no such folder of results; run the sweep, or name another folder")
    about = _read_json(directory / "sweep.json")
    trials = _read_csv(directory / "trials.csv", empty=partial)
    rows = _read_csv(directory / "evaluations.csv", empty=partial).drop_duplicates(KEY, keep="last")
    name = str(about.get("sweep", directory.name))
    trials = trials.drop_duplicates("trial", keep="last").reset_index(drop=True)
    gaps = _gaps(trials, rows, about)
    if gaps and not partial:
        shown = "; ".join(gaps[:3]) + (f"; and {len(gaps) - 3} more" if len(gaps) > 3 else "")
        raise ResultsError(
            f"{name}: {len(gaps)} of {len(about['trials'])} trials are not there ({shown}); finish the sweep in "
            f"{directory}, or add --partial to use the others and say so in every figure"
        )
    return Sweep(name, directory, trials, _join(trials, rows), about, gaps, rows, _measured(directory))


def scores(frame: pd.DataFrame, column: str = "return", *, round: int | None = None, **where: Any) -> pd.Series:
    """The values of ``column``, one a seed, of the evaluations that match ``where`` (``method="exact", m_h=10``) at
    ``round`` (default: each trial's last). Index: seed.

    Raises ResultsError where nothing matches, and where a seed has several values, naming the settings left open.
    """
    chosen = select(frame, **where)
    at = chosen.groupby("trial")["round"].transform("max") if round is None else round
    chosen = chosen[chosen["round"] == at]
    if chosen.empty:
        raise ResultsError(f"no evaluation at round {round}" if round is not None else _no_match(frame, where))
    if chosen["seed"].duplicated().any():
        varying = [c for c in chosen if c not in MEASURED and chosen[c].nunique() > 1]
        raise ResultsError(
            f"{len(chosen)} values of {column} for {chosen['seed'].nunique()} seeds: "
            f"say which {' and '.join(varying) or 'trial'} is meant"
        )
    return chosen.set_index("seed")[column].sort_index().astype(float)


def select(frame: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """The rows that match every condition. Raises ResultsError where none does, or a column is not there."""
    chosen = np.ones(len(frame), dtype=bool)
    for column, value in where.items():
        if column not in frame:
            raise ResultsError(f"the results have no column {column}; they have {', '.join(frame.columns)}")
        chosen &= (frame[column] == value).to_numpy()
    if not chosen.any():
        raise ResultsError(_no_match(frame, where))
    return frame[chosen]


def by_seed(frame: pd.DataFrame, x: str, column: str = "return", **where: Any) -> pd.DataFrame:
    """``column`` as a table with one row a seed and one column for each value of ``x``, in increasing order.

    Raises ResultsError where a (seed, x) has several values or none.
    """
    chosen = select(frame, **where)
    if chosen.duplicated(["seed", x]).any():
        raise ResultsError(
            f"several values of {column} for one seed and {x}: the selection {where} leaves settings open"
        )
    table = chosen.pivot(index="seed", columns=x, values=column)
    if table.isna().any(axis=None):
        seed, value = next((s, v) for s, row in table.isna().iterrows() for v in table.columns if row[v])
        raise ResultsError(f"seed {seed} has no {column} at {x} = {value} (selection {where})")
    return table


def settings(trials: pd.DataFrame) -> list[str]:
    """The columns of ``trials.csv`` that are settings, in the file's order, the seed left out."""
    results = {"trial", "seed", *OUTCOMES, *SCHEDULE}
    return [c for c in trials if c not in results and "/" not in c]


def telling(trials: pd.DataFrame, swept: Iterable[str] = ()) -> list[str]:
    """The settings that tell the points of the sweep apart, the seed left out: those that were listed or drawn (its
    ``swept``), and of others as few as will do, so that rounds is not named where tau implies it."""
    found = settings(trials)
    found.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    named: list[str] = []
    points, chosen = 1, set(swept)
    for name in found:
        more = len(trials[[*named, name]].drop_duplicates())
        if more > points or (name in chosen and trials[name].nunique(dropna=False) > 1):
            named, points = [*named, name], more
    return named


def label(given: Mapping[str, Any], swept: Iterable[str]) -> str:
    """What tells a trial from the others of its sweep: ``exact m_h=100 seed=3``."""
    names = [name for name in (*swept, "seed") if name != "method" and given.get(name) is not None]
    return " ".join([str(given.get("method", "")), *(f"{name}={given[name]}" for name in names)]).strip()


def _gaps(trials: pd.DataFrame, rows: pd.DataFrame, about: Mapping[str, Any]) -> tuple[str, ...]:
    planned = about["trials"]
    swept = telling(pd.DataFrame(planned.values()).map(str), about.get("swept", ()))
    named = {trial: f"{label(given, swept)} ({trial})" for trial, given in planned.items()}
    missing = [trial for trial in planned if trial not in set(trials["trial"])]
    unfinished = trials[trials["status"] != "finished"]
    silent = trials[(trials["status"] == "finished") & ~trials["trial"].isin(rows["trial"])]
    broken = rows[~np.isfinite(rows["return"].astype(float))]
    return (
        *(f"{named[t]} is missing" for t in missing),
        *(f"{named.get(t, t)} {status}" for t, status in zip(unfinished["trial"], unfinished["status"], strict=True)),
        *(f"{named.get(t, t)} has no evaluations" for t in silent["trial"]),
        *(
            f"{named.get(t, t)} has a non-finite return"
            for t in broken["trial"].unique()
            if t not in set(unfinished["trial"])
        ),
    )


def _measured(directory: Path) -> pd.DataFrame:
    """``metrics.csv``, which has a column a metric, or an older folder's diagnostics.csv, in long form."""
    if is_table(path := directory / "metrics.csv"):
        table = _read_csv(path, empty=True).drop_duplicates(["trial", "round"], keep="last")
        long = table.melt(["trial", "round"], var_name="metric")
        return long.assign(value=pd.to_numeric(long["value"], errors="coerce")).dropna(subset="value")[LONG]
    if (path := directory / "diagnostics.csv").is_file():
        return _read_csv(path, empty=True)[LONG]
    return pd.DataFrame(columns=LONG)


def _join(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    finished = trials[trials["status"] == "finished"]
    given = finished[["trial", "seed", *settings(finished)]]
    broken = rows.loc[~np.isfinite(rows["return"].astype(float)), "trial"]
    joined = rows[~rows["trial"].isin(broken)].merge(given, on="trial", how="inner", validate="many_to_one")
    return joined.assign(phase=np.where(joined["m_adapt"] == "0", "before", "after"))


def _read_json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise ResultsError(f"{path.parent}: no {path.name}; this is not the folder of a sweep's results")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise ResultsError(f"{path}: not JSON ({error}); write it again by running the sweep") from None
    if not isinstance(about, dict) or not isinstance(about.get("trials"), dict) or not about["trials"]:
        raise ResultsError(f'{path}: no list of the planned trials (key "trials"), so gaps could not be seen')
    return about


def packed(table: Path) -> Path:
    """Where a table is, if it is compressed: only committed ones are."""
    return table.with_name(f"{table.name}.gz")


def is_table(path: Path) -> bool:
    """Whether there is such a table, compressed or not."""
    return path.is_file() or packed(path).is_file()


def _read_csv(path: Path, *, empty: bool = False) -> pd.DataFrame:
    """The table, with ``empty`` also one without rows or not there yet, of a sweep that has just begun."""
    if empty and not is_table(path):
        return pd.DataFrame(columns=list(NEEDED[path.name]))
    if not is_table(path):
        raise ResultsError(
            f"{path.parent}: no {path.name}; the sweep has not finished a trial, or this is another folder"
        )
    try:
        table = pd.read_csv(
            path if path.is_file() else packed(path),
            dtype=dict.fromkeys(("trial", "m_adapt", "commit", "source"), "object"),
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: not a CSV table ({str(error).strip()})") from None
    lacking = [c for c in NEEDED[path.name] if c not in table]
    if lacking:
        raise ResultsError(f"{path}: no column {', '.join(lacking)}; was it written by another program?")
    if table.empty and not empty:
        raise ResultsError(f"{path}: no rows; finish the sweep first")
    words = {name: table[name] for name in NUMBERS if name in table and not is_numeric_dtype(table[name])}
    for name, cells in words.items():
        wrong = cells[pd.to_numeric(cells, errors="coerce").isna() & cells.notna()]
        for cell in wrong:
            raise ResultsError(f"{path}: damaged ({name} = {str(cell)!r}); bring back a copy, or run the sweep anew")
    return table


def _no_match(frame: pd.DataFrame, where: Mapping[str, Any]) -> str:
    for column, value in where.items():
        present = sorted(map(str, frame[column].unique()))
        if str(value) not in present:
            return f"no results with {column} = {value}; there are {', '.join(present)}"
    return f"no results with {', '.join(f'{c} = {v}' for c, v in where.items())} together"
