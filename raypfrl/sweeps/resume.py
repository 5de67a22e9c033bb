"""Go on with what a results folder says was begun, without the sweep file or the command that began it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raypfrl.config import EXECUTION, RunConfig, SettingsError
from raypfrl.sweeps.results import opened
from raypfrl.sweeps.sweep import telling
from raypfrl.tracking import Tracking


def _point(config: RunConfig) -> dict[str, Any]:
    """A trial's settings without its seed."""
    return {name: value for name, value in config.identity().items() if name != "seed"}


def resume(folder: Path, cpus: int | None, own_disk: bool, tracking: Tracking, *, allow_mixed: bool = False) -> int:
    """Run what is missing or failed in ``folder``; the exit status.

    Only sweep.json, the two tables and the .npz checkpoints are read, and nothing is unpickled. Raises SettingsError
    for a folder without them, or of a version that names its trials otherwise.
    """
    results = opened(folder)
    about = results.about
    how = about.get("how", {})
    execution = {name: how[name] for name in EXECUTION if name in how}
    configs = [RunConfig(**{**execution, **settings}) for settings in about["trials"].values()]
    if [config.key() for config in configs] != list(about["trials"]):
        raise SettingsError(f"{folder}: begun by another version of raypfrl, whose trials are others; start anew")
    if configs and about["sweep"] == f"run-{configs[0].key()}":
        from raypfrl.sweeps.single import run

        return run(configs[0], folder, tracking, allow_mixed=allow_mixed)
    from raypfrl.sweeps.launch import launch

    asha, strategy = how.get("asha", False), how.get("strategy", "PACK")
    status = launch(
        telling([_point(config) for config in configs], about.get("swept", ())), configs, results,
        cpus=cpus, asha=asha, strategy=strategy, own_disk=own_disk, tracking=tracking, allow_mixed=allow_mixed,
    )  # fmt: skip
    if how.get("search"):
        print("this is a search: the `raypfrl sweep` command that began it looks for the points that are left")
    return status
