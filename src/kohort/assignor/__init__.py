"""Client-side assignors: the leader of a classic group uses one to assign partitions to members."""

from kohort.assignor.api import Assignor, RackAware, RebalanceProtocol
from kohort.assignor.copies import Copies
from kohort.assignor.registry import ASSIGNORS, find_assignor, find_assignors
from kohort.assignor.user_data import Claim, decode_claim
from kohort.assignor.warm import Plan, WarmAssignor

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "Claim",
    "Copies",
    "Plan",
    "RackAware",
    "RebalanceProtocol",
    "WarmAssignor",
    "decode_claim",
    "find_assignor",
    "find_assignors",
]
