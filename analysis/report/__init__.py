"""One self-contained interactive page of a sweep: what was run, curves and outcomes to filter, tables, comparisons.

The page needs no network: plotly's basic bundle (4.1.1, MIT) and the data are written into it, packed, so that a study
of a hundred trials is well below 1 MB. Whatever came from a run travels as data and is shown as text: nothing of it is
markup or script. Trials that run, wait, or did not finish are in the page and not hidden.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.comparison import COLUMNS, KINDS, SPLITS, compare
from analysis.frames import ResultsError, Sweep, label, load, settings, telling
from analysis.statistics import dip_test, iqm_interval, mixture, quantile_interval

HERE = Path(__file__).parent
ALWAYS = ("alpha", "beta", "tau", "m_in", "m_h")  # axes of the parallel coordinates, also where they do not vary
MEASURES = ("return", "success", "final_distance", "drift")
LEAST_FOR_SHAPE = 20  # seeds from which on the dip test and the mixture say more than noise
MOST_IN_DETAIL = 200  # points whose IQM and shape are worked out
MOST_METRICS = 300_000  # numbers
EVERY = 5.0  # seconds between two looks at a sweep that runs
READ = ("sweep.json", "trials.csv", "evaluations.csv", "diagnostics.csv", "metrics.csv", "rollouts.csv", "rollouts.gif")


def write(directory: Path, out: Path, *, live: bool = False) -> Path:
    """The page of the sweep in ``directory``, written to ``out``; ``out``. A ``live`` page reloads itself.

    Raises ResultsError where the folder holds no results.
    """
    sweep = load(directory, partial=True)
    data = json.dumps(content(sweep, live=live), allow_nan=False, separators=(",", ":"))
    parts = {
        "TITLE": html.escape(sweep.name),
        "CSS": (HERE / "page.css").read_text(encoding="utf-8"),
        "JS": (HERE / "page.js").read_text(encoding="utf-8"),
        "PLOTLY": base64.b64encode((HERE / "plotly-basic.min.js.gz").read_bytes()).decode(),
        "DATA": base64.b64encode(gzip.compress(data.encode(), mtime=0)).decode(),
    }
    template = (HERE / "page.html").read_text(encoding="utf-8")
    page = re.sub("@@([A-Z]+)@@", lambda place: parts[place[1]], template)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")  # a browser that reloads sees the old page or the new one
    part.write_text(page, encoding="utf-8")
    part.replace(out)
    return out


def follow(directory: Path, out: Path, every: float = EVERY) -> Iterator[str]:
    """Write the page whenever the results change, until every planned trial has ended; gives how far it is."""
    seen: object = None
    while True:
        files = [directory / name for name in READ]
        now = [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files if path.is_file()]
        if now != seen:
            seen = now
            try:
                sweep = load(directory, partial=True)
            except ResultsError as error:
                yield f"waiting: {error}"
            else:
                ended, planned = len(sweep.trials), len(sweep.about["trials"])
                write(directory, out, live=ended < planned)
                yield f"{ended} of {planned} trials have ended"
                if ended >= planned:
                    return
        time.sleep(every)


def content(sweep: Sweep, *, live: bool = False) -> dict[str, Any]:
    """Everything that the page shows, JSON-ready."""
    trials = _trials(sweep)
    differing = telling(trials, sweep.about.get("swept", ()))
    named = {str(trial): number for number, trial in enumerate(trials["trial"])}
    trials["label"] = [label(row, differing) for row in trials.to_dict("records")]
    numbers = [c for c in settings(trials) if pd.api.types.is_numeric_dtype(trials[c])]
    return {
        "name": sweep.name,
        "live": live,
        "run": _run(sweep),
        "sources": _sources(trials),
        "gaps": list(sweep.gaps),
        "fixed": {c: _plain(trials[c].iloc[0]) for c in settings(trials) if trials[c].nunique(dropna=False) == 1},
        "varying": differing,
        "axes": [c for c in dict.fromkeys((*(d for d in differing if d in numbers), *ALWAYS)) if c in numbers],
        "trials": {str(c): [_plain(value) for value in trials[c]] for c in trials},
        "evaluations": _columns(sweep.rows, named, ("round", "split", "m_adapt", "trajectories", *MEASURES)),
        "metrics": _columns(_besides(sweep), named, ("round", "metric", "value")),
        "ranks": {n: _ranks(n) for n in range(1, max(trials["seed"].nunique(), 1) + 1)},
        "statistics": list(_statistics(trials, differing)),
        "comparison": _comparison(sweep),
        "rollouts": _rollouts(sweep.directory / "rollouts.csv"),
        "film": _film(sweep.directory / "rollouts.gif"),
    }


def _trials(sweep: Sweep) -> pd.DataFrame:
    """One row a planned trial: its settings as planned, and its outcome; ``running`` or ``waiting`` without one."""
    planned = pd.DataFrame(
        [
            {"trial": trial, **{name: " ".join(map(str, v)) if isinstance(v, list) else v for name, v in given.items()}}
            for trial, given in sweep.about["trials"].items()
        ]
    )
    outcome = sweep.trials[["trial", *(c for c in sweep.trials if c not in planned)]]
    joined = planned.merge(outcome, on="trial", how="left")
    begun = joined["trial"].isin(set(sweep.rows["trial"]))
    joined["status"] = joined["status"].fillna(begun.map({True: "running", False: "waiting"}))
    return joined.assign(**{"after/return": joined.get("after/return", np.nan)})


def _besides(sweep: Sweep) -> pd.DataFrame:
    """The metrics that the evaluations do not have already; of a very large sweep the diagnostics only."""
    names = sweep.metrics["metric"].astype(str)
    known = names.str.startswith(("before/", "after/", "held_out/", "m_adapt_")) | names.isin(list(sweep.rows))
    if (~known).sum() > MOST_METRICS:
        known |= ~names.str.startswith("diagnostics/")
    return sweep.metrics[~known]


def _columns(rows: pd.DataFrame, named: Mapping[str, int], columns: Iterable[str]) -> dict[str, list[Any]]:
    """A table of trials' rows by columns, the trial as its number in the page."""
    rows = rows[rows["trial"].isin(named)]
    kept = {c: [_plain(value) for value in rows[c]] for c in columns if c in rows}
    return {"trial": [named[trial] for trial in rows["trial"]], **kept}


def _run(sweep: Sweep) -> dict[str, str]:
    """What was run, with what and where: the entries of sweep.json that are not the plan."""
    shown = {}
    for name, value in sweep.about.items():
        if name in ("sweep", "trials", "swept") or value is None:
            continue
        entries = value if isinstance(value, list) else [value]
        name = "seconds of each start" if name == "starts" else name.replace("_", " ")
        shown[name] = "; ".join(_brief(entry) for entry in entries)
    return shown


def _sources(trials: pd.DataFrame) -> dict[str, str]:
    """The commits and source hashes of the trials, where they are written down: each with its number of trials."""
    found = {}
    for column in ("commit", "source"):
        if column in trials:
            counts = trials[column].dropna().astype(str).value_counts()
            found[column] = "; ".join(f"{value} ({count} trials)" for value, count in counts.items())
    return {name: text for name, text in found.items() if text}


def _statistics(trials: pd.DataFrame, differing: list[str]) -> Iterable[dict[str, Any]]:
    """One row for each point of the grid: the return after adaptation over its finished seeds."""
    finished = trials[trials["status"] == "finished"]
    for number, (point, rows) in enumerate(finished.groupby(differing or ["method"], dropna=False)):
        where = dict(zip(differing or ["method"], point, strict=True))
        if rows["seed"].duplicated().any():
            continue
        scores = rows.set_index("seed")["after/return"].astype(float)
        median = quantile_interval(scores)
        row = {
            "where": {name: _plain(value) for name, value in where.items()}, "seeds": len(scores),
            "median": _brief(median.estimate), "interval": f"{_brief(median.low)} to {_brief(median.high)}",
            "covers": f"{median.level:.1%}", "range": f"{_brief(scores.min())} to {_brief(scores.max())}",
        }  # fmt: skip
        if len(scores) > 1 and number < MOST_IN_DETAIL:
            iqm = iqm_interval(scores)
            row |= {"IQM": _brief(iqm.estimate), "IQM interval": f"{_brief(iqm.low)} to {_brief(iqm.high)}"}
        if len(scores) >= LEAST_FOR_SHAPE and scores.nunique() > 3 and number < MOST_IN_DETAIL:
            p = dip_test(scores).p
            row |= {"dip p": f"{p:.3f}" if p >= 0.001 else "< 0.001", "components (BIC)": mixture(scores).components}
        yield row


def _comparison(sweep: Sweep) -> dict[str, Any]:
    """Every pair of points, or why there is no table of them."""
    try:
        found = compare(sweep)
    except ResultsError as error:
        return {"rows": [], "notes": [f"{error} (raypfrl compare)"]}
    rows = [{name: _plain(row[name]) for name in COLUMNS} for row in found.frame.to_dict("records")]
    kinds = ", ".join(f"{name}: {meaning}" for names in (SPLITS, KINDS) for name, meaning in names.items())
    return {"rows": rows, "notes": [f"{kinds}.", *found.notes()]}


def _rollouts(path: Path) -> dict[str, list[Any]]:
    """Episodes of one agent, where ``raypfrl rollout`` has written them."""
    if not path.is_file():
        return {}
    from analysis.figures.rollouts import COLUMNS as POSITIONS
    from analysis.figures.rollouts import read

    frame = read(path)
    return {column: [_plain(value) for value in frame[column]] for column in POSITIONS}


def _film(path: Path) -> str:
    """The film of ``raypfrl rollout``, as the address of a picture; empty where there is none."""
    if not path.is_file():
        return ""
    return "data:image/gif;base64," + base64.b64encode(path.read_bytes()).decode()


def _ranks(n: int) -> list[int]:
    """Which order statistics bound the median of n seeds, from 0."""
    interval = quantile_interval(pd.Series(range(n), index=pd.RangeIndex(n, name="seed")))
    return [int(interval.low), int(interval.high)]


def _plain(value: Any) -> Any:
    """A JSON value: numbers to six digits, and text for what JSON does not have."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or value is pd.NA:
        return ""
    if isinstance(value, float):
        if not math.isfinite(value):
            return "" if math.isnan(value) else str(value)
        short = float(f"{value:.6g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    return value if isinstance(value, int | str) else str(value)


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_brief(v)}" for k, v in value.items() if v is not None)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
