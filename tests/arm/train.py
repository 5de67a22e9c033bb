"""Prints the hash of theta after short compiled runs, in process; for test_arm.py, here and on an emulated ARM core."""

import hashlib

import numpy as np

from raypfrl import RunConfig
from raypfrl.federation import Training

SMALL = {"rounds": 2, "tau": 2, "m_in": 5, "m_eval": 8, "evaluate": 10, "oracle": "fused"}
RUNS = {
    "gridworld exact causal_value": {"population": "gridworld", "method": "exact", "curvature": "causal_value"},
    "navigation exact": {"population": "navigation", "method": "exact"},
    "navigation exact causal_value": {"population": "navigation", "method": "exact", "curvature": "causal_value"},
    "navigation fedavg_pg": {"population": "navigation", "method": "fedavg_pg"},
}

for name, settings in RUNS.items():
    adapt = (0, "exact") if settings["population"] == "gridworld" else (0, 8)
    training = Training(RunConfig(**settings, **SMALL, m_h=5, m_out=5, m_adapt=adapt))
    for _ in training:
        pass
    theta = np.asarray(training.server.theta, np.float64)
    print(name, hashlib.sha256(theta.tobytes()).hexdigest()[:16], flush=True)
