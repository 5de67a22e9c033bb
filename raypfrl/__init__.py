"""Personalized federated reinforcement learning that one can run, trust and scale."""

from raypfrl.config import RunConfig, SettingsError
from raypfrl.federation import Training, train
from raypfrl.oracles import AgentError, Diverged

__version__ = "0.1.0"

__all__ = ["AgentError", "Diverged", "RunConfig", "SettingsError", "Training", "train"]
