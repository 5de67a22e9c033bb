"""Every figure of the registry, drawn from made-up rows and, where they are there, from the committed ones."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D
from matplotlib.text import Text
from PIL import Image

from analysis.figures import FIGURES, curves, make, style
from analysis.figures.bimodality import statistics
from analysis.figures.local_steps import lines
from analysis.frames import RESULTS, ResultsError, load, scores

DRAWN = {name: d for name, d in FIGURES.items() if d.sweep or d.file}


@pytest.fixture(params=["made up", "committed"])
def rows(request: pytest.FixtureRequest, results: Path) -> Path:
    """A folder of sweeps."""
    return results if request.param == "made up" else RESULTS


def place(name: str, results: Path) -> Path:
    """The made-up results, or for what is drawn from several sweeps the committed ones."""
    return RESULTS if FIGURES[name].sweeps else results


def given(name: str, folder: Path) -> list[Any]:
    """What ``draw`` takes, or a skip where its results are not there."""
    drawing = FIGURES[name]
    for source in (*drawing.sweeps, *filter(None, [drawing.sweep or drawing.file])):
        if not (folder / source).exists():
            pytest.skip(f"no results in {source}")
    if drawing.read:
        return [drawing.read(folder / str(drawing.file))]
    if drawing.sweeps:
        return [load(folder / sweep) for sweep in drawing.sweeps]
    return [load(folder / drawing.sweep).evaluations] if drawing.sweep else []


@cache
def draw(name: str, folder: Path) -> Figure:
    """The figure, or a skip."""
    return FIGURES[name].draw(*given(name, folder))


def words(figure: Figure) -> list[Text]:
    """Every visible text of the figure, but for tick labels: one outside the limits is not drawn."""
    figure.draw_without_rendering()
    ticks = {t for a in figure.axes for axis in (a.xaxis, a.yaxis) for t in axis.get_ticklabels()}
    found = [text for text in figure.findobj(Text) if isinstance(text, Text) and text not in ticks]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


@pytest.mark.parametrize("name", FIGURES)
def test_every_text_lies_inside_its_figure(name: str, rows: Path) -> None:
    with style.in_style():
        figure = draw(name, rows)
        paper = figure.bbox
        for text in words(figure):
            box = text.get_window_extent()
            assert paper.x0 - 1 <= box.x0 <= box.x1 <= paper.x1 + 1, text.get_text()
            assert paper.y0 - 1 <= box.y0 <= box.y1 <= paper.y1 + 1, text.get_text()


@pytest.mark.parametrize("name", FIGURES)
def test_titles_legend_and_caption_do_not_overlap(name: str, rows: Path) -> None:
    with style.in_style():
        figure = draw(name, rows)
        figure.draw_without_rendering()
        titles = [a.title if a.title.get_text() else a._left_title for a in figure.axes]  # type: ignore[attr-defined]
        boxes = [t.get_window_extent() for t in (*titles, *figure.texts) if t.get_text()]
        boxes += [legend.get_window_extent() for legend in figure.legends]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


@pytest.mark.parametrize("name", [n for n, d in DRAWN.items() if d.sweep])
def test_the_caption_says_how_many_seeds_and_what_the_band_is(name: str, results: Path) -> None:
    caption = draw(name, results).get_supxlabel().replace("\n", " ")
    assert f"{load(results / str(FIGURES[name].sweep)).trials['seed'].nunique()} seeds" in caption
    assert "order-statistic interval" in caption or "Wilson intervals" in caption


@pytest.mark.parametrize("name", FIGURES)
def test_equal_results_give_equal_bytes(name: str, results: Path, tmp_path: Path) -> None:
    given(name, place(name, results))
    first, second = (make(name, place(name, results), tmp_path / folder) for folder in ("a", "b"))
    assert [path.suffix for path in first][:4] == [".png", ".svg", ".pdf", ".txt"]
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name
    assert imread(first[0])[..., :3].std() > 0.05  # no blank page
    assert "<dc:date>" not in first[1].read_text()
    assert b"/FontFile2" in first[2].read_bytes() or b"/FontFile3" in first[2].read_bytes()  # embedded
    for film in first[4:]:
        assert_moves(film)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("columns", [1, 2])
def test_for_a_paper_a_figure_is_as_wide_as_its_columns_and_its_legend_fits(
    name: str, columns: int, results: Path
) -> None:
    drawing, rows = FIGURES[name], given(name, place(name, results))
    with style.paper(columns), style.in_style():
        if columns == 1 and name in (
            "bimodality",
            "round",
            "theta0",
            "exactness",
            "claims",
            "table1",
        ):  # laid out as a whole
            with pytest.raises(style.TooWideError, match="--columns 2"):
                drawing.draw(*rows)
            return
        figure = drawing.draw(*rows)
        assert figure.get_figwidth() == style.WIDTHS[columns]
        assert figure.get_supxlabel() == ""  # the caption is the paper's
        assert len(str(figure.get_label())) > 40
        figure.draw_without_rendering()
        assert all(legend.get_window_extent().width <= figure.bbox.width for legend in figure.legends)


@pytest.mark.parametrize("name", [name for name, drawing in FIGURES.items() if drawing.sweep])
def test_lines_of_a_legend_differ_in_lightness_or_in_dash_and_marker(name: str, results: Path) -> None:
    """Grey print shows lightness only; two lines of one lightness need another dash."""
    for legend in draw(name, results).legends:
        lines = [handle for handle in legend.legend_handles if isinstance(handle, Line2D)]
        for a, b in itertools.combinations(lines, 2):
            apart = abs(lightness(a.get_color()) - lightness(b.get_color()))
            dashes = [line._dash_pattern for line in (a, b)]  # type: ignore[attr-defined]
            assert apart >= 7 or dashes[0] != dashes[1] or a.get_marker() != b.get_marker()
            assert (a.get_color(), a._dash_pattern) != (
                b.get_color(),
                b._dash_pattern,
            ) or a.get_marker() != b.get_marker()  # type: ignore[attr-defined]


def lightness(colour: Any) -> float:
    """CIE L*."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    y = float(np.dot([0.2126, 0.7152, 0.0722], linear))
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


def test_every_colour_has_a_lightness_of_its_own() -> None:
    found = sorted(lightness(colour) for colour, *_ in style.SERIES)
    assert min(b - a for a, b in itertools.pairwise(found)) >= 7


def test_a_figure_is_found_by_listing_the_folder() -> None:
    folder = Path(style.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert set(FIGURES) == files - {"__init__", "style", "curves"}


def test_a_name_with_dollars_is_no_mathematics(tmp_path: Path, write_sweep: Callable[[Path, str, int], Path]) -> None:
    """Unescaped, matplotlib's parser raises at the first of these."""
    folder = write_sweep(tmp_path, "local_steps", 2)
    for name in ("trials.csv", "evaluations.csv", "sweep.json"):
        (folder / name).write_text((folder / name).read_text().replace("gridworld", "$x_{$<b>"))
    make("local_steps", tmp_path, tmp_path / "out", formats=["svg"])
    assert "x_{$" in re.sub(r"<!--|-->", "", (tmp_path / "out" / "local_steps.svg").read_text())


def assert_moves(path: Path) -> None:
    """The film's frames differ."""
    with Image.open(path) as film:
        frames = film.n_frames  # type: ignore[attr-defined]
        first = np.asarray(film.convert("L"), dtype=float)
        film.seek(frames // 2)
        assert frames >= 20
        assert np.abs(np.asarray(film.convert("L"), dtype=float) - first).max() > 50


@pytest.mark.parametrize("name", DRAWN)
def test_without_results_there_is_no_figure(name: str, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no such folder of results|write it (by running|with)"):
        make(name, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["personalization", "curvature_remedies", "matched_budget", "few_shot"])
@pytest.mark.parametrize("columns", [None, 1])
def test_a_sweep_without_a_figure_of_its_own_is_drawn_by_its_curves(
    name: str, columns: int | None, results: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(results / name, tmp_path / "mine")
    paths = make("mine", tmp_path, tmp_path / "out", formats=("pdf",), columns=columns)
    assert paths == [tmp_path / "out" / "mine.pdf", tmp_path / "out" / "mine.txt"]
    with style.paper(columns), style.in_style():
        figure = curves.draw(load(folder))
        figure.draw_without_rendering()
        (legend,) = figure.legends
        assert legend.get_window_extent().width <= figure.bbox.width or columns is None
    assert b"/FontFile2" in paths[0].read_bytes()
    caption = paths[1].read_text()
    assert "10 seeds" in caption
    assert ("The best 7 of" in caption) is (name == "curvature_remedies")


def test_the_curves_medians_are_those_of_the_seeds(results: Path) -> None:
    sweep = load(results / "personalization")
    figure = curves.draw(sweep)
    (line,) = [line for line in figure.axes[0].lines if line.get_label() == "exact"]
    final = scores(sweep.evaluations, method="exact", phase="after", split="train")
    assert line.get_ydata()[-1] == pytest.approx(final.median())
    assert line.get_xdata()[-1] == 12000


def test_a_partial_figure_says_so(tmp_path: Path, write_sweep: Callable[[Path, str, int], Path]) -> None:
    folder = write_sweep(tmp_path, "curvature_bottleneck", 7)
    trials = (folder / "trials.csv").read_text().splitlines()
    (folder / "trials.csv").write_text("\n".join([*trials[:1], *trials[2:]]) + "\n")
    with pytest.raises(ResultsError, match="1 of 49 trials are not there"):
        make("curvature_bottleneck", tmp_path, tmp_path / "out")
    make("curvature_bottleneck", tmp_path, tmp_path / "out", partial=True)
    svg = (tmp_path / "out" / "curvature_bottleneck.svg").read_text()
    assert "Partial results" in svg
    assert "6 to 7 seeds" in svg


def test_lines_differ_in_grey_print_too() -> None:
    for looks in (list(style.METHODS.values()), [style.Look("", *series) for series in style.SERIES[:4]]):
        for a, b in itertools.combinations(looks, 2):
            assert a.dash != b.dash
            assert a.marker != b.marker
    for colour, *_ in style.SERIES:  # and none is too light for white paper: WCAG asks 3 of graphics, of which most
        assert lightness(colour) < 75


def test_no_mean_is_drawn_of_a_bimodal_outcome(results: Path) -> None:
    frame = load(results / "curvature_bottleneck").evaluations
    figure = FIGURES["curvature_bottleneck"].draw(frame)
    last = frame.query("method == 'exact' and phase == 'after'")
    last = last[last["round"] == last["round"].max()]
    by = last.groupby("m_h")["return"]
    heights = [line.get_ydata() for line in figure.axes[0].get_lines() if len(line.get_xdata()) == by.ngroups]
    assert any(np.allclose(y, by.median()) for y in heights)
    assert not any(np.allclose(y, by.mean()) for y in heights)
    shown = np.concatenate([np.asarray(line.get_ydata(), float) for line in figure.axes[0].get_lines()])
    assert np.isin(last["return"].to_numpy(), shown).all()  # every seed is there


def test_the_bimodality_table_has_an_interval_for_every_share(results: Path) -> None:
    table = statistics(load(results / "curvature_bottleneck_100").evaluations)
    assert list(table["m_h"]) == [10, 50, 100, 200, 500, 1000]
    for share in ("trained", "collapsed"):
        assert (table[f"{share}_low"] <= table[share]).all()
        assert (table[share] <= table[f"{share}_high"]).all()


def test_local_steps_draws_a_line_for_each_rule_of_beta(results: Path) -> None:
    frame = load(results / "local_steps").evaluations
    found = lines(frame.query("method == 'exact' and phase == 'after'"))
    assert {name: list(along) for name, along in found.items()} == {
        "$\\beta$ = 0.3": [1, 2, 5, 10, 20],
        "$\\beta\\tau$ = 1.5": [1, 2, 5, 10, 20],
    }
