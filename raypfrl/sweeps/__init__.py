"""Sweeps: a plan as data, its result files, and (``launch``, ``trial``, ``recorder``: these import ray) its run."""

from raypfrl.sweeps.sweep import Sweep, load

__all__ = ["Sweep", "load"]
