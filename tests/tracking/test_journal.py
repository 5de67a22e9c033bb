"""The driver's side: what is told, once, and that tracking keeps out of everything else."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from raypfrl import RunConfig
from raypfrl.cli import main
from raypfrl.metrics import METRICS
from raypfrl.sweeps.recorder import Recorder
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.tensorboard import TensorBoard
from raypfrl.tracking import Tracker, Tracking, journal
from raypfrl.tracking.journal import Journal, journal_of
from tests.tracking.conftest import CONFIG, metrics, row
from tests.tracking.loopback import KEY


@pytest.fixture(autouse=True)
def no_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of the writer a process that ends at once: this is about the journal."""
    monkeypatch.setattr(journal, "command", lambda *_: ["true"])


def tracker(folder: Path, config: RunConfig = CONFIG, **options: object) -> Tracker:
    labels, code = {config.key(): "exact m_h=10"}, {"git_commit": "c0ffee", "source": "abad1dea"}
    return Tracker(folder, "tiny", Tracking(**options), code).start(labels)  # type: ignore[arg-type]


def events(folder: Path) -> list[dict[str, object]]:
    return list(Journal(journal_of(folder)).new())


def test_a_run_is_named_after_its_settings(tmp_path: Path) -> None:
    one = tracker(tmp_path)
    one.record(CONFIG, metrics(0))
    one.close()
    begin = events(tmp_path)[0]
    assert begin["project"] == "raypfrl"
    assert begin["run"] == f"tiny-{CONFIG.key()}"
    assert str(begin["group"]).startswith("tiny exact m_h=10 ")
    assert begin["job_type"] == "exact"
    assert begin["name"] == "exact m_h=10 seed=0"
    assert begin["tags"] == ["tiny", "gridworld", "exact"]
    assert begin["commit"] == "c0ffee"
    told = {"sweep": "tiny", "source": "abad1dea", "trial": CONFIG.key(), "point": "exact m_h=10"}
    assert begin["config"] == {**told, **CONFIG.identity()}


def test_a_group_is_a_point_with_all_its_seeds(tmp_path: Path) -> None:
    groups = []
    for number, config in enumerate(
        (CONFIG, CONFIG.model_copy(update={"seed": 7}), CONFIG.model_copy(update={"m_h": 7}))
    ):
        (tmp_path / str(number)).mkdir()
        one = tracker(tmp_path / str(number), config)
        one.record(config, metrics(0))
        one.close()
        groups.append(events(tmp_path / str(number))[0]["group"])
    assert groups[0] == groups[1] != groups[2]


@pytest.mark.parametrize(
    "line",
    [b"not json", b"\0\0", b"{}", b"[]", b'{"event": "row", "run": "a"}', b'{"event": "row", "run": "a", "row": []}'],
)
def test_a_damaged_line_is_left_out(tmp_path: Path, line: bytes) -> None:
    one = tracker(tmp_path)
    one.record(CONFIG, metrics(0))
    one.close()
    path = tmp_path / "wandb" / "journal.jsonl"
    sound = list(Journal(path).new())
    path.write_bytes(line + b"\n" + path.read_bytes())
    assert list(Journal(path).new()) == sound
    again = tracker(tmp_path)
    again.record(CONFIG, metrics(0))
    again.close()
    assert list(Journal(path).new()) == sound


def test_the_variables_and_the_option_name_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "by-variable")
    for folder, options in (("variable", {}), ("option", {"project": "by-option"})):
        (tmp_path / folder).mkdir()
        one = tracker(tmp_path / folder, **options)
        one.record(CONFIG, metrics(0))
        one.close()
        assert events(tmp_path / folder)[0]["project"] == f"by-{folder}"


def test_each_round_is_told_once_over_all_starts(tmp_path: Path) -> None:
    for rounds in ((0, 1, 2), (1, 2, 3), (3, 4)):  # a trial that goes on repeats what came after its checkpoint
        one = tracker(tmp_path)
        for round in rounds:
            one.record(CONFIG, metrics(round))
        one.close()
    told = events(tmp_path)
    assert [event["event"] for event in told] == ["begin", *["row"] * 5]
    assert [event["row"]["round"] for event in told[1:]] == [0, 1, 2, 3, 4]  # type: ignore[index]


def test_the_sweeps_own_run_has_the_final_table(tmp_path: Path) -> None:
    """At every end of the sweep anew; it is the same run."""
    for after in (0.25, 0.5):
        one = tracker(tmp_path)
        one.summarise([{"point": "exact", "seeds": 1, "after": after}], [CONFIG])
        one.close()
    begin, *ends = events(tmp_path)
    assert (begin["job_type"], begin["tags"]) == ("summary", ["tiny", "summary"])
    assert begin["name"] == "tiny summary"
    assert {end["run"] for end in ends} == {begin["run"]}
    assert [end["table"] for end in ends] == [[{"point": "exact", "seeds": 1, "after": x}] for x in (0.25, 0.5)]


def test_a_line_that_a_crash_cut_off_is_told_again(tmp_path: Path) -> None:
    one = tracker(tmp_path)
    for round in range(3):
        one.record(CONFIG, metrics(round))
    one.close()
    path = journal_of(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    one = tracker(tmp_path)
    one.record(CONFIG, metrics(2))
    one.close()
    assert [event["row"]["round"] for event in events(tmp_path)[1:]] == [0, 1, 2]  # type: ignore[index]


def test_a_row_holds_every_metric_and_every_evaluation(tmp_path: Path) -> None:
    one = tracker(tmp_path)
    other = {"split": "held_out", "m_adapt": "exact", "return": 0.5, "success": 0.25, "final_distance": 1.5}
    told = metrics(3)
    one.record(CONFIG, {**told, "evaluations": [*told["evaluations"], other], "held_out/after/return": 0.5, "pid": 1})
    one.close()
    noted = events(tmp_path)[1]["row"]
    assert isinstance(noted, dict)
    assert set(METRICS) - {"missed"} <= set(noted)  # nobody was missed
    assert noted["held_out/after/return"] == 0.5
    assert noted["m_adapt_exact/held_out/success"] == 0.25
    assert noted["m_adapt_5/train/return"] == told["evaluations"][0]["return"]
    assert "pid" not in noted


def test_config_and_summary_together_are_the_row_of_the_trial(tmp_path: Path) -> None:
    one = tracker(tmp_path)
    one.end(CONFIG, row(9, "diverged"), tmp_path / "none")
    one.close()
    summary = events(tmp_path)[1]["summary"]
    assert isinstance(summary, dict)
    assert summary["status"] == "diverged"
    assert summary["message"] == "why"
    assert summary["after/return"] == 0.25
    assert summary["round"] == 9
    assert summary["before/success"] != summary["before/success"]  # nan
    assert "method" not in summary


@pytest.mark.parametrize("log_theta", [True, False])
def test_theta_is_told_only_when_asked(tmp_path: Path, log_theta: bool) -> None:
    theta = tmp_path / "checkpoints" / "theta.npz"
    theta.parent.mkdir()
    theta.write_bytes(b"theta")
    one = tracker(tmp_path, log_theta=log_theta)
    one.record(CONFIG, {**metrics(0), "checkpoint": b"theta"})
    one.end(CONFIG, row(0), theta)
    one.close()
    assert events(tmp_path)[-1]["files"] == (["checkpoints/theta.npz"] if log_theta else [])
    assert "theta" not in json.dumps([event for event in events(tmp_path) if event["event"] == "row"]).replace(
        "theta_i", ""
    )


@pytest.mark.parametrize(
    ("option", "variable", "mode"),
    [
        (None, None, None), (None, "offline", "offline"), (None, "dryrun", "offline"), (None, "disabled", "off"),
        (None, "online", "online"), ("off", "online", "off"), ("offline", "online", "offline"), (None, "", None),
    ],
)  # fmt: skip
def test_option_and_variable_name_the_mode(
    monkeypatch: pytest.MonkeyPatch, option: str | None, variable: str | None, mode: str | None
) -> None:
    if variable is not None:
        monkeypatch.setenv("WANDB_MODE", variable)
    assert Tracking(option).resolved() == mode


def test_a_mode_that_wandb_does_not_know_is_refused_like_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "gridworld", "exact", "--out", str(tmp_path / "out")]
    assert main([*command, "--tracking", "garbage"]) == 2
    monkeypatch.setenv("WANDB_MODE", "onlin")
    assert main(command) == 2
    assert "WANDB_MODE: unknown mode 'onlin': did you mean 'online'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert Tracking("off").resolved() == "off"


def test_off_writes_nothing_and_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "command", lambda *_: pytest.fail("a process"))
    one = tracker(tmp_path, mode="off")
    one.record(CONFIG, metrics(0))
    one.end(CONFIG, row(0), tmp_path / "none")
    one.close()
    assert not list(tmp_path.iterdir())


def test_a_journal_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No place for the journal (a file where its folder should be), or no process for the writer: one line says so."""
    (tmp_path / "wandb").write_text("")
    one = tracker(tmp_path)
    one.record(CONFIG, metrics(0))
    one.close()
    monkeypatch.setattr(journal, "command", lambda *_: ["/no/such/program"])
    (tmp_path / "wandb").unlink()
    other = tracker(tmp_path)
    other.record(CONFIG, metrics(0))
    other.close()
    assert capfd.readouterr().err.count("tracking: ") == 2


def test_what_tune_pickles_holds_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    one = tracker(tmp_path)
    board = TensorBoard(tmp_path, {})
    recorder = Recorder(Results(tmp_path / "results", "tiny"), [CONFIG], {}, one, board)
    assert KEY.encode() not in pickle.dumps(recorder)
    assert KEY.encode() not in pickle.dumps(one)
    one.close()
