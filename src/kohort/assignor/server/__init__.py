"""Server-side assignors: the coordinator uses one to compute a consumer group's target assignment."""

from kohort.assignor.server.api import Load, LoadAware, MemberShape, Plan, ServerAssignor, Target, TopicShape
from kohort.assignor.server.checking import check_targets
from kohort.assignor.server.custom import CustomAssignor, MemberView, SimpleAssignor
from kohort.assignor.server.partition_numbers import PartitionNumbers, kept
from kohort.assignor.server.registry import SERVER_ASSIGNORS, find_server_assignor, find_server_assignors

__all__ = [
    "SERVER_ASSIGNORS",
    "CustomAssignor",
    "Load",
    "LoadAware",
    "MemberShape",
    "MemberView",
    "PartitionNumbers",
    "Plan",
    "ServerAssignor",
    "SimpleAssignor",
    "Target",
    "TopicShape",
    "check_targets",
    "find_server_assignor",
    "find_server_assignors",
    "kept",
]
