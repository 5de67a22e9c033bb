"""A W&B workspace for a sweep, from the sweep itself. Needs the optional package wandb-workspaces."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from raypfrl.metrics import BY_M_ADAPT, METRICS, size_of
from raypfrl.settings import SettingsError
from raypfrl.tracking.server import Trouble, check_server

if TYPE_CHECKING:
    from raypfrl.sweeps import Sweep

AFTER = "after/return"
AXES = ("alpha", "beta", "tau", "m_in", "m_h")
COST = ("drift", "trajectories", "env_steps", "floats_sent")


def publish(name: str, sweep: Sweep, entity: str, project: str, *, dry_run: bool) -> str:
    """The address of the new workspace, or on a dry run its JSON, for which no network is needed.

    Raises SettingsError without wandb-workspaces, and for a server that does not answer or take the key.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    try:
        import wandb_workspaces.workspaces as ws
    except ImportError:
        raise SettingsError("dashboards need wandb-workspaces: pip install wandb-workspaces") from None
    workspace: Any = ws.Workspace(
        entity=entity,
        project=project,
        name=name,
        sections=[ws.Section(name=title, panels=panels, is_open=True) for title, panels in _sections(sweep).items()],
        settings=ws.WorkspaceSettings(x_axis="round", max_runs=1000),
        runset_settings=ws.RunsetSettings(filters=f"Config('sweep') = '{name}'"),
    )
    if dry_run:
        return json.dumps(workspace._to_model().model_dump(mode="json", by_alias=True, exclude_none=True), indent=1)
    try:
        check_server()
    except Trouble as trouble:
        raise SettingsError(f"{trouble}; nothing is published, and --dry-run needs no server") from None
    return str(workspace.save().url)


def _sections(sweep: Sweep) -> dict[str, list[Any]]:
    """The panels, by the title of their section."""
    import wandb_workspaces.reports.v2

    wr: Any = wandb_workspaces.reports.v2  # it does not say what it exports
    tested = sorted({m for config in sweep.trials([0]) for m in config.m_adapt}, key=size_of)
    swept, against = sweep.swept() or ("method",), sweep.against or (sweep.swept() or ("method",))[0]
    median: dict[str, Any] = {"groupby_aggfunc": "median", "groupby_rangefunc": "minmax"}

    def curve(y: str, group: str, x: str = "round") -> Any:
        title = f"{y}, by {group} (median, lowest to highest)"
        return wr.LinePlot(title=title, x=x, y=[y], groupby=wr.Config(group), max_runs_to_show=1000, **median)

    return {
        f"Return after adaptation against {against}": [
            wr.ScatterPlot(title="every seed", x=wr.Config(against), y=wr.SummaryMetric(AFTER)),
            wr.BarPlot(title="median", metrics=[AFTER], groupby=wr.Config(against), max_runs_to_show=1000, **median),
        ],
        "Learning curves": [
            *(curve(AFTER, group) for group in swept),
            *([curve(AFTER, "point")] if len(swept) > 1 else []),
            curve(AFTER, against, "trajectories"),
            *(curve(name, against) for name in ("before/return", f"held_out/{AFTER}", "after/success")),
        ],
        "Hyperparameters": [
            wr.ParallelCoordinatesPlot(
                columns=[
                    *(wr.ParallelCoordinatesPlotColumn(wr.Config(name)) for name in AXES),
                    wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric(AFTER)),
                ]
            )
        ],
        "Few-shot adaptation": [
            wr.BarPlot(
                title=f"{split}: return after one step of m trajectories (median)",
                metrics=[BY_M_ADAPT.format(m_adapt=m, split=split, outcome="return") for m in tested],
                orientation="v", max_runs_to_show=1000, **median,
            )
            for split in ("train", "held_out")
        ],
        "Drift, cost and diagnostics": [
            *(curve(name, against) for name in METRICS if name in COST or name.startswith("diagnostics/"))
        ],
    }  # fmt: skip
