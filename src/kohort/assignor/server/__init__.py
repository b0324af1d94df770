"""Server assignors: who should own which partition of a consumer group. Computed by the coordinator."""

from kohort.assignor.server.api import MemberShape, Plan, ServerAssignor, Target, TopicShape, WeighsLoad

__all__ = ["MemberShape", "Plan", "ServerAssignor", "Target", "TopicShape", "WeighsLoad"]
