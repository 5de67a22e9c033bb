"""A sweep's own W&B run: its final table, and its result files and figures as artifacts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raypfrl.tracking.names import run_id

RESULTS = ("*.csv", "sweep.json")  # of the folder of results
FIGURES = tuple(f"{place}*.{kind}" for place in ("", "figures/") for kind in ("html", "pdf", "png", "svg"))
DRAW = 8.0  # seconds for a page of figures of a sweep that has none


def log_table(handle: Any, points: Sequence[Mapping[str, Any]]) -> None:
    """One row a point."""
    import wandb

    columns: list[str | int] = list(dict.fromkeys(name for point in points for name in point))
    rows = [[point.get(str(name)) for name in columns] for point in points]
    handle.log({"points": wandb.Table(columns=columns, data=rows, allow_mixed_types=True)})


def log_files(handle: Any, folder: Path, sweep: str, seconds: float) -> None:
    """What lies in a folder of results, and the figures that were drawn there. Where there are none, the report's page
    is drawn, for at most ``seconds``, if what draws it is installed."""
    import wandb

    with tempfile.TemporaryDirectory() as spare:
        figures = _found(folder, FIGURES) or _drawn(folder, Path(spare) / "report.html", seconds)
        for kind, paths in (("results", _found(folder, RESULTS)), ("figures", figures)):
            artifact = wandb.Artifact(run_id(sweep, kind), kind)
            for name, path in paths.items():
                artifact.add_file(str(path), name=name, skip_cache=True)
            if paths:
                handle.log_artifact(artifact).wait()


def _found(folder: Path, patterns: Sequence[str]) -> dict[str, Path]:
    paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): path for path in paths}


def _drawn(folder: Path, page: Path, seconds: float) -> dict[str, Path]:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        draw = [sys.executable, "-m", "analysis", "report", str(folder), "--out", str(page)]
        environment = {**os.environ, "MPLBACKEND": "agg"}
        subprocess.run(draw, timeout=seconds, env=environment, stdout=subprocess.DEVNULL, check=True)
    return {page.name: page} if page.exists() else {}
