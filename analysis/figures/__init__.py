"""The registry of figures: one file a figure, with the stem of the sweep that it draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import (
    adaptation_step_size,
    bimodality,
    curvature_bottleneck,
    curvature_noise,
    curvature_remedies,
    families,
    few_shot,
    local_steps,
    matched_budget,
    personalization,
    rollouts,
    round,
    style,
)
from analysis.frames import load


@dataclass(frozen=True)
class Drawing:
    """``draw`` takes the evaluations of the sweep ``sweep``; a table read from ``file``; or, with neither, nothing."""

    draw: Callable[..., Figure]
    sweep: str | None = None
    file: str | None = None
    read: Callable[[Path], pd.DataFrame] | None = None
    animate: Callable[[pd.DataFrame, Path], None] | None = None


FIGURES: Mapping[str, Drawing] = {
    "adaptation_step_size": Drawing(adaptation_step_size.draw, "adaptation_step_size"),
    "bimodality": Drawing(bimodality.draw, "curvature_bottleneck_100"),
    "curvature_bottleneck": Drawing(curvature_bottleneck.draw, "curvature_bottleneck"),
    "curvature_noise": Drawing(curvature_noise.draw, file="curvature_noise/noise.csv", read=curvature_noise.read),
    "curvature_remedies": Drawing(curvature_remedies.draw, "curvature_remedies"),
    "families": Drawing(families.draw),
    "few_shot": Drawing(few_shot.draw, "few_shot"),
    "local_steps": Drawing(local_steps.draw, "local_steps"),
    "matched_budget": Drawing(matched_budget.draw, "matched_budget"),
    "personalization": Drawing(personalization.draw, "personalization"),
    "rollouts": Drawing(rollouts.draw, file="few_shot/rollouts.csv", read=rollouts.read, animate=rollouts.animate),
    "round": Drawing(round.draw),
}


def make(name: str, results: Path, out: Path, *, partial: bool = False) -> list[Path]:
    """Draw the figure ``name`` from the sweeps' folders in ``results`` and write it to ``out``; the files written.

    Raises ResultsError where results are lacking (see ``frames.load``).
    """
    drawing = FIGURES[name]
    gaps: Sequence[str] = ()
    frames: list[pd.DataFrame] = []
    if drawing.sweep:
        sweep = load(results / drawing.sweep, partial=partial)
        frames, gaps = [sweep.evaluations], sweep.gaps
    elif drawing.file and drawing.read:
        frames = [drawing.read(results / drawing.file)]
    figure = drawing.draw(*frames)
    if gaps:
        style.say_partial(figure, gaps)
    paths = style.save(figure, out / name)
    if drawing.animate:
        paths.append(out / f"{name}.gif")
        drawing.animate(frames[0], paths[-1])
    return paths
