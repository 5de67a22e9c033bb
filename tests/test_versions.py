"""Folders of results that another version of raypfrl, or other source, has begun."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from own import offered
from test_results import CHECKPOINT, SHORT, found, untimed
from tiny import bytes_of, small

from raypfrl import RunConfig, Training
from raypfrl.cli import main
from raypfrl.sweeps.machine import about
from raypfrl.sweeps.results import Results, opened, pack, unpack
from raypfrl.sweeps.single import run
from raypfrl.sweeps.source import source
from raypfrl.sweeps.table import Table

# --- folders of other versions ----------------------------------------------------------------------------------------


COMMITTED = sorted(path.parent for path in (Path(__file__).parent.parent / "analysis" / "results").glob("*/sweep.json"))


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda folder: folder.name)
def test_a_committed_folder_is_rewritten_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """The first version's columns, and what goes into them; of tables that are committed compressed too."""
    results = opened(unpacked(folder, tmp_path / folder.name))
    for table in (results.trials, results.evaluations):
        again = Table(tmp_path / table.path.name, ("trial",))
        again.append(table.rows)
        again.replace(again.rows)
        assert again.path.read_bytes() == table.path.read_bytes()
    row = results.trials.rows[-1]
    (tmp_path / "anew").mkdir()
    shutil.copy(folder / "sweep.json", tmp_path / "anew")
    anew = opened(tmp_path / "anew")
    with offered(results.about["sweep"]):
        config = RunConfig(**results.about["trials"][row["trial"]])
        anew.end(config.key(), config, row)
    assert anew.trials.rows[0].items() >= {name: text for name, text in row.items() if text}.items()
    known = tuple(name for name in results.trials.columns if name in anew.trials.columns)
    assert anew.trials.columns[: len(known)] == known


def unpacked(folder: Path, to: Path) -> Path:
    """A copy of a committed folder with its tables as a sweep writes them."""
    shutil.copytree(folder, to)
    for packed in to.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return to


def of_the_first_version(folder: Path) -> None:
    """What the first version would have left: no metrics.csv, but diagnostics.csv, and no word about sources."""
    results = Results(folder, f"run-{SHORT.key()}")
    named = ((row, name) for row in results.metrics.rows for name in row if name.startswith("diagnostics/"))
    cells = [(row["trial"], row["round"], name, row[name]) for row, name in named if row[name]]
    lines = ["trial,round,metric,value", *map(",".join, cells)]
    (folder / "diagnostics.csv").write_text("\n".join(lines) + "\n")
    results.metrics.path.unlink()
    plan = {name: value for name, value in results.about.items() if name != "source"}
    (folder / "sweep.json").write_text(json.dumps(plan))
    header, row = (folder / "trials.csv").read_text().splitlines()
    assert header.endswith(",commit,source")
    (folder / "trials.csv").write_text(f"{header.rsplit(',', 2)[0]}\n{row.rsplit(',', 2)[0]}\n")


@pytest.mark.parametrize("lost", [[], ["trials.csv"], [CHECKPOINT, "trials.csv"]])
def test_a_folder_of_the_first_version_goes_on(tmp_path: Path, lost: list[str]) -> None:
    watched = RunConfig(**{**SHORT.model_dump(), "diagnostics": True})
    assert run(watched, tmp_path) == 0
    before, told = found(tmp_path), untimed(tmp_path)
    of_the_first_version(tmp_path)
    for name in lost:
        (tmp_path / name).unlink()
    assert run(watched, tmp_path) == 0
    after = opened(tmp_path).trials.rows[0]
    assert after.items() >= {k: v for k, v in before[1][0].items() if k not in ("seconds", "commit", "source")}.items()
    assert (tmp_path / "evaluations.csv").read_text() == before[0]
    if lost:
        anew = CHECKPOINT in lost
        assert after["source"] == (source() if anew else f"unknown {source()}")
        assert not (tmp_path / "diagnostics.csv").exists()
        unknown = () if anew else ("env_steps", "floats_sent", "source")
        told = [{n: "" if n in unknown else cell for n, cell in row.items()} for row in told]
        assert [{**dict.fromkeys(told[0], ""), **row} for row in untimed(tmp_path)] == told, "no more than it told"


def test_a_trial_with_another_setting_widens_the_table_before_its_outcomes(tmp_path: Path) -> None:
    class Later(RunConfig):
        """Settings of a method to come."""

        def identity(self) -> dict[str, Any]:
            return {**super().identity(), f"later_{self.seed}": self.seed}

    assert run(SHORT, tmp_path) == 0
    old = Results(tmp_path, f"run-{SHORT.key()}")
    width = len(old.trials.columns)
    later = [Later(**{**SHORT.model_dump(), "seed": seed}) for seed in (2, 1)]
    old.begin(later, {})
    for config in reversed(later):  # the order is the plan's, whoever ends first
        old.end(config.key(), config, {"status": "failed", "message": "why"})
    old.close()
    again = Results(tmp_path, f"run-{SHORT.key()}").trials
    place = again.columns.index("status")
    assert again.columns[place - 2 : place] == ("later_2", "later_1")
    assert len(again.columns) == width + 2
    assert [(row["later_1"], row["later_2"], row["status"]) for row in again.rows] == [
        ("", "", "finished"), ("1", "", "failed"), ("", "2", "failed"),
    ]  # fmt: skip


def test_what_another_version_has_written_beside_is_kept(tmp_path: Path) -> None:
    """Columns that this one does not know, and fewer than it knows."""
    assert run(SHORT, tmp_path) == 0
    path = tmp_path / "trials.csv"
    header, row = path.read_text().splitlines()
    less = header.replace("floats_sent,", "").replace("trial,", "trial,of_the_future,"), row.split(",")
    place = header.split(",").index("floats_sent")
    cells = [less[1][0], "7", *less[1][1:place], *less[1][place + 1 :]]
    path.write_text(f"{less[0]}\n{','.join(cells)}\n")
    results = Results(tmp_path, f"run-{SHORT.key()}")
    assert not results.left([SHORT])
    other = RunConfig(**{**SHORT.model_dump(), "seed": 3})
    results.plan([other], {})
    results.end(other.key(), other, {"status": "failed", "floats_sent": 5})
    again = Results(tmp_path, f"run-{SHORT.key()}").trials
    assert [(row["of_the_future"], row["floats_sent"]) for row in again.rows] == [("7", ""), ("", "5")]


# --- sources ----------------------------------------------------------------------------------------------------------


OTHER, NOW = "0ther5ource0", "thi55ource00"


@pytest.fixture
def of_other_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that other source has begun, up to its second evaluation."""
    results, training = Results(tmp_path / "out", f"run-{SHORT.key()}"), Training(SHORT)
    results.begin([SHORT], {**about(1), "source": OTHER, "git_commit": "c0ffee"})
    for _ in range(2):
        results.record(SHORT.key(), SHORT, {**next(training), "checkpoint": pack(training.state())})
    results.close()
    monkeypatch.setattr("raypfrl.sweeps.single.source", lambda: NOW)
    monkeypatch.setattr("raypfrl.sweeps.machine.source", lambda: NOW)
    return tmp_path / "out"


def test_two_sources_come_together_only_if_it_is_wanted(
    of_other_source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = of_other_source
    files = {path: path.read_bytes() for path in folder.rglob("*.*")}
    assert main(["resume", str(folder), "--tracking", "off"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"computed by other source than this ({OTHER}; this is {NOW})" in line
    assert "--allow-mixed" in line
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == files
    assert main(["resume", str(folder), "--tracking", "offline", "--allow-mixed"]) == 0
    assert f"computed by other source than this ({OTHER}" in capsys.readouterr().out
    results = opened(folder)
    assert [row["source"] for row in results.metrics.rows] == [OTHER, OTHER, NOW]
    assert results.trials.rows[0]["source"] == f"{OTHER} {NOW}"
    journal = [json.loads(line) for line in (folder / "wandb" / "journal.jsonl").read_text().splitlines()]
    assert journal[0]["config"]["source"] == NOW
    assert journal[-1]["summary"]["source"] == f"{OTHER} {NOW}"
    assert main(["resume", str(folder), "--tracking", "off"]) == 0, "nothing is left to come together"
    assert OTHER in capsys.readouterr().out


@pytest.mark.parametrize("lost", [CHECKPOINT, "trials.csv"])
def test_what_other_source_has_computed_goes_with_the_checkpoint_that_it_led_to(
    of_other_source: Path, lost: str
) -> None:
    """Started anew, a trial is of one source in all its rows."""
    folder = of_other_source
    assert run(SHORT, folder, allow_mixed=True) == 0
    for name in ("trials.csv", lost):
        (folder / name).unlink(missing_ok=True)
    assert run(SHORT, folder, allow_mixed=True) == 0
    results = opened(folder)
    named = [NOW] * 3 if lost == CHECKPOINT else [OTHER, OTHER, NOW]
    assert [row["source"] for row in results.metrics.rows] == named
    assert results.trials.rows[0]["source"] == " ".join(dict.fromkeys(named))


def test_numbers_of_unknown_source_are_no_other_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder from before rows named it goes on."""
    results, training = Results(tmp_path, f"run-{SHORT.key()}"), Training(SHORT)
    results.begin([SHORT], {})
    results.record(SHORT.key(), SHORT, {**next(training), "checkpoint": pack(training.state())})
    results.close()
    monkeypatch.setattr("raypfrl.sweeps.machine.source", lambda: NOW)
    assert run(SHORT, tmp_path) == 0
    assert [row["source"] for row in opened(tmp_path).metrics.rows] == ["", NOW, NOW]
    assert opened(tmp_path).trials.rows[0]["source"] == f"unknown {NOW}"


def test_a_first_versions_checkpoint_of_agents_without_a_federation_goes_on() -> None:
    """Their own thetas stood there as the server's, one row an agent."""
    config = small("navigation", "independent", n=3, oracle="autodiff", rounds=3)
    whole, begun = Training(config), Training(config)
    assert [metrics["round"] for metrics in whole] == [0, 1, 2, 3]
    next(begun), next(begun)
    state = begun.state()
    old = {name: x for name, x in state.items() if not name.startswith("kept")} | {"theta": state["kept/theta"]}
    assert old["theta"].shape == (3, config.build_population().policy.dim)
    resumed = Training(config, state=unpack(pack(old)))
    assert [metrics["round"] for metrics in resumed] == [2, 3]
    assert bytes_of(resumed.server) == bytes_of(whole.server)
