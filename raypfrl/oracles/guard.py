"""The guard: what goes wrong in an oracle is told with its place in the protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from raypfrl.oracles.oracle import Meter, Oracle, Outcome
from raypfrl.policies import Vector
from raypfrl.streams import Stream


class AgentError(RuntimeError):
    """An agent could not answer. The message: where in the protocol, then the first cause."""


class Diverged(ArithmeticError):
    """An answer is not finite. The message: where in the protocol, and the remedy."""


class Guarded:
    """An oracle whose failures name agent, round, local step and batch."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    @property
    def meter(self) -> Meter:
        """The meter of the oracle behind."""
        return self._oracle.meter

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2), finite; raises AgentError or Diverged."""
        return self._ask("policy gradient", self._oracle.policy_gradient, theta, m, stream)

    def hessian_vector_product(self, theta: Vector, v: Vector, m: int, stream: Stream, **estimator: Any) -> Vector:
        """(3), finite; raises AgentError or Diverged."""
        return self._ask(
            "Hessian-vector product", self._oracle.hessian_vector_product, theta, v, m, stream, **estimator
        )

    def mean_rewards(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch mean of gamma^t r_t, finite; raises AgentError or Diverged."""
        return self._ask("reward", self._oracle.mean_rewards, theta, m, stream)

    def value_baseline(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The baseline (b_t, w), finite; raises AgentError or Diverged."""
        return self._ask("baseline", self._oracle.value_baseline, theta, m, stream)

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        """(1); raises AgentError or Diverged."""
        outcome: Outcome = self._call(self._oracle.returns, theta, m, stream)
        if not np.isfinite(outcome.return_):
            raise Diverged(f"{stream}: the return is not finite (m = {m}); lower beta or alpha")
        return outcome

    def _ask(self, what: str, question: Any, *arguments: Any, **estimator: Any) -> Vector:
        answer: Vector = self._call(question, *arguments, **estimator)
        if not np.isfinite(answer).all():
            *_, m, stream = arguments
            raise Diverged(f"{stream}: the {what} is not finite (m = {m}); lower beta or raise the batch")
        return answer

    def _call(self, question: Any, *arguments: Any, **estimator: Any) -> Any:
        try:
            return question(*arguments, **estimator)
        except Exception as error:
            raise AgentError(f"{arguments[-1]}: {type(error).__name__}: {error}") from error
