"""Budgets that change as a run goes: exactness only late, and m_h growing over rounds, at the budget of ``exactness``.

Said before it was run (by `raypfrl sweep exactness_late --seeds 10,11,...,24`). ``late`` follows first order for 180 of
its 300 rounds and the exact method after them (180 x 20 + 120 x 30 = 7200 trajectories a local step, as 240 x 30);
``growing`` is the exact method with m_h from 1 to 20, 10 in the mean. Compared with the exact method and first order of
``exactness`` by F at the end, paired by seed.
"""

from typing import Annotated

from pydantic import Field

from raypfrl.cli import run_file
from raypfrl.methods.method import asks, averaged
from raypfrl.methods.per_fedavg_pg import exact, first_order
from raypfrl.oracles import Oracle
from raypfrl.policies import Vector
from raypfrl.settings import Alpha, HessianBatch, InnerBatch, OuterBatch, Whole
from raypfrl.streams import LocalStep
from raypfrl.sweeps import Sweep

Switch = Annotated[Whole, Field(ge=0, description="rounds of first order, before those of the exact method")]
Growth = Annotated[Whole, Field(ge=1, description="rounds in which m_h grows from 1 to twice its mean")]


@asks("hessian_vector_product", "value_baseline")
def late(
    oracle: Oracle, theta: Vector, step: LocalStep, *, alpha: Alpha, m_in: InnerBatch, m_h: HessianBatch,
    m_out: OuterBatch, switch: Switch,
) -> Vector:  # fmt: skip
    """First order at first, then (7) with ``causal_value``."""
    if step.round < switch:
        return first_order(oracle, theta, step, alpha=alpha, m_in=m_in, m_out=m_out)
    return exact(oracle, theta, step, alpha=alpha, m_in=m_in, m_h=m_h, m_out=m_out, curvature="causal_value")


@asks("hessian_vector_product", "value_baseline")
def growing(
    oracle: Oracle, theta: Vector, step: LocalStep, *, alpha: Alpha, m_in: InnerBatch, m_h: HessianBatch,
    m_out: OuterBatch, growth: Growth,
) -> Vector:  # fmt: skip
    """(7) with ``causal_value`` and a Hessian batch that grows with the rounds, m_h in the mean."""
    now = 1 + min(step.round, growth) * (2 * m_h - 1) // growth
    return exact(oracle, theta, step, alpha=alpha, m_in=m_in, m_h=now, m_out=m_out, curvature="causal_value")


METHODS = {"late": averaged(late), "growing": averaged(growing)}

SWEEP = Sweep(
    base={
        "population": "gridworld", "alpha": [1.0, 2.0, 4.0, 8.0, 16.0], "tau": 5, "beta": 0.3, "m_in": 10, "m_h": 10,
        "m_out": 10, "m_adapt": (0, "exact"), "evaluate": 500,
    },
    grids=[
        {"method": "late", "rounds": 300, "switch": 180},
        {"method": "growing", "rounds": 240, "growth": 240},
    ],
    seeds=15,
    against="alpha",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
