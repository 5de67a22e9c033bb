"""The figures: one file each, found by listing this folder. A figure's name is its file's stem.

A file has ``draw``, which takes the evaluations of a sweep, or what ``read`` gives, or nothing, and may have

    SWEEP    the sweep it draws, where that is not the stem
    SWEEPS   several: ``draw`` takes what ``frames.load`` gives of each, in this order
    FILE     instead of a sweep: SWEEP/FILE, which ``read(path)`` reads; SWEEP/ is a folder of several sweeps
    animate  a film besides: ``animate(frame, path)``

A folder of results that has no figure of its own is drawn by ``curves``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import curves, style
from analysis.frames import ResultsError, found, load


@dataclass(frozen=True)
class Drawing:
    """``draw`` takes the evaluations of the sweep ``sweep``; all of several ``sweeps``; a table read from ``file``; or,
    with none of them, nothing."""

    draw: Callable[..., Figure]
    sweep: str | None = None
    sweeps: tuple[str, ...] = ()
    file: str | None = None
    read: Callable[[Path], Any] | None = None
    animate: Callable[[pd.DataFrame, Path], None] | None = None


def _drawing(name: str) -> Drawing:
    module = importlib.import_module(f"analysis.figures.{name}")
    file, read, sweeps = getattr(module, "FILE", None), getattr(module, "read", None), getattr(module, "SWEEPS", ())
    alone = inspect.signature(module.draw).parameters and not file and not sweeps
    sweep = getattr(module, "SWEEP", name) if alone else None
    return Drawing(module.draw, sweep, sweeps, file, read, getattr(module, "animate", None))


FIGURES: Mapping[str, Drawing] = {
    module.name: _drawing(module.name)
    for module in pkgutil.iter_modules(__path__)
    if module.name not in ("style", "curves")
}


def make(
    name: str,
    results: Path | None,
    out: Path,
    *,
    partial: bool = False,
    columns: int | None = None,
    formats: Sequence[str] = ("png", "svg", "pdf"),
) -> list[Path]:
    """Draw the figure ``name`` from the sweeps' folders in ``results``, or the learning curves of the folder of results
    ``name``, and write it to ``out``, with its caption as text; the files written.

    results: None for ``results`` in the current folder where it has the sweep, else for what is committed. columns: for
    a paper, one or two columns wide, and the caption in its file only.

    Raises ResultsError where results are lacking (see ``frames.load``), and for a figure too wide for one column.
    """
    drawing = FIGURES.get(name) or Drawing(curves.draw, sweeps=(name,))
    gaps: tuple[str, ...] = ()
    given: list[Any] = []
    if drawing.file and drawing.read:
        source, _, file = drawing.file.partition("/")
        given = [drawing.read(_folder(results, source) / file)]
    for sweep in (drawing.sweep,) if drawing.sweep else drawing.sweeps:
        loaded = load(_folder(results, sweep), partial=partial)
        given.append(loaded.evaluations if drawing.sweep else loaded)
        gaps += loaded.gaps
    with style.paper(columns):
        try:
            figure = drawing.draw(*given)
        except style.TooWideError as error:
            raise ResultsError(f"{name}: {error}") from None
        if gaps:
            style.say_partial(figure, gaps)
        paths = style.save(figure, out / Path(name).absolute().name, formats)
    if drawing.animate and not columns:
        paths.append(out / f"{name}.gif")
        drawing.animate(given[0], paths[-1])
    return paths


def _folder(results: Path | None, sweep: str) -> Path:
    return results / sweep if results else found(sweep)
