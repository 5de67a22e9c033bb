"""Copy what is worth committing of a sweep's folder: the two tables, the plan, and what figures read besides."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd

from analysis.frames import load

EXTRAS = ("rollouts.csv", "noise.csv")


def keep(directory: Path, out: Path, *, last: bool = False) -> Path:
    """Copy the results in ``directory`` to ``out``; its files are small text. With ``last`` only the first and the last
    evaluation of each trial, for sweeps of many seeds. Numbers are copied as text, so they stay the same to the bit.

    Raises ResultsError where trials are missing.
    """
    about = dict(load(directory).about)
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(directory / "trials.csv", out / "trials.csv")
    rows = pd.read_csv(directory / "evaluations.csv", dtype=str, keep_default_na=False)
    if last:
        rounds = rows["round"].astype(int)
        rows = rows[(rounds == 0) | (rounds == rounds.groupby(rows["trial"]).transform("max"))]
    rows.to_csv(out / "evaluations.csv", index=False, lineterminator="\n")
    trials = ",\n".join(f"  {json.dumps(key)}: {json.dumps(settings)}" for key, settings in about.pop("trials").items())
    head = json.dumps(about, indent=1).removesuffix("\n}")
    (out / "sweep.json").write_text(f'{head},\n "trials": {{\n{trials}\n }}\n}}\n', encoding="utf-8")
    for extra in EXTRAS:
        if (directory / extra).exists():
            shutil.copyfile(directory / extra, out / extra)
    return out
