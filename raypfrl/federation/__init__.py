"""The federation: agents, server, and one run of them. ``actors`` (the only module here that imports ray) apart."""

from raypfrl.federation.agent import Agent, Evaluation, Update, build_agent
from raypfrl.federation.server import Agents, Server
from raypfrl.federation.train import InProcess, Training, train

__all__ = ["Agent", "Agents", "Evaluation", "InProcess", "Server", "Training", "Update", "build_agent", "train"]
