"""Table 1, SG-MRL (Fallah et al. 2021): what its score term is for.

To be looked at: the mean of N directions comes nearer to grad V, which is enumerated, like 1 / sqrt(N); without the
score term it stops at a bias. ``raypfrl sweep table1/sg_mrl`` trains with it and with the exact method's direction;
``python tune_configs/table1/sg_mrl.py [DIR]`` then measures, in this process, and writes bias.csv into the sweep's
folder.
"""

from __future__ import annotations

import csv
import io
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

from raypfrl.config import RunConfig
from raypfrl.federation.agent import build_agent
from raypfrl.methods.sg_mrl import sg_mrl
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.populations.bandit import FEATURES
from raypfrl.streams import LocalStep
from raypfrl.sweeps import Sweep
from raypfrl.sweeps.table import write

SWEEP = Sweep(
    base={
        "population": "bandit", "oracle": "autodiff", "method": ["sg_mrl", "exact"], "alpha": 1.0, "beta": 0.3,
        "m_in": 2, "m_out": 2, "rounds": 40, "evaluate": 10, "m_adapt": (0, 2),
    },
    seeds=3,
    against="method",
)  # fmt: skip

REPETITIONS, MOST = 5, 2**10  # of N directions
COLUMNS = ("score_term", "repetition", "directions", "error", "size")


class Unscored(Oracle):
    """The wrong control: an oracle that answers 0 to the score of a batch."""

    def __init__(self, oracle: Oracle) -> None:
        self.meter, self._oracle = oracle.meter, oracle

    def ask(self, question: str, *arguments: Any, **options: Any) -> Any:
        """The answer of the oracle behind."""
        return getattr(self._oracle, question)(*arguments, **options)

    def score_sum(self, theta: Vector, m: int, stream: Any) -> Vector:
        """0."""
        return np.zeros_like(theta)


def worth(config: RunConfig, theta: float) -> float:
    """V(theta) = E J(theta + alpha g) of agent 0, over all inner batches of m_in pulls."""
    task: Any = config.build_population().train[0]
    phi, r = np.array(FEATURES), task.mdp().r[0]
    pi = _softmax(theta * phi)
    scores = (phi - pi @ phi) * r  # g of a pull
    total = 0.0
    for batch in itertools.product(range(len(phi)), repeat=config.m_in):
        adapted = theta + config.alpha * scores[list(batch)].mean()
        total += float(np.prod(pi[list(batch)]) * (_softmax(adapted * phi) @ r))
    return total


def measure(folder: Path) -> Path:
    """Write bias.csv."""
    config, theta, e = RunConfig(**{**SWEEP.points()[0], "seed": 0}), 0.2, 1e-5
    truth = (worth(config, theta + e) - worth(config, theta - e)) / (2 * e)
    oracle = build_agent(config, 0).oracle
    settings = {"alpha": config.alpha, "m_in": config.m_in, "m_out": config.m_out, "m_baseline": 0}
    rows = io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(COLUMNS)
    for repetition in range(REPETITIONS):
        steps = [LocalStep(repetition, 0, 0, number) for number in range(MOST)]
        for name, asked in {"with": oracle, "without": Unscored(oracle)}.items():
            d = np.array([sg_mrl(asked, np.array([theta]), step, **settings)[0] for step in steps])
            for N in 2 ** np.arange(4, int(np.log2(MOST)) + 1):
                table.writerow((name, repetition, N, abs(d[:N].mean() - truth), abs(truth)))
        print(f"repetition {repetition}", flush=True)
    write(folder / "bias.csv", rows.getvalue().encode())
    return folder / "bias.csv"


def _softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


if __name__ == "__main__":
    print(measure(Path(sys.argv[1] if len(sys.argv) > 1 else "results/table1/sg_mrl")))
