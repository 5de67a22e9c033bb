"""Digits: agents that tell handwritten digits apart, each a few of them (scikit-learn's 1797 images of 8 x 8 pixels).
Supervised learning as a family: what an agent samples are examples in the place of trajectories, and its J_i is minus
the loss of pi(y|x; theta) on its own, less decay / 2 times the squared norm of theta."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from raypfrl.policies import MLPSoftmax
from raypfrl.populations.population import Examples, Family, Population
from raypfrl.settings import Agents, Hidden, Real, Whole
from raypfrl.streams import Purpose, Stream

CLASSES, PIXELS = 10, 64
FEWEST, MOST = 2, 3  # classes of an agent
HELD_OUT = 3
TESTED = 3  # every third image is never learned from

Own = Annotated[Whole, Field(ge=1, le=300, description="examples that an agent learns from, drawn of its classes")]
Decay = Annotated[Real, Field(ge=0, description="weight of half the squared norm of theta in the loss")]

SUGGESTED: Mapping[str, Any] = {
    "rounds": 100, "tau": 5, "alpha": 0.3, "beta": 0.1, "m_in": 20, "m_h": 20, "m_out": 20, "m_adapt": (0, 20),
}  # fmt: skip


@dataclass(frozen=True)
class DigitsTask:
    """One agent's classes, and how many examples of them it has; ``number`` says which."""

    classes: tuple[int, ...]
    number: int
    own: int
    decay: float

    def examples(self) -> Examples:
        """Its examples, and images of the same classes that no agent learns from."""
        return _examples(self)


@lru_cache(maxsize=256)
def _examples(task: DigitsTask) -> Examples:
    images, labels = images_and_labels()
    mine = np.isin(labels, task.classes)
    tested = np.arange(len(labels)) % TESTED == 0
    pool = np.flatnonzero(mine & ~tested)
    rng = Stream(0, task.number, 0, 2, Purpose.INIT).generator()
    drawn = np.sort(rng.choice(pool, size=min(task.own, len(pool)), replace=False))
    return Examples(images[drawn], labels[drawn], images[mine & tested], labels[mine & tested])


@cache
def images_and_labels() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All images (1797, 64) with pixels in [0, 1], and their digits (1797,)."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return images / 16.0, labels.astype(np.int64)


def digits(*, n: Agents = 6, hidden: Hidden = (16,), own: Own = 60, decay: Decay = 1e-3) -> Population:
    """n agents with two or three classes each, and three held out with mixtures of classes that no other agent has. The
    predictor is linear without hidden layers.

    Raises ValueError where scikit-learn is not installed.
    """
    try:
        import sklearn.datasets  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("digits needs scikit-learn: pip install 'raypfrl[analysis]'") from None
    mixtures: list[tuple[int, ...]] = []
    for number in range(n + HELD_OUT):
        mixtures.append(_mixture(number, mixtures if number >= n else ()))
    tasks = tuple(DigitsTask(classes, number, own, decay) for number, classes in enumerate(mixtures))
    return Population("digits", tasks[:n], tasks[n:], MLPSoftmax(PIXELS, CLASSES, hidden), gamma=0.0, horizon=0)


def _mixture(number: int, taken: Any) -> tuple[int, ...]:
    """Two or three classes, in turn, that are not ``taken`` together."""
    rng = Stream(0, number, 0, 1, Purpose.INIT).generator()
    size = FEWEST + number % (MOST - FEWEST + 1)
    while True:
        drawn = tuple(sorted(int(c) for c in rng.choice(CLASSES, size=size, replace=False)))
        if drawn not in taken:
            return drawn


POPULATIONS: Mapping[str, Family] = {"digits": Family(digits, SUGGESTED)}
