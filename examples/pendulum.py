"""Pendulums under different gravities, with motors that turn either way: actions squashed into their bounds.

python examples/pendulum.py                  # a run in this process, and what it gains
raypfrl run pendulums first_order --use examples/pendulum.py
"""

from raypfrl import RunConfig, train
from raypfrl.populations import POPULATIONS as KNOWN
from raypfrl.populations import Estimator, Family, Population, Variant, environments


def pendulum(gravity: float, motor: int) -> Variant:
    """A pendulum under this gravity (m/s^2). Its mass stands in the motor's term alone, so that its sign is the
    direction in which the motor turns."""
    return Variant(kwargs={"g": gravity}, attributes={"m": float(motor)})


def pendulums(*, n: int = 4, gamma: float = 0.97, horizon: int = 79, hidden: tuple[int, ...] = (16,)) -> Population:
    """n pendulums, the heavier the later; every second motor turns the other way. One of each kind is held out. An
    observation is (cos, sin, speed); the speed is at most 8."""
    return environments(
        "pendulums",
        "Pendulum-v1",
        [pendulum(1.0 + k, (-1) ** k) for k in range(n)],
        held_out=[pendulum(1.5, 1), pendulum(1.5, -1)],
        gamma=gamma,
        horizon=horizon,
        hidden=hidden,
        squash=True,
        scale=(1.0, 1.0, 8.0),
        estimator=Estimator("linear", normalise=True, average=True),
    )


SUGGESTED = {
    "rounds": 60, "tau": 1, "alpha": 1.0, "beta": 1.0, "server_step": "adam", "beta_server": 0.05, "m_in": 20,
    "m_h": 20, "m_out": 20, "evaluate": 20, "m_adapt": (0, 20), "m_eval": 16,
}  # fmt: skip
POPULATIONS = {"pendulums": Family(pendulums, SUGGESTED)}

if __name__ == "__main__":
    KNOWN.update(POPULATIONS)
    for metrics in train(RunConfig(population="pendulums", method="first_order")):
        before, after = metrics["before/return"], metrics["after/return"]
        print(f"round {metrics['round']}: {before:.1f} -> {after:.1f}, {metrics['env_steps']} environment steps")
