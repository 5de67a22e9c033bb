"""Table 1 of the paper, run: what each system guarantees, one panel a system. The systems are the files of this folder;
each has ``panel``, which draws a sweep's results on one axis and gives its sentence of the caption."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.frames import ResultsError, Sweep, load

FILE = "table1/"  # a folder with the results of each system under its name
PANEL = 3.9, 3.1  # inches

PANELS: Mapping[str, Callable[[Axes, Sweep], str]] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").panel for module in pkgutil.iter_modules(__path__)
}


def read(folder: Path) -> dict[str, Sweep]:
    """The results of every system that there are some of, by its name. Raises ResultsError where there are none."""
    found = {name: load(folder / name) for name in PANELS if (folder / name).is_dir()}
    if not found:
        raise ResultsError(f"{folder}: no results of any system; write it by running raypfrl sweep table1/NAME")
    return found


@style.styled
def draw(sweeps: Mapping[str, Sweep]) -> Figure:
    """One panel for each system that there are results of."""
    width, height = PANEL
    figure = style.sheet(3 * width, height)
    across = 3 if figure.get_figwidth() >= 3 * width else 2  # in a paper
    rows = -(-len(sweeps) // across)
    figure.set_figheight(1.0 + height / width * figure.get_figwidth() / across * rows)
    axes = figure.subplots(rows, across, squeeze=False).ravel()
    sentences = []
    for letter, (name, sweep), axis in zip("abcdefghijklmnopqrstuvwxyz", sweeps.items(), axes, strict=False):
        sentences.append(f"({letter}) {PANELS[name](axis, sweep)}")
        axis.set_title(f"({letter}) {axis.get_title('left')}")
    for unused in axes[len(sweeps) :]:
        figure.delaxes(unused)
    style.caption(figure, " ".join(sentences))
    return figure
