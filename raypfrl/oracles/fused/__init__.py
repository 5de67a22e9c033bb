"""The fused oracle: rollout, and gradient (2) or Hessian-vector product (3), as one compiled pass over the data.

    lanes            the type that compiled code computes with: one number of each trajectory of a block
    philox           random numbers by (stream, trajectory, draw)
    approximations   tanh, exp, sin, cos, log
    softmax, gaussian    distributions, as a ``head``: outputs to action, and the derivatives of log pi in the outputs
    mlp, tabular     policies, as a ``network``: observation to outputs, and back
    rollout, sums    a block of trajectories; sums over a batch in the trajectories' order
    ridge, advantages    baselines
    estimators       (1), (2), (3): the passes over a block
    fingerprint      what a task's functions are made of, as a text
    detached         a task's functions, made ready to be compiled
    specialise       compiled code on disk
    oracle           what the rest of raypfrl calls

**To add a task**, give its class a ``kernel``, as ``populations/navigation.py`` does: plain functions of NumPy arrays
(any shape; here Lanes), which ``populations.Kernel`` describes.

**To add a policy**, write a file beside ``mlp.py`` that returns a ``Network``, or one beside ``softmax.py`` that
returns a ``Head``, and name it in ``oracle._network``.

Hold it right in tests/fused: add a row to ``FAMILIES`` there, and it is compared with float64 autodiff on the same
trajectories, with the environment, and between block sizes and CPUs.
"""

from raypfrl.oracles.fused.oracle import FusedOracle, Trajectories, covers

__all__ = ["FusedOracle", "Trajectories", "covers"]
