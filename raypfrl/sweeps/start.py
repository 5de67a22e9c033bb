"""A sweep from Python: what ``raypfrl sweep`` does, for a script or a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from raypfrl.config import SettingsError
from raypfrl.exits import INTERRUPTED
from raypfrl.settings import resolved
from raypfrl.sweeps.sweep import Sweep, load
from raypfrl.tracking import UNTRACKED, Tracking


def sweep(
    plan: Sweep | str | Path,
    out: str | Path | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    cpus: int | None = None,
    asha: bool = False,
    tracking: Tracking = UNTRACKED,
) -> Path:
    """Run the trials of ``plan`` that are missing in the folder ``out``, on Ray; the folder, for ``analysis.read``.

    plan: a Sweep, a sweep file, or the name of a sweep that comes with raypfrl. out: left out, ``results/<name>`` for a
    file or a name. seeds: how many, or which; left out, the plan's. cpus: use so many; left out, all that this process
    may. asha: stop weak trials early. A trial that diverges or fails is a row that says so.

    Raises SettingsError before anything is started or written, and KeyboardInterrupt where it was interrupted: the same
    call then goes on from what is there.
    """
    if isinstance(plan, Sweep):
        if out is None:
            raise SettingsError("a sweep from Python needs a folder: sweep(SWEEP, out='results/my_sweep')")
        folder = Path(out)
    else:
        folder = Path(out) if out is not None else Path("results", Path(plan).stem)
        plan = load(Path(plan))

    from raypfrl.sweeps.launch import launch
    from raypfrl.sweeps.results import Results

    configs = plan.trials(range(seeds) if isinstance(seeds, int) else seeds)
    results = Results(folder, resolved(folder).name)
    if launch(plan.swept(), configs, results, cpus=cpus, asha=asha, tracking=tracking) == INTERRUPTED:
        raise KeyboardInterrupt("the sweep was interrupted; the same call goes on from what is there")
    return folder
