"""Copy what is worth committing of a sweep's folder: the two tables, the plan, and what figures read besides."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pandas as pd

from analysis.frames import load

EXTRAS = ("rollouts.csv", "noise.csv", "judged.csv", "distances.csv", "bias.csv")
# Of metrics.csv: the machine's, or what follows from the round.
LEFT_OUT = ("source", "env_steps", "floats_sent", "seconds", "kernel_seconds", "evaluation_seconds")


def keep(directory: Path, out: Path, *, last: bool = False, metrics: bool = False, compress: bool = False) -> Path:
    """Copy the results in ``directory`` to ``out``; its files are small text. With ``last`` only the first and the last
    evaluation of each trial, for sweeps of many seeds; with ``metrics`` what else was measured; with ``compress`` its
    tables as .csv.gz, which ``frames.load`` reads as well. Numbers are copied as text, so they stay the same to the
    bit.

    Raises ResultsError where trials are missing.
    """
    about = dict(load(directory).about)
    out.mkdir(parents=True, exist_ok=True)
    tables = {name: _text(directory / name) for name in ("trials.csv", "evaluations.csv")}
    if last:
        rows = tables["evaluations.csv"]
        rounds = rows["round"].astype(int)
        tables["evaluations.csv"] = rows[(rounds == 0) | (rounds == rounds.groupby(rows["trial"]).transform("max"))]
    if metrics:
        rows = _text(directory / "metrics.csv")
        tables["metrics.csv"] = rows[[name for name in rows if name not in LEFT_OUT]]
    for name, rows in tables.items():
        text = rows.to_csv(index=False, lineterminator="\n").encode()
        (out / f"{name}.gz" if compress else out / name).write_bytes(gzip.compress(text, mtime=0) if compress else text)
    trials = ",\n".join(f"  {json.dumps(key)}: {json.dumps(settings)}" for key, settings in about.pop("trials").items())
    head = json.dumps(about, indent=1).removesuffix("\n}")
    (out / "sweep.json").write_text(f'{head},\n "trials": {{\n{trials}\n }}\n}}\n', encoding="utf-8")
    for extra in EXTRAS:
        if (directory / extra).exists():
            shutil.copyfile(directory / extra, out / extra)
    return out


def _text(table: Path) -> pd.DataFrame:
    return pd.read_csv(table, dtype=str, keep_default_na=False)
