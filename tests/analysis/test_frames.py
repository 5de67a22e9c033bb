"""Result files: what is missing is said, and never a silently smaller sample."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from analysis.figures.few_shot import one_step
from analysis.frames import ResultsError, by_seed, label, load, scores, telling

Write = Callable[[Path, str, int], Path]


@pytest.fixture
def folder(tmp_path: Path, write_sweep: Write) -> Path:
    return write_sweep(tmp_path, "personalization", 3)


def edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Change a file's lines."""
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


def test_a_whole_sweep_is_joined_with_its_settings(folder: Path) -> None:
    sweep = load(folder)
    assert sweep.gaps == ()
    assert len(sweep.trials) == 9
    assert set(sweep.evaluations.loc[sweep.evaluations["m_adapt"] == "0", "phase"]) == {"before"}
    found = scores(sweep.evaluations, method="exact", phase="after", split="train")
    last = pd.read_csv(folder / "trials.csv").query("method == 'exact'").set_index("seed")["after/return"]
    pd.testing.assert_series_equal(found, last, check_names=False)


def test_a_missing_and_a_diverged_trial_are_named(folder: Path) -> None:
    edit(folder / "trials.csv", lambda lines: [lines[0], lines[2].replace("finished", "diverged"), *lines[3:]])
    with pytest.raises(ResultsError, match=r"2 of 9 trials are not there \(exact .*seed=0 .* is missing; .*diverged\)"):
        load(folder)
    sweep = load(folder, partial=True)
    assert len(sweep.gaps) == 2
    assert set(sweep.evaluations.query("method == 'exact'")["seed"]) == {2}


def test_a_trial_without_evaluations_or_with_a_broken_one_is_named(folder: Path) -> None:
    rows = pd.read_csv(folder / "evaluations.csv", dtype=object)
    first, second = rows["trial"].unique()[:2]
    rows.loc[rows["trial"] == second, "return"] = "nan"
    rows[rows["trial"] != first].to_csv(folder / "evaluations.csv", index=False)
    with pytest.raises(ResultsError, match=r"has no evaluations; .* has a non-finite return"):
        load(folder)


def test_of_an_evaluation_written_twice_the_last_counts(folder: Path) -> None:
    edit(
        folder / "evaluations.csv",
        lambda lines: [*lines[:2], lines[1].replace(lines[1].split(",")[4], "123.0"), *lines[2:]],
    )
    sweep = load(folder)
    assert (sweep.evaluations["return"] == 123.0).sum() == 1
    assert not sweep.evaluations.duplicated(["trial", "round", "split", "m_adapt"]).any()


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no table": (lambda f: (f / "trials.csv").unlink(), "no trials.csv; the sweep has not finished a trial"),
    "no plan": (lambda f: (f / "sweep.json").unlink(), "no sweep.json; this is not the folder"),
    "empty plan": (lambda f: (f / "sweep.json").write_text("{}"), "no list of the planned trials"),
    "cut-off plan": (lambda f: (f / "sweep.json").write_text('{"sweep": '), "not JSON"),
    "a plan in another encoding": (lambda f: (f / "sweep.json").write_bytes(b"\xff{}"), "not JSON"),
    "a letter in a number": (
        lambda f: edit(f / "trials.csv", lambda lines: [*lines[:-1], lines[-1].replace(",finished,", ",finished,x")]),
        r"damaged \(\S+ = 'x",
    ),
    "no rows": (lambda f: edit(f / "evaluations.csv", lambda lines: lines[:1]), "no rows; finish the sweep first"),
    "nothing at all": (lambda f: (f / "trials.csv").write_text(""), "not a CSV table"),
    "another table": (lambda f: (f / "trials.csv").write_text("a,b\n1,2\n"), "no column trial, seed, method, status"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_folder_is_one_line_that_names_the_file(folder: Path, case: str) -> None:
    spoil, message = BROKEN[case]
    spoil(folder)
    with pytest.raises(ResultsError, match=message) as error:
        load(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no such folder of results; run the sweep"):
        load(tmp_path / "nowhere")


def test_a_selection_that_leaves_a_setting_open_is_refused(tmp_path: Path, write_sweep: Write) -> None:
    frame = load(write_sweep(tmp_path, "adaptation_step_size", 2)).evaluations
    with pytest.raises(ResultsError, match="12 values of return for 2 seeds: say which alpha is meant"):
        scores(frame, method="exact", phase="after")
    with pytest.raises(ResultsError, match=r"no results with alpha = 7; there are 0.0, 0.25"):
        scores(frame, method="exact", alpha=7)
    with pytest.raises(ResultsError, match="no column betta"):
        scores(frame, betta=0.1)
    with pytest.raises(ResultsError, match="several values of return for one seed and round"):
        by_seed(frame, "round", method="exact", phase="after")


def test_only_settings_that_tell_points_apart_are_named(tmp_path: Path, write_sweep: Write) -> None:
    local = load(write_sweep(tmp_path, "local_steps", 1)).trials
    assert local["rounds"].nunique() > 1  # implied by tau
    assert telling(local) == ["method", "beta", "tau"]
    assert label(local.iloc[0].to_dict(), telling(local)) == "exact beta=1.5 tau=1 seed=0"


def test_all_settings_that_were_drawn_are_named(tmp_path: Path, write_sweep: Write) -> None:
    """One that is different for every point would hide the other."""
    trials = load(write_sweep(tmp_path, "local_steps", 1)).trials
    drawn = trials.assign(alpha=range(len(trials)), beta=[1 / (n + 1) for n in range(len(trials))])
    assert telling(drawn) == ["method", "alpha"]
    assert telling(drawn, ("method", "beta", "alpha")) == ["method", "alpha", "beta"]


def test_what_a_sweep_writes_is_what_is_read(tmp_path: Path) -> None:
    """The contract with raypfrl.sweeps.results, with made-up outcomes: nothing is trained."""
    from raypfrl.config import RunConfig
    from raypfrl.sweeps.results import Results

    given = {
        "population": "navigation",
        "method": "first_order",
        "rounds": 3,
        "m_adapt": (0, 20, 50),
        "evaluate": (1, 3),
    }
    configs = [RunConfig(**given, seed=seed) for seed in (0, 1)]
    results = Results(tmp_path / "few_shot", "few_shot")
    results.begin(configs, {"command": "raypfrl sweep few_shot", "swept": ("method",)})
    for config in configs[:1]:
        for k in (0, 1, 3):
            rows = [
                {"split": "held_out", "m_adapt": m, "return": k + m / 100, "success": 0.5, "final_distance": 1.0}
                for m in config.m_adapt
            ]
            metrics = {
                "round": k, "trajectories": 100.0 * k, "drift": 0.0, "missed": 0, "evaluations": rows,
                "status": "finished" if k == 3 else "running", "after/return": k + 0.5, "before/return": float(k),
            }  # fmt: skip
            results.record(config.key(), config, metrics)
    with pytest.raises(
        ResultsError, match=rf"1 of 2 trials are not there \(first_order seed=1 \({configs[1].key()}\) is"
    ):
        load(tmp_path / "few_shot")
    sweep = load(tmp_path / "few_shot", partial=True)
    assert one_step(sweep.evaluations, "return").to_dict("list") == {0: [3.0], 20: [3.2], 50: [3.5]}
    assert telling(sweep.trials) == []
    assert sweep.evaluations["alpha"].eq(configs[0].alpha).all()
