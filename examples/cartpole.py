"""Poles of different lengths on carts of different strengths: Discrete actions, episodes that end early.

python examples/cartpole.py                  # a run in this process, and what it gains
raypfrl run poles first_order --use examples/cartpole.py
"""

from raypfrl import RunConfig, train
from raypfrl.populations import POPULATIONS as KNOWN
from raypfrl.populations import Estimator, Family, Population, Variant, environments


def pole(length: float, force: float) -> Variant:
    """A pole of half this length (m), on a cart that pushes with this force (N)."""
    return Variant(attributes={"length": length, "polemass_length": 0.1 * length, "force_mag": force})


def poles(*, n: int = 4, gamma: float = 0.99, horizon: int = 199, hidden: tuple[int, ...] = (16,)) -> Population:
    """n poles, the longer the stronger; every second one pushes the other way. One of each kind is held out."""
    agents = [pole(0.3 + 0.2 * k, (8 + k) * (-1) ** k) for k in range(n)]
    return environments(
        "poles",
        "CartPole-v1",
        agents,
        held_out=[pole(0.4, 8.5), pole(0.4, -8.5)],
        gamma=gamma,
        horizon=horizon,
        hidden=hidden,
        estimator=Estimator("linear", normalise=True, average=True),
    )


SUGGESTED = {
    "rounds": 60, "tau": 1, "alpha": 5.0, "beta": 1.0, "server_step": "adam", "beta_server": 0.05, "m_in": 20,
    "m_h": 20, "m_out": 20, "evaluate": 20, "m_adapt": (0, 20), "m_eval": 16,
}  # fmt: skip
POPULATIONS = {"poles": Family(poles, SUGGESTED)}

if __name__ == "__main__":
    KNOWN.update(POPULATIONS)
    for metrics in train(RunConfig(population="poles", method="first_order")):
        before, after = metrics["before/return"], metrics["after/return"]
        print(f"round {metrics['round']}: {before:.1f} -> {after:.1f}, {metrics['env_steps']} environment steps")
