"""One self-contained interactive page of a sweep: what was run, curves and outcomes to filter, tables, statistics.

The page needs no network: plotly's JavaScript is written into it (about 5 MB). Trials that did not finish are listed
in the page and not hidden.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.frames import ResultsError, Sweep, label, load, settings, telling
from analysis.statistics import dip_test, iqm_interval, mixture, quantile_interval

HERE = Path(__file__).parent
ALWAYS = ("alpha", "beta", "tau", "m_in", "m_h")  # axes of the parallel coordinates, also where they do not vary
MEASURES = ("return", "success", "final_distance")
LEAST_FOR_SHAPE = 20  # seeds from which on the dip test and the mixture say more than noise


def write(directory: Path, out: Path) -> Path:
    """The page of the sweep in ``directory``, written to ``out``; ``out``.

    Raises ResultsError where the folder holds no results, and where plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ResultsError("the report needs plotly; pip install 'raypfrl[analysis]'") from None
    sweep = load(directory, partial=True)
    parts = {
        "TITLE": html.escape(sweep.name),
        "HEADING": html.escape(sweep.name).replace("_", "_<wbr>"),
        "CSS": (HERE / "page.css").read_text(encoding="utf-8"),
        "JS": (HERE / "page.js").read_text(encoding="utf-8"),
        "PLOTLY": get_plotlyjs(),
        "DATA": json.dumps(content(sweep), allow_nan=False, separators=(",", ":")).replace("</", "<\\/"),
    }
    template = (HERE / "page.html").read_text(encoding="utf-8")
    page = re.sub("@@([A-Z]+)@@", lambda place: parts[place[1]], template)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    return out


def content(sweep: Sweep) -> dict[str, Any]:
    """Everything that the page shows, JSON-ready."""
    differing = telling(sweep.trials)
    numbers = [c for c in settings(sweep.trials) if pd.api.types.is_numeric_dtype(sweep.trials[c])]
    trials = [
        {name: _plain(value) for name, value in row.items()} | {"label": label(row, differing)}
        for row in sweep.trials.to_dict("records")
    ]
    counts = sweep.trials.groupby(differing or ["method"], dropna=False)["seed"].nunique()
    return {
        "name": sweep.name,
        "run": _run(sweep),
        "gaps": list(sweep.gaps),
        "planned": len(sweep.about["trials"]),
        "fixed": {
            c: _plain(sweep.trials[c].iloc[0])
            for c in settings(sweep.trials)
            if sweep.trials[c].nunique(dropna=False) == 1
        },
        "varying": differing,
        "axes": [c for c in dict.fromkeys((*(d for d in differing if d in numbers), *ALWAYS)) if c in numbers],
        "trials": trials,
        "curves": list(_curves(sweep.evaluations)),
        "measures": [m for m in MEASURES if m in sweep.evaluations],
        "ranks": {n: _ranks(n) for n in range(1, int(counts.max()) + 1)},
        "statistics": list(_statistics(sweep.trials, differing)),
    }


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


def _curves(evaluations: pd.DataFrame) -> Iterable[dict[str, Any]]:
    for (trial, split, m_adapt), rows in evaluations.groupby(["trial", "split", "m_adapt"], sort=False):
        rows = rows.sort_values("round")
        columns = ["round", *(c for c in ("trajectories", *MEASURES) if c in rows)]
        values = {c: [_plain(v) for v in rows[c]] for c in columns}
        yield {"trial": trial, "split": split, "m_adapt": m_adapt, **values}


def _statistics(trials: pd.DataFrame, differing: list[str]) -> Iterable[dict[str, Any]]:
    """One row for each point of the grid: the return after adaptation over its finished seeds."""
    finished = trials[trials["status"] == "finished"]
    for point, rows in finished.groupby(differing or ["method"], dropna=False):
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
        if len(scores) > 1:
            iqm = iqm_interval(scores)
            row |= {"IQM": _brief(iqm.estimate), "IQM interval": f"{_brief(iqm.low)} to {_brief(iqm.high)}"}
        if len(scores) >= LEAST_FOR_SHAPE and scores.nunique() > 3:
            p = dip_test(scores).p
            row |= {"dip p": f"{p:.3f}" if p >= 0.001 else "< 0.001", "components (BIC)": mixture(scores).components}
        yield row


def _ranks(n: int) -> list[int]:
    """Which order statistics bound the median of n seeds, from 0."""
    interval = quantile_interval(pd.Series(range(n), index=pd.RangeIndex(n, name="seed")))
    return [int(interval.low), int(interval.high)]


def _plain(value: Any) -> Any:
    """A JSON value: numbers to six digits, and text for what JSON does not have."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            return "" if math.isnan(value) else str(value)
        return float(f"{value:.6g}")
    return value


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_brief(v)}" for k, v in value.items() if v is not None)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
