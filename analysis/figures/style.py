"""How figures look: colours that survive colour-blindness and grey print (each has a lightness of its own), line styles
and markers besides, captions, widths, and files whose bytes depend on nothing but the results."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeAlias

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from analysis import escape
from analysis.statistics import Interval, quantile_interval

P = ParamSpec("P")

# Okabe and Ito's hues, each with a lightness of its own (CIE L* 0, 21, 35, 45, 56, 65, 73), so that grey print and
# colour-blind readers tell them apart.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK = (
    "#0A3268", "#D9651A", "#0C7A5A", "#7A3B7A", "#E9A820", "#4AA6DA", "#000000",
)  # fmt: skip
GREY = "#6B6B6B"
WIDTHS = {1: 3.35, 2: 6.9}  # inches of one and two columns of a paper
_columns: ContextVar[int | None] = ContextVar("columns", default=None)


class TooWideError(ValueError):
    """A figure that cannot be one column wide."""


Scores: TypeAlias = Mapping[float, pd.Series] | pd.DataFrame  # x -> one score a seed


class Look(NamedTuple):
    """A line's label, colour, dash and marker."""

    label: str
    colour: str
    dash: Any
    marker: str


METHODS = {
    "exact": Look("exact", BLUE, "-", "o"),
    "first_order": Look("first order", VERMILLION, (0, (6, 2)), "s"),
    "fedavg_pg": Look("FedAvg-PG", GREEN, (0, (1.5, 1.5)), "^"),
    "independent": Look("from scratch", PURPLE, (0, (6, 2, 1.5, 2)), "D"),
}
SERIES = tuple(
    zip(
        (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK),
        ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1)), (0, (8, 2, 1, 2, 1, 2)), (0, (1, 1))),
        "os^Dv<>",
        strict=True,
    )
)
RC: Any = {
    "figure.dpi": 150, "savefig.dpi": 200, "figure.facecolor": "white",
    "font.family": "DejaVu Sans", "font.size": 8.5, "axes.titlesize": 9.5, "axes.labelsize": 9,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlepad": 8,
    "legend.fontsize": 8, "legend.frameon": False, "legend.handlelength": 2.8,
    "xtick.labelsize": 8, "ytick.labelsize": 8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#444444", "axes.linewidth": 0.8,
    "axes.grid": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "lines.linewidth": 1.7, "lines.markersize": 4.5,
    "svg.hashsalt": "raypfrl", "pdf.fonttype": 42, "ps.fonttype": 42,
}  # fmt: skip


class Settled(ConstrainedLayoutEngine):
    """Constrained layout to nine digits: those after them follow the order of its solver's sums, which is memory's."""

    def execute(self, fig: Figure) -> Any:
        """Lay out, and round where the parts of the figure came to stand (in shares of what holds them)."""
        grids = super().execute(fig)
        for part in fig.subfigs:
            part.bbox_relative.set_points(part.bbox_relative.get_points().round(9))
        for axes in fig.axes:
            counted = axes.get_in_layout()
            axes.set_position(np.round(axes.get_position(original=True).bounds, 9).tolist(), which="original")
            axes.set_in_layout(counted)  # what is placed by hand would count no more at the next layout
        return grids


def in_style() -> AbstractContextManager[None]:
    """The style, whatever the user's own matplotlibrc says."""
    plain = {name: value for name, value in mpl.rcParamsDefault.items() if not name.startswith("backend")}
    return mpl.rc_context({**plain, **RC})


@contextmanager
def paper(columns: int | None) -> Iterator[None]:
    """Figures that are drawn within are so many columns of a paper wide (1 or 2; None: as they were designed)."""
    before = _columns.set(columns)
    try:
        yield
    finally:
        _columns.reset(before)


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """A ``draw`` function that draws in the style."""

    @wraps(draw)
    def drawn(*frames: P.args, **options: P.kwargs) -> Figure:
        with in_style():
            figure = draw(*frames, **options)
            if _columns.get():
                _narrow(figure)
            return figure

    return drawn


def _narrow(figure: Figure) -> None:
    """A label on the first panel of every row."""
    for axes in figure.axes[1:]:
        place = axes.get_subplotspec()
        if place and place.is_first_col() and not axes.get_ylabel():
            axes.set_ylabel(figure.axes[0].get_ylabel())


def legend(figure: Figure, handles: Any, labels: Any, ncols: int) -> None:
    """The figure's legend, above its panels, in ``ncols`` columns or, for a paper, as many as fit."""
    for fewer in range(ncols, 0, -1):
        made = figure.legend(handles, labels, loc="outside upper center", ncols=fewer, columnspacing=1.3)
        if not _columns.get():
            return
        figure.draw_without_rendering()
        if fewer == 1 or made.get_window_extent().width <= figure.bbox.width:
            return
        made.remove()


def look(method: str) -> Look:
    """The method's look; one that the paper does not have is black."""
    return METHODS.get(method, Look(escape.mathtext(method.replace("_", " ")), BLACK, (0, (3, 1)), "v"))


def curve(axes: Axes, along: Scores, style: Look, *, points: bool = False, shift: float = 0.0) -> None:
    """The median over seeds along x, and the band of its interval (or bars, with markers at the ``points``).

    along: x -> the scores there, one a seed (a table (seeds, x) is one); ``shift`` is added to x.
    """
    found = [quantile_interval(scores) for _, scores in along.items()]
    at = np.array([x for x, _ in along.items()], dtype=np.float64) + shift
    middle, low, high = (np.array([getattr(i, name) for i in found]) for name in ("estimate", "low", "high"))
    if points:
        axes.errorbar(
            at, middle, yerr=[middle - low, high - middle], color=style.colour, linestyle=style.dash, zorder=4,
            marker=style.marker, markeredgecolor="white", markeredgewidth=0.6, markersize=5.5, capsize=2.5,
            elinewidth=1, label=style.label,
        )  # fmt: skip
        return
    axes.plot(at, middle, color=style.colour, linestyle=style.dash, label=style.label, zorder=4)
    axes.fill_between(at, low, high, color=style.colour, alpha=0.16, linewidth=0, zorder=2)


def reference(axes: Axes, interval: Interval, colour: str, dash: Any, label: str) -> None:
    """A horizontal line with its band, for what does not depend on x."""
    axes.axhline(interval.estimate, color=colour, linestyle=dash, linewidth=1.4, label=label, zorder=1.8)
    axes.axhspan(interval.low, interval.high, color=colour, alpha=0.13, linewidth=0, zorder=1)


def jitter(n: int, width: float) -> np.ndarray:
    """n offsets in [-width, width], evenly spread and the same every time, in an order that does not look sorted."""
    return width * (2 * ((np.arange(n) * 0.6180339887498949 + 0.5) % 1) - 1)


def seeds_and_band(curves: Sequence[Scores]) -> str:
    """How many seeds, and what the bands of ``curve`` are, as the caption says it."""
    counts = sorted({len(scores) for along in curves for _, scores in along.items()})
    seeds = f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    level = min(quantile_interval(pd.Series(np.arange(n), index=pd.RangeIndex(n, name="seed"))).level for n in counts)
    if level < 0.95:
        return f"Median over {seeds}; the band is the range of the seeds (it covers the true median with {level:.1%})."
    return f"Median over {seeds}; the band is its exact order-statistic interval ({level:.1%})."


def caption(figure: Figure, text: str) -> None:
    """The figure's caption: a text file beside it, and a line under it where it is not for a paper."""
    figure.set_label(text)
    if not _columns.get():
        lines = textwrap.wrap(text, int(figure.get_figwidth() * 19))
        figure.supxlabel("\n".join(lines), x=0.012, ha="left", fontsize=7.2, color=GREY, linespacing=1.35)


def say_partial(figure: Figure, gaps: Sequence[str]) -> None:
    """Say in the figure and its caption that trials are missing, and which."""
    shown = ", ".join(map(escape.line, gaps[:4])) + (f" and {len(gaps) - 4} more" if len(gaps) > 4 else "")
    figure.set_label(f"{figure.get_label()} Partial results: {shown}.")
    figure.suptitle(
        "\n".join(textwrap.wrap(f"Partial results: {shown}", int(figure.get_figwidth() * 18))),
        x=0.012, ha="left", fontsize=7.5, color=VERMILLION, parse_math=False,
    )  # fmt: skip


def save(figure: Figure, stem: Path, formats: Sequence[str]) -> list[Path]:
    """``stem`` in every format, and its caption as ``stem``.txt: equal figures, equal bytes. Returns the paths.

    Fonts of a PDF are embedded as TrueType.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    unmarked = {
        "png": {"Software": None}, "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }  # fmt: skip
    paths = [stem.with_suffix(f".{name}") for name in formats]
    with in_style():
        for path in paths:
            figure.savefig(path, metadata=unmarked[path.suffix[1:]])
    paths.append(stem.with_suffix(".txt"))
    caption = re.sub(r"(?<!\\)%", r"\\%", str(figure.get_label()))  # as TeX, like its letters
    paths[-1].write_text(f"{caption}\n", encoding="utf-8")
    return paths


def panels(columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure with one row of panels, without pyplot's global state; for a paper in as many rows as it needs."""
    across = _columns.get()
    if across is None:
        figure = Figure(figsize=(width, height), layout=Settled())
        return figure, figure.subplots(1, columns, **options)
    total, single = WIDTHS[across], width / columns
    most = max(1, min(columns, int(total / (0.8 * single))))
    rows = -(-columns // most)
    in_row = -(-columns // rows)
    tall = min(max(0.85 * height * total / in_row / single, 2.1), 3.2)
    figure = Figure(figsize=(total, 0.4 + rows * tall), layout=Settled())
    options.pop("width_ratios", None)
    axes = figure.subplots(rows, in_row, **{**options, "squeeze": False}).ravel()
    for unused in axes[columns:]:
        figure.delaxes(unused)
    axes = axes[:columns]
    return figure, axes[None] if options.get("squeeze") is False else axes if columns > 1 else axes[0]


def sheet(width: float, height: float) -> Figure:
    """A figure that is laid out as a whole: two columns wide or as designed. Raises TooWideError for one column."""
    if _columns.get() == 1:
        raise TooWideError("it cannot be drawn one column wide; --columns 2 can")
    return Figure(figsize=(WIDTHS[2] if _columns.get() else width, height), layout=Settled())
