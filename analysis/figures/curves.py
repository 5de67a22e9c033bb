"""Any sweep's learning curves: what a sweep is drawn as that has no figure of its own."""

from __future__ import annotations

import textwrap

import pandas as pd
from matplotlib.figure import Figure

from analysis import escape
from analysis.comparison import SPLITS
from analysis.figures import style
from analysis.frames import ResultsError, Sweep, label, telling

MOST = 2  # panels; beyond, only those of the agents that learn
LINE = 38  # characters of a line of the legend
HIGH = 0.16  # inches of it
AXES = {"trajectories": "trajectories per agent", "round": "communication round $k$"}


@style.styled
def draw(sweep: Sweep) -> Figure:
    """The return after the largest adaptation step over training: a panel for each population and split, a curve for
    each point, the best of a population where it has more than can be told apart.

    Raises ResultsError where no trial has finished, or a point has a seed twice.
    """
    rows = sweep.evaluations
    if rows.empty:
        raise ResultsError(f"{sweep.name}: no trial has finished; there is nothing to draw yet")
    swept = telling(sweep.trials, sweep.about.get("swept", ()))
    size = rows["m_adapt"].map(lambda m: float("inf") if m == "exact" else float(m))
    rows = rows[size == size.groupby(rows["trial"]).transform("max")]
    given = rows[list(dict.fromkeys(("method", *swept)))].to_dict("records")
    names = [label({name: value for name, value in row.items() if pd.notna(value)}, swept) for row in given]
    rows = rows.assign(point=names, population=rows.get("population", ""))
    if rows.duplicated(["point", "seed", "round", "split"]).any():
        raise ResultsError(f"{sweep.name}: a point has a seed twice; see it with `raypfrl report`")
    if rows[["population", "split"]].drop_duplicates().shape[0] > MOST:
        rows = rows[rows["split"] == "train"]
    places = list(dict.fromkeys(zip(rows["population"], rows["split"], strict=True)))
    places.sort(key=lambda place: (place[0], list(SPLITS).index(place[1])))
    sampled = "trajectories" in rows and (rows.groupby("trial")["trajectories"].max() > 0).all()
    axis = "trajectories" if sampled else "round"
    figure, axes = style.panels(len(places), 3.7 * len(places), 3.5, squeeze=False)
    drawn, best = [], ""
    for (population, split), panel in zip(places, axes.ravel(), strict=True):
        here = rows[(rows["population"] == population) & (rows["split"] == split)]
        shown, of = _best(rows[rows["population"] == population])
        best = f" The best {len(shown)} of {of} points." if len(shown) < of else best
        for point, (colour, dash, marker) in zip(shown, style.SERIES, strict=False):
            if along := _along(here[here["point"] == point], axis):
                look = style.Look(escape.mathtext(str(point)), colour, dash, marker)
                style.curve(panel, along, look, points=len(along) < 3)
                drawn.append(along)
        panel.margins(x=0.02)
        panel.set(xlabel=AXES[axis], title=f"{escape.mathtext(str(population))}, {SPLITS[split]}".strip(", "))
    axes.ravel()[0].set_ylabel("return after adaptation")
    found = dict(pair[::-1] for panel in axes.ravel() for pair in zip(*panel.get_legend_handles_labels(), strict=True))
    labels = [textwrap.fill(name, LINE, subsequent_indent="  ") for name in found]
    across = max(1, int(figure.get_figwidth() / 3.3))
    lines = -(-len(labels) // across) * max(name.count("\n") + 1 for name in labels)
    figure.set_figheight(figure.get_figheight() + HIGH * lines)  # the legend takes nothing from the panels
    style.legend(figure, list(found.values()), labels, across)
    style.caption(figure, f"{escape.mathtext(sweep.name)}.{best} {style.seeds_and_band(drawn)}")
    return figure


def _best(rows: pd.DataFrame) -> tuple[list[str], int]:
    """The points with the highest medians at the end of training, as many as can be told apart, in the order of the
    sweep; and of how many."""
    last = rows[rows["round"] == rows.groupby("trial")["round"].transform("max")]
    ranked = last.groupby("point")["return"].median().sort_values(ascending=False, kind="stable").index
    chosen = set(ranked[: len(style.SERIES)])
    return [point for point in dict.fromkeys(rows["point"]) if point in chosen], len(ranked)


def _along(rows: pd.DataFrame, axis: str) -> dict[float, pd.Series]:
    """x -> the returns there, one a seed: of each round, whose x is its median over the seeds."""
    rounds = rows.groupby("round")
    return {float(here[axis].median()): here.set_index("seed")["return"].astype(float) for _, here in rounds}
