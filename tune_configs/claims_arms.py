"""The paper's remaining claims where its constants mean something: two arms, one state, compiled.

Said before it was run. Even agents are paid by the first arm, 1, odd ones by the second, 0.8. (a) Corollary 1, one
agent, alpha = 0.02: with K, tau, beta and m_in from the theory (tight constants, Proposition 1, Delta = 1/2, which it
is), the average of ||grad F||^2 over the run is at most eps, for three eps below its value at theta^0, 1/8; and how
many rounds it takes in truth until the average so far is at most eps, against K ~ eps^{-3/2}. (b) 1/n: the stationary
||grad F||^2 of pairs of agents at alpha = 2 falls like 1/n at tau = 1, and a large tau takes the gain away, since
drift does not fall with n. (c) R2: rounds until ||grad F||^2 <= eps of one agent with exact gradients and the largest
beta that Theorem 1 covers grow linearly in alpha above alpha-dagger.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from raypfrl.cli import run_file
from raypfrl.policies import Policy, TabularSoftmax
from raypfrl.populations.bandit import BanditTask
from raypfrl.populations.population import Family, Kernel, Population
from raypfrl.settings import Agents, Discount, Horizon
from raypfrl.sweeps import Sweep
from raypfrl.theory import Problem, corollary1

PAID = ((1.0, 0.0), (0.0, 0.8))
POLICY = TabularSoftmax(states=1, actions=2)
EPSILON = (0.08, 0.05, 0.03)
ALPHA = 0.02


def fits(task: BanditTask, policy: Policy) -> bool:
    """Whether the policy chooses between two arms."""
    return policy == POLICY


def constants(task: BanditTask) -> tuple[float, ...]:
    """What each arm pays."""
    return task.rewards


def initial(paid: Any, u: Any) -> Any:
    """The only state."""
    return (0.0 * u[0],)


def observe(paid: Any, state: Any) -> Any:
    """Its number."""
    return state


def transition(paid: Any, state: Any, action: Any) -> Any:
    """It stays."""
    return state


def measure(paid: Any, state: Any) -> Any:
    """Nothing is paid for being here, and there is no goal."""
    return state[0], None, None


def reward(paid: Any, state: Any, action: Any) -> Any:
    """What the arm pays."""
    return np.where(action == 0, paid[0], paid[1])


@dataclass(frozen=True)
class ArmsTask(BanditTask):
    """Two arms, compiled."""

    kernel: ClassVar[Kernel | None] = Kernel(constants, initial, observe, transition, measure, fits, reward=reward)


def arms(*, n: Agents = 2, gamma: Discount = 0.0, horizon: Horizon = 0) -> Population:
    """n agents, paid by the one arm or the other in turn."""
    tasks = tuple(ArmsTask(PAID[number % 2], horizon) for number in range(n))
    return Population("arms", tasks, (), POLICY, gamma, horizon)


def problem() -> Problem:
    """Its constants, with the smallest G, M and Lambda that hold."""
    tight = POLICY.scores().tight
    assert tight is not None
    return Problem(1.0, 0.0, 0, tight)


SUGGESTED: Mapping[str, Any] = {
    "rounds": 100, "tau": 1, "alpha": 2.0, "beta": 0.5, "m_in": 5, "m_h": 5, "m_out": 5, "m_adapt": (0, "exact"),
}  # fmt: skip
POPULATIONS = {"arms": Family(arms, SUGGESTED)}


def schedule(epsilon: float) -> Mapping[str, Any]:
    """Corollary 1's for one agent, sharp; evaluated sixty times."""
    found = corollary1(problem(), alpha=ALPHA, epsilon=epsilon, n=1, delta=0.5, sharp=True)._asdict()
    return {**found, "evaluate": max(1, found["rounds"] // 60)}


def largest_beta(alpha: float) -> float:
    """1/(6 L_F)."""
    return 1 / (6 * problem().L_F(alpha))


SWEEP = Sweep(
    base={"population": "arms", "method": "exact", "diagnostics": True},
    grids=[
        *({"n": 1, "alpha": ALPHA, **schedule(epsilon)} for epsilon in EPSILON),
        {"n": [2, 4, 8, 16, 32, 64], "tau": [1, 4, 16], "rounds": 120, "evaluate": 4},
        *(
            {
                "n": 1, "oracle": "exact", "alpha": alpha, "beta": largest_beta(alpha), "tau": 1, "m_in": 1, "m_h": 1,
                "m_out": 1, "rounds": int(6 / largest_beta(alpha)), "evaluate": max(1, int(0.05 / largest_beta(alpha))),
            }
            for alpha in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
        ),
    ],
    seeds=4,
    against="n",
)  # fmt: skip

if __name__ == "__main__":
    run_file(__file__)
