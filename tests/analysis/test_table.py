"""The table of the paper's numbers: the verdicts' rule, every target of the paper, and the README."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.frames import ResultsError
from analysis.table import AGREES, DIFFERS, NOT_COMPARABLE, TABLE, UNCLEAR, begin, end, judge, markdown, rows
from analysis.targets import TARGETS, Count, Number, Order, Target

Scores = list[float]
BEGIN, END = begin(TABLE), end(TABLE)


def verdict(target: Callable[[Callable[[pd.DataFrame], pd.Series]], Target], values: Scores) -> str:
    """What becomes of the target where our seeds score ``values``."""
    found = pd.Series(values, index=pd.RangeIndex(len(values), name="seed"), dtype=float)
    return judge(target(lambda _: found), pd.DataFrame()).verdict


SPREAD = list(np.linspace(-0.02, 0.02, 10))


@pytest.mark.parametrize(("centre", "expected"), [(0.79, AGREES), (0.805, AGREES), (0.9, DIFFERS), (0.6, DIFFERS)])
@pytest.mark.parametrize("kind", ["mean", "median"])
def test_a_number_agrees_where_ten_new_seeds_could_have_given_it(kind: str, centre: float, expected: str) -> None:
    def target(find: Callable[[pd.DataFrame], pd.Series]) -> Target:
        return Number("F", "0.79", 0.79, 0.005, find, kind)  # type: ignore[arg-type]

    assert verdict(target, [centre + x for x in SPREAD]) == expected


def test_the_papers_rounding_is_allowed_for() -> None:
    assert verdict(lambda find: Number("f", "0.24", 0.24, 0.005, find, "noiseless"), [0.2439] * 3) == AGREES
    assert verdict(lambda find: Number("f", "0.24", 0.24, 0.005, find, "noiseless"), [0.2359] * 3) == AGREES
    assert verdict(lambda find: Number("f", "0.24", 0.24, 0.005, find, "noiseless"), [0.2339] * 3) == DIFFERS
    with pytest.raises(ResultsError, match="has no noise, but differs between seeds"):
        verdict(lambda find: Number("f", "0.24", 0.24, 0.005, find, "noiseless"), [0.24, 0.25])


@pytest.mark.parametrize(("trained", "expected"), [(60, AGREES), (36, AGREES), (8, DIFFERS)])
def test_a_count_agrees_where_the_wilson_intervals_overlap(trained: int, expected: str) -> None:
    scores = [1.6] * trained + [0.5] * (100 - trained)
    assert verdict(lambda find: Count("train", 6, find, at_least=1.5), scores) == expected


@pytest.mark.parametrize(("shift", "expected"), [(-1, AGREES), (1, DIFFERS), (0, NOT_COMPARABLE)])
def test_an_order_is_decided_only_where_the_interval_has_one_sign(shift: float, expected: str) -> None:
    assert verdict(lambda find: Order("a - b", "worse", find), [shift + x for x in SPREAD]) == expected


def test_the_verdict_on_the_same_distribution_is_nearly_always_agrees() -> None:
    """With ten seeds each of one distribution, 5 % of the means may differ; four standard errors of 400 runs."""
    r = np.random.default_rng(0)
    found = []
    for _ in range(400):
        theirs = float(r.normal(0.7, 0.05, 10).mean())
        ours = list(r.normal(0.7, 0.05, 10))
        found.append(verdict(lambda find, p=theirs: Number("F", "", p, 0.0, find), ours))  # type: ignore[misc]
    assert found.count(AGREES) / 400 == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / 400) ** 0.5)


# SPEC: the paper's stated numbers, each with the heading of its experiment and, for several, how often it occurs.
PAPER = {
    "Personalization": ("0.79", "0.73", "0.68", "0.51", "0.24"),
    "Adaptation": ("0.49", "0.48", "0.92", "0.87", "0.78"),
    "Curvature": ("about 0.2", "0.39", "1.51", "6 of 10", "4 of 10", "1.73"),
    "Few-shot": ("1.53", "75", "0.27", "worse", "80", "1.94", "86", "0.25", "about 2000"),
}


def test_every_number_of_the_paper_has_a_row(results: Path) -> None:
    table, _ = rows(results)
    for start, numbers in PAPER.items():
        found = {row.paper for heading, lines in table.items() if heading.startswith(start) for row in lines}
        assert set(numbers) <= found, set(numbers) - found
    assert {heading for heading, _ in TARGETS} == set(table)


def test_every_row_has_ours_an_interval_and_a_verdict(results: Path) -> None:
    table, _ = rows(results)
    for row in (row for lines in table.values() for row in lines):
        assert row.ours != "no results"
        assert row.interval
        assert row.verdict in (AGREES, UNCLEAR, DIFFERS, NOT_COMPARABLE)
    text = markdown(results)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {7}
    said = re.findall(r"numbers (\d+) agree, (\d+) are unclear, (\d+) differ and (\d+) are", text)[0]
    assert sum(map(int, said)) == sum(map(len, TARGETS.values()))


def test_without_a_sweep_the_table_fails_or_says_so(
    tmp_path: Path, write_sweep: Callable[[Path, str, int], Path]
) -> None:
    write_sweep(tmp_path, "personalization", 3)
    with pytest.raises(ResultsError, match="adaptation_step_size: no such folder"):
        markdown(tmp_path)
    partial = markdown(tmp_path, partial=True)
    assert "| F, exact | 0.79 | 0.7" in partial
    assert "| zero-shot return | 1.53 | no results |  |  | not comparable |" in partial


def test_the_readme_is_written_and_drift_is_seen(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme, page = tmp_path / "README.md", tmp_path / "results.md"
    for path in (readme, page):
        path.write_text(f"# raypfrl\n\n{BEGIN}\nold\n{END}\n\nThe rest.\n")
    command = ["table", "--results", str(results), "--readme", str(readme), "--page", str(page)]
    assert main([*command, "--check"]) == 1
    assert "run raypfrl table --write" in capsys.readouterr().err
    before = readme.read_text()
    assert main(command) == 0
    assert readme.read_text() == before  # only where it is asked for
    assert main([*command, "--write"]) == 0
    assert main([*command, "--check"]) == 0
    text = readme.read_text()
    assert text.startswith("# raypfrl\n\n" + BEGIN)
    assert text.endswith(END + "\n\nThe rest.\n")
    assert len(text) < len(page.read_text())
    assert "| F at alpha = 0, exact |" in page.read_text()
    readme.write_text(text.replace("| F, exact | 0.79 | 0.7", "| F, exact | 0.79 | 0.8"))
    assert main([*command, "--check"]) == 1


def test_other_results_leave_the_projects_readme_alone(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (Path(__file__).parents[2] / "README.md").read_bytes()
    assert main(["table", "--results", str(results)]) == 0
    assert (Path(__file__).parents[2] / "README.md").read_bytes() == before
    assert capsys.readouterr().out.startswith("| quantity | paper | ours")


def test_a_readme_without_markers_is_refused(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# raypfrl\n")
    assert main(["table", "--results", str(results), "--readme", str(readme), "--page", str(readme), "--write"]) == 2
    assert "add the two lines" in capsys.readouterr().err
    assert readme.read_text() == "# raypfrl\n"
