"""Server assignors: who should own which partition of a consumer group. Computed by the coordinator."""

from kohort.assignor.server.api import MemberShape, Plan, ServerAssignor, Target, TopicShape, WeighsLoad
from kohort.assignor.server.registry import SERVER_ASSIGNORS, find_server_assignor, find_server_assignors

__all__ = [
    "SERVER_ASSIGNORS",
    "MemberShape",
    "Plan",
    "ServerAssignor",
    "Target",
    "TopicShape",
    "WeighsLoad",
    "find_server_assignor",
    "find_server_assignors",
]
