"""Comparisons: paired by seed, at equal budgets, honest with few seeds, and in every form they are given in."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import analysis
from analysis.__main__ import main
from analysis.comparison import COLUMNS, KINDS, compare, conditions
from analysis.frames import RESULTS, ResultsError, load, scores
from analysis.statistics import holm, paired

Write = Callable[[Path, str, int], Path]
NASTY = ["=cmd|' /C calc'!A0", "a$b$c", "<!--<script>alert(1)</script>", "x|y", "[l](http://x)", r"\input{/etc/passwd}"]


def seeds(values: object) -> pd.Series:
    array = np.asarray(values, dtype=float)
    return pd.Series(array, index=pd.RangeIndex(len(array), name="seed"))


def test_the_final_difference_is_that_of_the_scores_seed_by_seed(results: Path) -> None:
    rows = load(results / "personalization").evaluations
    a, b = (scores(rows, method=name, phase="after", split="train") for name in ("exact", "first_order"))
    (found,) = (
        compare(results / "personalization").frame.query("kind == 'final' and b == 'first_order'").to_dict("records")
    )
    assert found["difference"] == pytest.approx((a - b).median())
    assert found["seeds"] == 10
    assert found["wins"] == (a > b).sum()
    assert found["p"] == stats.wilcoxon(a, b).pvalue
    assert found["p_holm"] >= found["p"]


@pytest.mark.parametrize("name", ["personalization", "few_shot"])
def test_committed_results_are_compared_by_name(name: str) -> None:
    table = compare(RESULTS / name)
    assert list(table.frame.columns) == list(COLUMNS)
    assert set(table.frame["kind"]) == set(KINDS)
    told = table.frame[table.frame["why_not"] == ""]
    assert (told["low"] <= told["difference"]).all()
    assert (told["difference"] <= told["high"]).all()
    assert told["p_holm"].ge(told["p"]).all()


def test_at_equal_trajectories_the_longer_run_is_cut(results: Path) -> None:
    """Exact samples 12000 trajectories, first order 8000: its value at 8000 is that of round 53, the last before it."""
    rows = load(results / "personalization").evaluations
    a = scores(rows, method="exact", phase="after", split="train", round=52)
    b = scores(rows, method="first_order", phase="after", split="train")
    found = compare(results / "personalization").frame.query(
        "kind == 'trajectories' and a == 'exact' and b == 'first_order'"
    )
    assert found["at"].item() == 8000
    assert found["difference"].item() == pytest.approx((a - b).median())


def test_the_area_is_the_mean_height_of_the_curve(tmp_path: Path, write_sweep: Write) -> None:
    folder = write_sweep(tmp_path, "personalization", 3)
    rows = pd.read_csv(folder / "evaluations.csv", dtype={"m_adapt": str})
    flat = rows["trial"].str.startswith("exact").map({True: 2.0, False: 0.5})
    rows["return"] = flat.where(rows["round"] > 0, 0.0)  # a jump from 0, then flat
    rows.to_csv(folder / "evaluations.csv", index=False)
    found = compare(folder).frame.query("kind == 'area' and b == 'fedavg_pg'").to_dict("records")
    first = 4 * 5 * 30  # trajectories of the first evaluation
    expected = (2.0 - 0.5) * (1 - first / 2 / 12000)
    assert [row["difference"] for row in found if row["a"] == "exact"] == [pytest.approx(expected)]


def test_floats_are_those_that_were_counted(tmp_path: Path, write_sweep: Write) -> None:
    """FedAvg-PG sends ten times as much in its last half, so it has no evaluation near what exact sends in all."""
    folder = write_sweep(tmp_path, "personalization", 3)
    rows = pd.read_csv(folder / "evaluations.csv", dtype={"m_adapt": str})[["trial", "round"]].drop_duplicates()
    sent = rows["round"] * 100.0
    late = rows["trial"].str.startswith("fedavg_pg") & (rows["round"] > 40)
    rows.assign(floats_sent=sent.where(~late, sent * 10)).to_csv(folder / "metrics.csv", index=False)
    found = compare(folder, against="fedavg_pg").frame.query("kind == 'floats' and a == 'exact'")
    assert found["why_not"].item() == "no evaluation near 8,000 (floats); the last before it is at 4,000"


def test_what_was_not_evaluated_near_the_budget_is_not_made_up(tmp_path: Path, write_sweep: Write) -> None:
    """Two ends only, of unequal cost: there is nothing at 8000 trajectories."""
    folder = write_sweep(tmp_path, "adaptation_step_size", 6)
    frame = compare(folder, where={"alpha": ["1"]}).frame
    why = frame.query("a == 'exact' and b == 'first_order'").set_index("kind")["why_not"]
    assert "no evaluation near 8,000 (trajectories); the last before it is at 0" in why["trajectories"]
    assert "fewer than three evaluations" in why["area"]
    assert why["final"] == ""


def test_with_three_seeds_the_interval_says_that_it_is_only_the_range(tmp_path: Path, write_sweep: Write) -> None:
    table = compare(write_sweep(tmp_path, "personalization", 3))
    row = table.frame.iloc[0]
    assert row["level"] == pytest.approx(0.75)
    assert max(map(len, table.text().splitlines())) <= 80
    text = " ".join(table.text().split())
    assert "With 3 seeds an interval is only the range of the seeds; it covers the true median with 75.0%." in text
    assert "The smallest p that 3 seeds can give is 0.25" in text
    assert table.frame["p"].min() >= 0.25
    assert "only the range" not in compare(write_sweep(tmp_path / "more", "personalization", 6)).text()


def test_points_of_several_sweeps_are_paired_over_their_common_seeds(tmp_path: Path, write_sweep: Write) -> None:
    few, many = (write_sweep(tmp_path, name, n) for name, n in (("adaptation_step_size", 6), ("personalization", 8)))
    frame = compare(few, many, where={"method": ["exact"], "alpha": ["2", "3"]}).frame.query("kind == 'final'")
    assert frame[["a", "b"]].to_numpy().tolist() == [["exact alpha=2", "exact alpha=3"]] * len(frame)
    assert frame["seeds"].eq(6).all()


def test_points_of_unlike_populations_are_not_compared(results: Path) -> None:
    frame = compare(results / "matched_budget").frame
    assert (frame["a"].str.contains("navigation") == frame["b"].str.contains("navigation")).all()


def test_a_trial_that_did_not_finish_is_left_out_and_named(tmp_path: Path, write_sweep: Write) -> None:
    folder = write_sweep(tmp_path, "personalization", 7)
    lines = (folder / "trials.csv").read_text().splitlines()
    (folder / "trials.csv").write_text(
        "\n".join([lines[0], lines[1].replace("finished", "diverged"), *lines[2:]]) + "\n"
    )
    table = compare(folder)
    assert table.frame.query("a == 'exact' and kind == 'final'")["seeds"].eq(6).all()
    assert "Left out, since they did not finish: exact: 1 of 7 seeds diverged." in " ".join(table.text().split())


def test_a_point_without_a_seed_or_with_one_alone_says_why_it_is_left_out(tmp_path: Path, write_sweep: Write) -> None:
    folder = write_sweep(tmp_path, "personalization", 3)
    trials = pd.read_csv(folder / "trials.csv")
    trials.loc[trials["method"] == "exact", "status"] = "diverged"
    of_fedavg = trials["method"] == "fedavg_pg"
    trials[~of_fedavg | (trials["seed"] == 0)].to_csv(folder / "trials.csv", index=False)
    table = compare(folder)
    (why,) = table.frame.query("kind == 'final'")["why_not"]
    assert why == "1 common seed, and it takes 2"
    said = " ".join(table.text().split())
    assert "not compared: 1 common seed," in said
    assert "did not finish: exact: 3 of 3 seeds diverged; fedavg_pg: 2 of 3 seeds missing." in said
    with pytest.raises(ResultsError, match=r"no point 'exact'; .*left out: exact: 3 of 3 seeds diverged"):
        compare(folder, against="exact")


def test_what_a_population_has_not_is_not_compared_and_says_so(tmp_path: Path, write_sweep: Write) -> None:
    """Not every population has a goal."""
    folder = write_sweep(tmp_path, "matched_budget", 2)
    rows = pd.read_csv(folder / "evaluations.csv", dtype={"m_adapt": str})
    rows.loc[rows["trial"].str.contains("gridworld"), "success"] = np.nan
    rows.to_csv(folder / "evaluations.csv", index=False)
    frame = compare(folder, measure="success").frame
    without = frame["a"].str.contains("gridworld")
    assert without.any()
    assert frame[without]["why_not"].str.endswith(" has no success").all()
    assert (frame[~without & (frame["kind"] == "final")]["why_not"] == "").all()
    rows.assign(success=np.nan).to_csv(folder / "evaluations.csv", index=False)
    with pytest.raises(ResultsError, match="no success in these results"):
        compare(folder, measure="success")


WRONG = {
    "one point": (["personalization", "--where", "method=exact"], "nothing to compare: exact; name another folder"),
    "too many": (["curvature_remedies"], "points are .* pairs: choose points with --where"),
    "no such point": (["personalization", "--against", "exakt"], "no point 'exakt'; there are exact; first_order"),
    "no such setting": (["personalization", "--where", "alfa=1"], "no setting 'alfa'"),
    "no such value": (["personalization", "--where", "method=exakt"], "no point with method = exakt; there are exact"),
    "no condition": (["personalization", "--where", "method"], "give KEY=VALUE"),
    "no such measure": (["personalization", "--measure", "joy"], "measure 'joy': give return"),
    "no such folder": (["nowhere"], "nowhere: no such folder of results; .*one of .*personalization"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_compared_is_one_line(
    case: str, results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results)
    arguments, message = WRONG[case]
    assert main(["compare", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(error)


def test_conditions_are_read_as_settings_are_written() -> None:
    assert conditions(["m_h=10,1e2", "method=exact"]) == {"m_h": ["10", "100"], "method": ["exact"]}


@pytest.fixture
def nasty(tmp_path: Path, write_sweep: Write) -> Path:
    """A sweep whose points have names that would be formulas, markup and commands."""
    folder = write_sweep(tmp_path, "personalization", 6)
    trials = pd.read_csv(folder / "trials.csv")
    trials["curvature"] = [
        NASTY[number // 6 % len(NASTY)] + ("=" if number >= 9 else "") for number in range(len(trials))
    ]
    trials["method"] = NASTY[0]
    trials.to_csv(folder / "trials.csv", index=False)
    about = json.loads((folder / "sweep.json").read_text())
    about["trials"] = {row.pop("trial"): row for row in trials.to_dict("records")}
    (folder / "sweep.json").write_text(json.dumps(about))
    return folder


def test_nothing_from_a_run_is_a_formula_markup_or_a_command(nasty: Path) -> None:
    table = compare(nasty)
    cells = [cell for row in csv.reader(io.StringIO(table.csv())) for cell in row]
    assert any("=cmd" in cell for cell in cells)
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+", "-")) and not cell[1:2].isdigit()]
    text = table.markdown()
    assert "<script" not in text.replace("\\<", "")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {12}
    latex = [line for line in table.latex().splitlines() if not line.startswith("%")]
    assert "\\input" not in "\n".join(latex)
    body = "\n".join(line for line in latex if line.endswith(r"\\"))
    assert "$" not in body.replace("\\$", "").replace("$p$", "")
    assert {line.replace("\\&", "").count("&") for line in body.splitlines()} == {10}
    assert "\x1b" not in table.text()


@pytest.mark.parametrize("form", ["text", "csv", "latex", "markdown"])
def test_every_form_is_written_where_it_is_wanted(form: str, results: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "table.txt"
    assert main(["compare", str(results / "personalization"), "--format", form, "--out", str(out)]) == 0
    assert out.read_text().strip() == getattr(compare(results / "personalization"), form)().strip()


def test_the_public_names_are_functions_however_often_they_are_asked_for(results: Path) -> None:
    for _ in range(2):
        sweep = analysis.read(results / "personalization")
        assert len(analysis.compare(sweep).frame) == len(analysis.compare(results / "personalization").frame)
    assert analysis.statistics.paired is paired
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        analysis.reed  # noqa: B018


# --- the statistics ---------------------------------------------------------------------------------------------------


def four_errors(p: float, runs: int) -> float:
    return 4 * float(np.sqrt(p * (1 - p) / runs))


def test_the_p_value_is_scipys_exact_one_and_is_exact_with_ties_too() -> None:
    x = np.random.default_rng(0).normal(0.3, 1, 12)
    assert paired(seeds(x), seeds(0 * x)).p == stats.wilcoxon(x, method="exact").pvalue
    tied = np.array([1.0, 1.0, 1.0, -1.0, 2.0, 0.0])  # the zero is left out: 2^5 signs, of ranks 2.5 (four) and 5
    ranks = np.array([2.5, 2.5, 2.5, 2.5, 5])
    sums = [(np.array(signs) * ranks).sum() for signs in np.ndindex(2, 2, 2, 2, 2)]
    observed = 2.5 * 3 + 5
    tail = np.mean([s >= observed for s in sums])
    assert paired(seeds(tied), seeds(0 * tied)).p == pytest.approx(2 * tail)


def test_the_effect_is_one_where_all_differences_have_one_sign_and_nought_where_they_cancel() -> None:
    assert paired(seeds([1, 2, 3]), seeds([0, 0, 0])).effect == 1
    assert paired(seeds([0, 0, 0]), seeds([1, 2, 3])).effect == -1
    assert paired(seeds([3, -1, -2]), seeds([0, 0, 0])).effect == 0
    assert paired(seeds([3, -1]), seeds([0, 0])).effect == pytest.approx((2 - 1) / 3)


def test_holm_is_the_textbooks() -> None:
    found = holm(pd.Series([0.01, 0.04, 0.03, np.nan]))
    assert found[:3].tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert np.isnan(found[3])
    assert holm(pd.Series([np.nan])).isna().all()


def test_the_paired_interval_covers_and_holms_errors_keep_the_level() -> None:
    """Ten seeds, three points without a difference but with strong common noise: the family errs in 5 % at most."""
    runs, covered, erred = 250, 0, 0
    level = paired(seeds(range(10)), seeds(np.zeros(10))).difference.level
    for run in range(runs):
        r = np.random.default_rng([7, run])
        common = r.normal(size=10)
        a, b, c = (seeds(common + 0.3 * r.standard_t(4, 10)) for _ in range(3))
        found = [paired(*pair) for pair in ((a, b), (a, c), (b, c))]
        covered += found[0].difference.low <= 0 <= found[0].difference.high
        erred += bool((holm(pd.Series([f.p for f in found])) < 0.05).any())
    assert covered / runs == pytest.approx(level, abs=four_errors(level, runs))
    assert erred / runs <= 0.05 + four_errors(0.05, runs)
