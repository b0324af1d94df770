"""Facts about the groups of a `GroupShard` for the prompt room, and the rules that answer held heartbeats."""

from kohort.coordinator.classic import ClassicGroup, current_answer
from kohort.coordinator.classic_protocol import heartbeat
from kohort.coordinator.config import GroupSettings
from kohort.coordinator.consumer import ConsumerGroup, answer_earlier_heartbeat, due_at
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Groups
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest


class ShardGroupFacts:
    """`GroupFacts` of one shard."""

    __slots__ = ("_groups",)

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def settings(self, group_id: str, /) -> GroupSettings:
        """Return the settings of a consumer group."""
        return self._groups.settings(group_id)

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return the group with that ID if it is a classic group, else None."""
        return self._groups.classic(group_id)

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """Return the group with that ID if it is a consumer group, else None."""
        return self._groups.consumer(group_id)

    def next_target_at(self, group_id: str) -> Millis:
        """Return when a consumer group may get its next target, without a request of a member.

        If a member computes it, nothing is due before that member's deadline.
        """
        group = self._groups.consumer(group_id)
        assert group is not None
        return max(due_at(self._groups, group), group.computing.awaited_until(group))

    def classic_answer(self, request: HeartbeatRequest, now: Millis) -> ErrorCode:
        """Return the answer that a classic heartbeat, which arrived earlier, gets now. Its session is not renewed."""
        if isinstance(self._groups.by_id.get(request.group_id), ClassicGroup):
            return current_answer(self._groups, request)
        return heartbeat(self._groups, request, now)  # the group was converted to the consumer protocol

    def consumer_answer(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis, out: Effects
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the answer that a heartbeat, which arrived earlier, gets now. Its session is not renewed."""
        return answer_earlier_heartbeat(self._groups, request, context, now, out)
