"""The fused oracle: rollout, and gradient (2) or Hessian-vector product (3), as one compiled pass over the data.

    lanes            the type that compiled code computes with: one number of each trajectory of a block
    philox           random numbers by (stream, trajectory, draw)
    approximations   tanh and exp
    softmax          the head of a policy: logits to action, and the derivatives of log pi in the logits
    mlp, tabular     policies, as a ``network``: observation to logits, and back
    rollout, sums    a block of trajectories; sums over a batch in the trajectories' order
    estimators       (1), (2), (3): the passes over a block
    specialise       compiled code on disk
    oracle           what the rest of raypfrl calls

**To add a task**, write at the end of its population's file, as ``populations/navigation.py`` does, plain functions of
NumPy arrays (any shape; here Lanes): ``initial``, ``observe``, ``transition``, ``measure``, and of plain Python
``constants(task)``, the numbers that tell tasks apart, and ``fits(policy)``. They use their own file's constants and
call none of each other. ``covers`` finds them there.

**To add a policy** with softmax actions, write a file beside ``mlp.py`` that returns a ``Network``, and name it in
``oracle._network``.

Hold it right in tests/fused: add a row to ``FAMILIES`` there, and it is compared with float64 autodiff on the same
trajectories, with the environment, and between block sizes and CPUs.
"""

from raypfrl.oracles.fused.oracle import FusedOracle, Trajectories, covers

__all__ = ["FusedOracle", "Trajectories", "covers"]
