"""Assignors: who gets which partition. Computed by the member that leads a classic group."""

from kohort.assignor.api import Assignor, RackAware, RebalanceProtocol
from kohort.assignor.registry import ASSIGNORS, find_assignor, find_assignors

__all__ = ["ASSIGNORS", "Assignor", "RackAware", "RebalanceProtocol", "find_assignor", "find_assignors"]
