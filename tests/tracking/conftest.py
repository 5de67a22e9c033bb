"""A journal without a training: a tracker, told what a run of some rounds would tell it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from raypfrl import RunConfig
from raypfrl.metrics import METRICS
from raypfrl.tracking import Tracker, Tracking
from raypfrl.tracking.names import run_id
from tests.tracking.loopback import KEY, Loopback

CONFIG = RunConfig(population="gridworld", method="exact", oracle="exact", rounds=9, tau=1, evaluate=1, n=2)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No key, no settings, no home: whatever the machine has configured, the tests see a fresh one."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A server on this machine, and a key for it."""
    with Loopback() as loopback:
        monkeypatch.setenv("WANDB_BASE_URL", loopback.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield loopback


def metrics(round: int, status: str = "running") -> dict[str, Any]:
    """What a run says after ``round``: every metric of the glossary, each with a value of its own."""
    numbers = {name: round + number / 64 for number, name in enumerate(METRICS) if name != "missed"}
    evaluation = {"split": "train", "m_adapt": 5, "return": 0.1 * round, "success": 0.5, "final_distance": 2.0}
    return {**numbers, "round": round, "missed": "", "evaluations": [evaluation], "status": status}


def row(round: int, status: str = "finished") -> dict[str, str]:
    """The trial's row of trials.csv, as text."""
    return {
        "trial": CONFIG.key(), "method": "exact", "status": status, "round": str(round), "after/return": "0.25",
        "before/success": "nan", "message": "why" if status != "finished" else "",
    }  # fmt: skip


def begun(folder: Path, *configs: RunConfig, **options: Any) -> Tracker:
    """A tracker of a sweep called tiny, with its writer."""
    folder.mkdir(exist_ok=True)
    labels = {config.key(): "exact" for config in configs or (CONFIG,)}
    return Tracker(folder, "tiny", Tracking(**options), {"git_commit": "0" * 40}).start(labels)


def tell(folder: Path, rounds: Sequence[int], status: str | None = "finished", **options: Any) -> str:
    """Track a run from begin to end, or to where it is left (status None); gives its id."""
    tracker = begun(folder, **options)
    for round in rounds:
        tracker.record(CONFIG, metrics(round))
    if status is not None:
        tracker.end(CONFIG, row(rounds[-1], status), folder / "checkpoints" / "none.npz")
    tracker.close()
    return run_id("tiny", CONFIG.key())


def inspect(segment: Path) -> list[dict[str, Any]]:
    """The records of a .wandb file, as ``wandb leet inspect --json`` reads them (its program, without W&B's import)."""
    package = importlib.util.find_spec("wandb")
    assert package is not None
    assert package.origin is not None
    core, runs = Path(package.origin).with_name("bin") / "wandb-core", segment.parent.parent
    command = [core, "leet", "inspect", "--json", "--run-file", segment, runs]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


def segments(folder: Path) -> list[Path]:
    """The .wandb files of a folder of results, the oldest first."""
    return sorted(folder.glob("wandb/*run-*/*.wandb"), key=lambda path: path.parent.name.removeprefix("offline-"))


def history(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a file, without what W&B adds."""
    items = [record["history"]["item"] for record in records if record["type"] == "history"]
    return [{name: value for name, value in item.items() if not name.startswith("_")} for item in items]


def last_summary(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The summary that a file ends with."""
    summary: dict[str, Any] = {}
    for record in records:
        if record["type"] == "summary":
            summary |= record["summary"]["update"]
    return summary


def wait_for(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Look again and again until it is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
