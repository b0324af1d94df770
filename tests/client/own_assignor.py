"""An assignor that a user could have written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.assignor import RebalanceProtocol
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription


class FirstTakesAll:
    """All partitions go to the member whose instance id is the first by the alphabet."""

    name = "first-takes-all"
    protocol = RebalanceProtocol.COOPERATIVE

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """It needs to know nothing more."""
        return None

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """Everything to one."""
        first = min(members, key=lambda member_id: (instance_ids or {}).get(member_id) or member_id)
        everything = [TopicPartition(topic, n) for topic, count in partitions.items() for n in range(count)]
        return {member_id: Assignment(everything if member_id == first else []) for member_id in members}


class Failing(FirstTakesAll):
    """Has a bug."""

    name = "failing"

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """Raises."""
        raise ZeroDivisionError("division by zero")
