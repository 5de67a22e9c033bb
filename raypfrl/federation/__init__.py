"""The federation: agents, server, and one run of them. ``actors`` (the only module here that imports ray) apart."""

from raypfrl.federation.agent import Agent, Evaluation, Update, build_agent
from raypfrl.federation.server import Agents, Call, Server
from raypfrl.federation.train import InProcess, Training, splits, train

__all__ = [
    "Agent",
    "Agents",
    "Call",
    "Evaluation",
    "InProcess",
    "Server",
    "Training",
    "Update",
    "build_agent",
    "splits",
    "train",
]
