"""Contiguous ranges, topic by topic (Kafka's default before 2.4, and its second choice since)."""

from collections.abc import Collection, Mapping

from kohort.assignor.api import RebalanceProtocol
from kohort.assignor.order import as_assignments, in_order, topic_sets
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, Subscription


class RangeAssignor:
    """Each topic is cut into as many ranges as it has subscribers, the longer ones first.

    Topics with the same number of partitions and the same subscribers are cut alike, so partition n of each goes to
    one member: what joins of co-partitioned topics rely on.
    """

    name = "range"
    protocol = RebalanceProtocol.EAGER

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """Nothing: ranges depend only on who is there."""
        return None

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`."""
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for topic, subscribers in sorted(_subscribers(members, instance_ids).items()):
            short, longer = divmod(partitions.get(topic, 0), len(subscribers))
            start = 0
            # Whoever comes after the last non-empty range gets nothing.
            for index, member_id in enumerate(subscribers if short else subscribers[:longer]):
                end = start + short + (index < longer)
                shares[member_id] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return as_assignments(shares)


def _subscribers(
    members: Mapping[str, Subscription], instance_ids: Mapping[str, str | None] | None
) -> dict[str, list[str]]:
    ordered = in_order(members, instance_ids)
    topics = topic_sets(members)
    distinct = set(topics.values())
    if len(distinct) == 1:
        return dict.fromkeys(distinct.pop(), ordered)
    subscribers: dict[str, list[str]] = {}
    for member_id in ordered:
        for topic in topics[member_id]:
            subscribers.setdefault(topic, []).append(member_id)
    return subscribers
