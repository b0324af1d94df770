"""Server assignors: who should own which partition of a consumer group. Computed by the coordinator."""

from kohort.assignor.server.api import Load, MemberShape, Plan, ServerAssignor, Target, TopicShape, WeighsLoad
from kohort.assignor.server.checking import check_targets
from kohort.assignor.server.custom import CustomAssignor, MemberView, SimpleAssignor
from kohort.assignor.server.registry import SERVER_ASSIGNORS, find_server_assignor, find_server_assignors

__all__ = [
    "SERVER_ASSIGNORS",
    "CustomAssignor",
    "Load",
    "MemberShape",
    "MemberView",
    "Plan",
    "ServerAssignor",
    "SimpleAssignor",
    "Target",
    "TopicShape",
    "WeighsLoad",
    "check_targets",
    "find_server_assignor",
    "find_server_assignors",
]
