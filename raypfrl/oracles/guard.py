"""The guard: what goes wrong in an oracle is told with its place in the protocol."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raypfrl.oracles.oracle import Oracle, Outcome
from raypfrl.text import cause


class AgentError(RuntimeError):
    """An agent could not answer. The message: where in the protocol, then the first cause."""


class Diverged(ArithmeticError):
    """An answer is not finite. The message: where in the protocol, and the remedy."""


class Guarded(Oracle):
    """An oracle whose failures name agent, round, local step and batch, and whose answers are finite."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.meter = oracle.meter

    def ask(self, question: str, *arguments: Any, **options: Any) -> Any:
        """The answer of the oracle behind; raises AgentError or Diverged."""
        *_, m, stream = arguments
        with telling(stream):
            answer = getattr(self._oracle, question)(*arguments, **options)
        numbers = answer.return_ if isinstance(answer, Outcome) else answer  # without a goal its other two are nan
        if not (math.isfinite(np.vdot(numbers, numbers)) or np.isfinite(numbers).all()):  # squares alone may overflow
            what = f"the {question.replace('_', ' ')} came out not finite (m = {m})"
            raise Diverged(f"{stream}: {what}; lower beta or alpha, or raise the batch")
        return answer


class telling:
    """What goes wrong inside is told with its place in the protocol: Diverged where arithmetic has left the finite
    numbers, AgentError where anything else went wrong. What has been told already passes: who told it knew more."""

    __slots__ = ("_where",)

    def __init__(self, where: object) -> None:
        self._where = where

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, AgentError | Diverged):
            return
        if isinstance(error, ArithmeticError):
            raise Diverged(f"{self._where}: {cause(error)}; lower beta or alpha") from error
        if isinstance(error, Exception | SystemExit):  # an environment may call sys.exit
            raise AgentError(f"{self._where}: {cause(error)}") from error
