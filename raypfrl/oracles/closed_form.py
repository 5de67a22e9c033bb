"""The exact oracle of a task that knows its own objective (``Task.closed_form``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from raypfrl.oracles.oracle import Credit, Meter, Oracle, Outcome
from raypfrl.policies import Vector
from raypfrl.populations.population import ClosedForm
from raypfrl.streams import Stream


class ClosedFormOracle(Oracle):
    """J, grad J and hess J . v by formula, of tasks with one decision. Batch sizes and streams are ignored, as in
    ``ExactOracle``, and the functions f, F and gradient_of_F take either."""

    def __init__(self, form: ClosedForm) -> None:
        self.meter = Meter()
        self._form = form

    def objective(self, theta: Vector) -> Any:
        """J(theta)."""
        return self._form.objective(theta)

    def policy_gradient(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """grad J(theta)."""
        return self._form.gradient(theta)

    def hessian_vector_product(
        self, theta: Vector, v: Vector, m: int = 0, stream: Stream | None = None, *, credit: Credit = "all",
        baseline: Vector | None = None,
    ) -> Vector:  # fmt: skip
        """hess J(theta) v; there is nothing to estimate. It does not answer for credit = "none"."""
        if credit == "none":
            raise self.unanswered("hessian_vector_product with credit = none")
        return self._form.hessian_vector_product(theta, v)

    def weighted_gradient(self, theta: Vector, snapshot: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """grad J(snapshot): weighted, what theta samples tells it without error."""
        return self.policy_gradient(snapshot)

    def returns(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Outcome:
        """J(theta); there is no goal."""
        return Outcome(float(self._form.objective(theta)), float("nan"), float("nan"))

    def mean_rewards(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """E[r_0], shape (1,)."""
        return np.array([self._form.objective(theta)])

    def value_baseline(self, theta: Vector, m: int = 0, stream: Stream | None = None) -> Vector:
        """``mean_rewards``: what is exact needs no baseline."""
        return self.mean_rewards(theta)
