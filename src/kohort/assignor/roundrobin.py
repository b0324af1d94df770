"""Round-robin assignor: partitions of all topics go to the members in turn."""

from collections.abc import Collection, Mapping
from itertools import cycle

from kohort.assignor.api import RebalanceProtocol
from kohort.assignor.order import as_assignments, in_order, topic_sets
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription


class RoundRobinAssignor:
    """Assigns partitions in turn; a member that does not subscribe to the topic is skipped and loses its turn."""

    name = "roundrobin"
    protocol = RebalanceProtocol.EAGER

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """Return None: turns depend only on the present members."""
        return None

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`."""
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        topics = topic_sets(members)
        turns = cycle(in_order(members, instance_ids))
        for topic in sorted(frozenset().union(*set(topics.values()))):
            for number in range(partitions.get(topic, 0)):
                taker = next(member_id for member_id in turns if topic in topics[member_id])
                shares[taker].append(TopicPartition(topic, number))
        return as_assignments(shares)
