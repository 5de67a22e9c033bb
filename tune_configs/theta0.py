"""Where a run begins: the exact method at m_h = 1000 from ten theta^0, and at m_h = 500 from three of them (of which
the shared one is in ``curvature_bottleneck_100``).

Said before it was run. The shared theta^0 and the paper's have a hundred seeds each (``theta0_100``: `raypfrl sweep
theta0 --seeds 100 --set m_h=1000 --set "theta0=[shared, paper]"`), draws 1 to 8 forty each. Compared are the return
after adaptation on the training agents in the end: its variance between theta^0, between seeds and from evaluation;
the shares that train (>= 1.5), stay collapsed (<= 0.95) and lie between, for each theta^0; one mode or two by
Hartigan's dip test, corrected for as many tests as there are theta^0 (Holm); and from which round on, and by which of
the first twenty rounds' numbers (curvature ratio, its cosine, drift, return), the final group can be told: the area
under the ROC curve over seeds that were not looked at to choose. `python tune_configs/theta0.py judge DIR` judges the
final thetas in a folder again by other random numbers, which tells what the evaluation adds (judged.csv).
"""

import csv
import io
import sys
from pathlib import Path

import numpy as np

from raypfrl import RunConfig
from raypfrl.cli import run_file
from raypfrl.federation import build_agent
from raypfrl.settings import SettingsError
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.table import write

DRAWS = [1, 2, 3, 4, 5, 6, 7, 8]

SWEEP = Sweep(
    base={
        "population": "navigation", "method": "exact", "rounds": 150, "tau": 5, "alpha": 1.0, "beta": 0.2, "m_in": 10,
        "m_out": 10, "m_adapt": (0, 256), "m_eval": 512, "diagnostics": True,
        "evaluate": (2, 5, 10, 15, 20, *range(30, 150, 10)),
    },
    grids=[
        {"m_h": 1000, "theta0": DRAWS},
        {"m_h": 500, "theta0": ["paper", 1]},
    ],
    seeds=40,
    against="theta0",
)  # fmt: skip

JUDGED, TIMES = 40, 4  # seeds of a theta^0 that are judged again, and how often


def judge(folder: Path) -> Path:
    """Write judged.csv: the return after adaptation, the mean over the training agents, of every trial's final theta by
    other evaluation seeds. Raises SettingsError where a trial is not finished."""
    results, rows = Results(folder, "theta0"), io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(("trial", "evaluation_seed", "return"))
    for settings in results.about["trials"].values():
        config = RunConfig(**settings)
        theta = results.theta(config)
        for evaluation_seed in range(TIMES if config.seed < JUDGED else 0):
            other = config.model_copy(update={"evaluation_seed": evaluation_seed})
            agents = [build_agent(other, number) for number in other.agents()]
            given = config.rounds, {"theta": theta}, None, other.m_adapt[-1:], other.m_eval
            found = [agent.evaluate(*given).outcomes[0].return_ for agent in agents]
            table.writerow((config.key(), evaluation_seed, np.mean(found)))
    write(folder / "judged.csv", rows.getvalue().encode())
    return folder / "judged.csv"


if __name__ == "__main__":
    if sys.argv[1:2] != ["judge"]:
        run_file(__file__)
    else:
        try:
            print(judge(Path(sys.argv[2] if len(sys.argv) > 2 else "results/theta0")))
        except SettingsError as error:
            sys.exit(str(error))
