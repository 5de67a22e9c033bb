"""W&B's limits on names, applied by us, in one place."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import wandb
from hypothesis import given, settings
from hypothesis import strategies as st

from raypfrl import RunConfig
from raypfrl.tracking import Tracker, Tracking
from raypfrl.tracking.names import LIMITS, fitted, run_id
from raypfrl.tracking.writer import INHERITED
from tests.tracking.conftest import CONFIG, inspect, metrics, row, segments

TEXT = st.text() | st.from_regex(r"[a-z /\\#?%:\n…🦀]{1,300}", fullmatch=True)
KEY = CONFIG.key()


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(sorted(LIMITS)), text=TEXT)
def test_whatever_a_name_is_wandb_takes_it(kind: str, text: str) -> None:
    name = fitted(kind, text)
    assert 1 <= len(name.encode()) <= LIMITS[kind]
    assert name == name.strip()
    assert fitted(kind, name) == name
    field = {"project": "project", "tag": "run_tags"}.get(kind, f"run_{kind}")
    wandb.Settings(**{field: [name] if kind == "tag" else name})  # raises for what it does not take


@pytest.mark.parametrize("text", ["a name", "m_h=100 seed=3", "α/β", "🦀" * 5, "x" * 64])
def test_what_fits_stays_as_it_is(text: str) -> None:
    assert fitted("tag", text) == text


def test_what_is_cut_has_a_mark_and_stays_apart() -> None:
    one, other = (fitted("tag", "x" * 64 + end) for end in "ab")
    assert one != other
    assert one.startswith("xxx")
    assert "…" in one
    assert len(fitted("tag", "🦀" * 65).encode()) <= 64


def test_the_client_says_the_same_limits() -> None:
    """Else ours would guard nothing."""
    for field, name in (("run_tags", ["x" * (LIMITS["tag"] + 1)]), ("project", "x" * (LIMITS["project"] + 1))):
        with pytest.raises(Exception, match="characters"):
            wandb.Settings(**{field: name})  # type: ignore[arg-type]


def test_ids_are_the_sweeps_own() -> None:
    assert run_id("tiny", KEY) == f"tiny-{KEY}"
    names = ["tiny", "my sweep", "my/sweep", "my-sweep", "α", "β", "x" * 99, "x" * 98, "caf\udce9"]
    ids = [run_id(name, KEY) for name in names]
    assert len(set(ids)) == len(names)
    assert all(re.fullmatch(rf"[A-Za-z0-9_-]{{1,51}}-{KEY}", id) for id in ids)
    assert all(wandb.Artifact(id, "results").name == id for id in ids)  # raises for a name that it does not take


def test_a_sweep_with_an_endless_name_has_its_runs_in_wandb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And whatever other tools of W&B have left in the environment, each trial has its own."""
    for variable in ("RUN_ID", "SWEEP_ID", "RUN_GROUP", "NOTEBOOK_NAME", "NAME", "TAGS", "LAUNCH", "RESUME"):
        monkeypatch.setenv(f"WANDB_{variable}", "other")
        assert f"WANDB_{variable}" not in INHERITED
    monkeypatch.setenv("WANDB_CONFIG", '{"alpha": 7}')
    monkeypatch.setenv("TRAINING_JOB_NAME", "sagemaker")
    monkeypatch.setenv("HOME", os.devnull)  # nothing can be written there
    sweep, configs = "my sweep/" + "🦀" * 65, [CONFIG, CONFIG.model_copy(update={"seed": 1})]
    tracker = Tracker(tmp_path, sweep, Tracking("offline", "a/b" * 99), {})
    tracker.start({config.key(): "long " * 99 for config in configs})
    for config in configs:
        tracker.record(config, metrics(0))
        tracker.end(config, row(0), tmp_path / "none")
    tracker.close()
    assert capfd.readouterr() == ("", "")
    runs = [next(r["run"] for r in inspect(segment) if r["type"] == "run") for segment in segments(tmp_path)]
    assert {run["run_id"] for run in runs} == {run_id(sweep, config.key()) for config in configs}
    assert len({run["display_name"] for run in runs}) == 2
    assert all(len(tag.encode()) <= 64 for run in runs for tag in run["tags"])
    assert all(RunConfig(**{n: run["config"]["update"][n] for n in CONFIG.identity()}) in configs for run in runs)
