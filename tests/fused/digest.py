"""python -m tests.fused.digest FAMILY ...: this machine's (or NUMBA_CPU_NAME's) bytes of the estimators, hashed."""

from __future__ import annotations

import hashlib
import sys

import numpy as np
from numba.core.registry import cpu_target

from raypfrl.oracles.fused import FusedOracle
from tests.fused.families import FAMILIES, READY, STREAM, fused, vectors

ALL = {**FAMILIES, **READY}


def digest(oracle: FusedOracle, family: str) -> str:
    """A hash of the bytes of g and H_hat v for batches of 1 to 200 trajectories."""
    population = ALL[family]
    theta, v = vectors(population.policy)
    b = np.linspace(0.3, 0.0, population.horizon + 1)
    answers = []
    for m in (1, 13, 200):
        answers.append(oracle.policy_gradient(theta, m, STREAM))
        answers.append(oracle.hessian_vector_product(theta, v, m, STREAM))
        answers.append(oracle.hessian_vector_product(theta, v, m, STREAM, credit="causal", baseline=b))
        answers.append(oracle.policy_gradient(theta * 100, m, STREAM))
        b_w = oracle.value_baseline(theta, m, STREAM)
        answers += [b_w, oracle.hessian_vector_product(theta, v, m, STREAM, credit="causal", baseline=b_w)]
    return hashlib.sha256(b"".join(answer.tobytes() for answer in answers)).hexdigest()


if __name__ == "__main__":
    print(cpu_target.target_context.codegen().magic_tuple()[1])
    for name in sys.argv[1:]:
        print(digest(fused(ALL[name]), name))
