"""Assignors: who gets which partition. Computed by the member that leads a classic group."""

from kohort.assignor.api import Assignor, RebalanceProtocol
from kohort.assignor.registry import ASSIGNORS, find_assignor, find_assignors

__all__ = ["ASSIGNORS", "Assignor", "RebalanceProtocol", "find_assignor", "find_assignors"]
