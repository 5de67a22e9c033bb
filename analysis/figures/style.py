"""How figures look: colours that survive colour-blindness, line styles and markers that survive grey print, captions,
and files whose bytes depend on nothing but the results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeAlias

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.statistics import Interval, quantile_interval

P = ParamSpec("P")

# Okabe and Ito's palette; yellow is left out: it is too light for a line on white.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
)  # fmt: skip
GREY = "#6B6B6B"


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
        ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1)), (0, (8, 2, 1, 2, 1, 2)), "-"),
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
    "svg.hashsalt": "raypfrl",
}  # fmt: skip


def in_style() -> AbstractContextManager[None]:
    """The style, whatever the user's own matplotlibrc says."""
    plain = {name: value for name, value in mpl.rcParamsDefault.items() if not name.startswith("backend")}
    return mpl.rc_context({**plain, **RC})


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """A ``draw`` function that draws in the style."""

    @wraps(draw)
    def drawn(*frames: P.args, **options: P.kwargs) -> Figure:
        with in_style():
            return draw(*frames, **options)

    return drawn


def look(method: str) -> Look:
    """The method's look; one that the paper does not have is black."""
    return METHODS.get(method, Look(method.replace("_", " "), BLACK, (0, (3, 1)), "v"))


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
    """The caption line under a figure, wrapped to the figure's width."""
    lines = textwrap.wrap(text, int(figure.get_figwidth() * 19))
    figure.supxlabel("\n".join(lines), x=0.012, ha="left", fontsize=7.2, color=GREY, linespacing=1.35)


def say_partial(figure: Figure, gaps: Sequence[str]) -> None:
    """Say in the figure that trials are missing, and which."""
    shown = ", ".join(gaps[:4]) + (f" and {len(gaps) - 4} more" if len(gaps) > 4 else "")
    figure.suptitle(
        "\n".join(textwrap.wrap(f"Partial results: {shown}", int(figure.get_figwidth() * 18))),
        x=0.012, ha="left", fontsize=7.5, color=VERMILLION,
    )  # fmt: skip


def save(figure: Figure, stem: Path) -> list[Path]:
    """``stem``.png and .svg: equal figures, equal bytes. Returns the paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with in_style():
        figure.savefig(paths[0], metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths


def panels(columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure with one row of panels, without pyplot's global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, **options)
