"""A workspace for every sweep, built without a network. Publishing it is between wandb-workspaces and W&B's server."""

from __future__ import annotations

import builtins
import json
from typing import Any

import pytest

from raypfrl import SettingsError
from raypfrl.cli import main
from raypfrl.sweeps import load
from raypfrl.sweeps.sweep import shipped
from raypfrl.tracking.dashboards import publish


def panels(workspace: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    sections = workspace["spec"]["section"]["panelBankConfig"]["sections"]
    return {section["name"]: section["panels"] for section in sections}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", shipped())
def test_every_sweep_has_a_dashboard(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("wandb_workspaces")
    sweep = load(path := shipped()[name])
    against = sweep.against or (sweep.swept() or ("method",))[0]
    assert against in (*sweep.swept(), "method")
    assert main(["dashboard", str(path), "--entity", "lab", "--project", "study", "--dry-run"]) == 0
    workspace = json.loads(capsys.readouterr().out)
    assert (workspace["entity"], workspace["project"], workspace["displayName"]) == ("lab", "study", name)
    assert name in json.dumps(workspace["spec"]["section"]["runSets"][0]["filters"])
    shown = panels(workspace)
    seeds, median = shown[f"Return after adaptation against {against}"]
    assert seeds["config"]["xAxis"] == f"config:{against}.value"
    assert seeds["config"]["yAxis"] == "summary:after/return"
    assert (median["config"]["groupBy"], median["config"]["groupAgg"]) == (f"{against}.value", "median")
    grouped = {panel["config"]["groupBy"] for panel in shown["Learning curves"]}
    assert {f"{name}.value" for name in sweep.swept()} <= grouped
    columns = shown["Hyperparameters"][0]["config"]["columns"]
    assert [column["accessor"] for column in columns] == [
        *(f"config:{name}.value" for name in ("alpha", "beta", "tau", "m_in", "m_h")), "summary:after/return",
    ]  # fmt: skip
    assert "drift" in [panel["config"]["metrics"][0] for panel in shown["Drift, cost and diagnostics"]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_few_shot_curve_has_every_m_adapt() -> None:
    pytest.importorskip("wandb_workspaces")
    path = shipped()["few_shot"]
    workspace = json.loads(publish("few_shot", load(path), "lab", "study", dry_run=True))
    _, held_out = panels(workspace)["Few-shot adaptation"]
    metrics = held_out["config"]["metrics"]
    assert metrics == [f"m_adapt_{m}/held_out/return" for m in (0, 20, 50, 100, 200, 500)]


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("wandb_workspaces"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingsError, match="pip install"):
        publish("few_shot", load(next(iter(shipped().values()))), "lab", "study", dry_run=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_publishing_to_nobody_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb_workspaces")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with pytest.raises(SettingsError, match="does not answer"):
        publish("few_shot", load(next(iter(shipped().values()))), "lab", "study", dry_run=False)
