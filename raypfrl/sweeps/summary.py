"""The table that a sweep ends with: the median over seeds of every point."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from raypfrl.config import RunConfig
from raypfrl.sweeps.results import Results


def summary(results: Results, configs: Sequence[RunConfig], labels: Mapping[str, str]) -> str:
    """One line a point: seeds that finished, medians before and after adaptation, the range over seeds, success."""
    rows = {row["trial"]: row for row in results.trials.rows}
    points: dict[str, list[dict[str, str]]] = {}
    for config in configs:
        if config.key() in rows:
            points.setdefault(labels[config.key()], []).append(rows[config.key()])
    width = max([len(label) for label in points], default=0)
    lines = [f"{'':{width}}  seeds  before  after (median, lowest to highest)  success"]
    for label, trials in points.items():
        ended = [row for row in trials if row["status"] == "finished"]
        lost = len(trials) - len(ended)
        line = f"{label:{width}}  {len(ended):5}"
        if ended:
            after = [float(row["after/return"]) for row in ended]
            line += (
                f"  {_median(ended, 'before/return'):6.2f}  {statistics.median(after):5.2f}  "
                f"{min(after):5.2f} to {max(after):5.2f}{'':12}  {_percent(_median(ended, 'after/success')):>7}"
            )
        lines.append(line + (f"  ({lost} did not finish)" if lost else ""))
    return "\n".join(lines)


def where(folder: Path) -> str:
    """Where the results are, and the commands that open them, one a line."""
    opened_by = [
        ("sweep.json", f"python -m analysis report {folder}", "a page with curves and tables"),
        ("tune", f"tensorboard --logdir {folder / 'tune'}", "needs pip install tensorboard"),
        ("wandb", f"wandb leet {folder / 'wandb'}", "W&B in the terminal"),
        ("wandb", f"raypfrl sync {folder}", "uploads to W&B what is not there yet"),
    ]
    lines = [f"  {command}  # {what}" for name, command, what in opened_by if (folder / name).exists()]
    return "\n".join([f"results in {folder}; open them with", *lines])


def _median(rows: Sequence[Mapping[str, str]], column: str) -> float:
    return statistics.median(float(row[column] or "nan") for row in rows)


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{share:.0%}"  # not every population has a goal
