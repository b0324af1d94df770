"""Range assignor: contiguous ranges per topic (Kafka's default before 2.4, and its second choice since)."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from kohort.assignor.api import RebalanceProtocol
from kohort.assignor.near import Racks, near_ranges
from kohort.assignor.order import as_assignments, in_order, topic_sets
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription


class RangeAssignor:
    """Divides each topic into one range per subscriber, longer ranges first.

    Topics with the same partition count and the same subscribers are divided equally, so one member
    gets partition n of each: joins of co-partitioned topics rely on it. If racks are known,
    partitions with a replica in the member's rack are assigned first (KIP-881).
    """

    name = "range"
    protocol = RebalanceProtocol.EAGER

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """Return None: ranges depend only on the present members."""
        return None

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`."""
        return _plain(partitions, members, sorted(_subscribers(members, instance_ids).items()))

    def assign_near(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None,
        racks: Racks,
    ) -> Mapping[str, Assignment]:
        """See `RackAware.assign_near`. If racks make no difference, the result is the plain ranges."""
        subscribers = sorted(_subscribers(members, instance_ids).items())
        rack_of = {member_id: member.rack_id for member_id, member in members.items() if member.rack_id}
        near = near_ranges(partitions, dict(subscribers), rack_of, racks)
        if near is None:
            return _plain(partitions, members, subscribers)
        return as_assignments({member_id: near.get(member_id, []) for member_id in members})


def _plain(
    partitions: Mapping[str, int],
    members: Collection[str],
    subscribers: Iterable[tuple[str, Sequence[str]]],
) -> dict[str, Assignment]:
    shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    for topic, here in subscribers:
        short, longer = divmod(partitions.get(topic, 0), len(here))
        start = 0
        # Members after the last non-empty range get nothing.
        for index, member_id in enumerate(here if short else here[:longer]):
            end = start + short + (index < longer)
            shares[member_id] += [TopicPartition(topic, number) for number in range(start, end)]
            start = end
    return as_assignments(shares)


def _subscribers(
    members: Mapping[str, Subscription], instance_ids: Mapping[str, str | None] | None
) -> dict[str, list[str]]:
    """Return the members that subscribe to each topic, in the order in which they get partitions."""
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
