"""Client-side assignors: the leader of a classic group uses one to assign partitions to members."""

from kohort.assignor.api import Assignor, RackAware, RebalanceProtocol
from kohort.assignor.registry import ASSIGNORS, find_assignor, find_assignors

__all__ = ["ASSIGNORS", "Assignor", "RackAware", "RebalanceProtocol", "find_assignor", "find_assignors"]
