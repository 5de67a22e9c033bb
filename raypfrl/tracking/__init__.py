"""Weights & Biases: every trial is a run. Nothing here can stop a trial, change a result, or hold a sweep up."""

from raypfrl.tracking.journal import UNTRACKED, Tracker, Tracking

__all__ = ["UNTRACKED", "Tracker", "Tracking"]
