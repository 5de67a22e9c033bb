"""Personalized federated reinforcement learning that one can run, trust and scale."""

from typing import TYPE_CHECKING, Any

from raypfrl.config import RunConfig, SettingsError
from raypfrl.federation import Training, train
from raypfrl.oracles import AgentError, Diverged

if TYPE_CHECKING:
    from raypfrl.sweeps import Sweep
    from raypfrl.sweeps.start import sweep

__version__ = "0.1.0"

__all__ = ["AgentError", "Diverged", "RunConfig", "SettingsError", "Sweep", "Training", "sweep", "train"]


def __getattr__(name: str) -> Any:
    """Sweeps are imported when they are asked for."""
    if name == "Sweep":
        from raypfrl.sweeps import Sweep

        return Sweep
    if name == "sweep":
        from raypfrl.sweeps.start import sweep

        return sweep
    raise AttributeError(f"module 'raypfrl' has no attribute {name!r}")
