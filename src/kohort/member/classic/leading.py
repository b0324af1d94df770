"""The leader's part of a classic group: compute all assignments from all subscriptions, and encode them."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.assignor import Assignor, RackAware, RebalanceProtocol
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, decode_subscription, encode_assignment
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequestAssignment

VERSION = 3
"""Version of the consumer protocol's bytes: with generation and rack. Older members read the part they know."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Information on the group that the leader of a generation has."""

    assignor: Assignor
    subscriptions: Mapping[str, Subscription]
    instance_ids: Mapping[str, str | None]
    skip_assignment: bool

    @property
    def topics(self) -> frozenset[str]:
        """All topics to which any member subscribes."""
        return frozenset(topic for subscription in self.subscriptions.values() for topic in subscription.topics)

    @property
    def knows_racks(self) -> bool:
        """Whether the location of replicas affects the assignment (KIP-881)."""
        return isinstance(self.assignor, RackAware)

    def assign(
        self, counts: Mapping[str, int | None], racks: Mapping[TopicPartition, frozenset[str]]
    ) -> Mapping[str, Assignment]:
        """Return the assignor's assignment per member. A count of None means that the topic does not exist."""
        known = {topic: count for topic, count in counts.items() if count is not None}
        if racks and isinstance(self.assignor, RackAware):
            return self.assignor.assign_near(known, self.subscriptions, self.instance_ids, racks)
        return self.assignor.assign(known, self.subscriptions, self.instance_ids)

    def encoded(self, given: Mapping[str, Assignment]) -> list[SyncGroupRequestAssignment]:
        """Return the assignments for SyncGroup: one entry for every member, possibly empty."""
        nothing = Assignment()
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(given.get(member_id, nothing), VERSION)
            )
            for member_id in self.subscriptions
        ]

    def fault(self, counts: Mapping[str, int | None], given: Mapping[str, Assignment]) -> str | None:
        """Describe an error in an assignment; None if there is none. As in Kafka, a classic group uses it anyway.

        A cooperative assignor omits partitions that move until their owner has given them up.
        """
        owners: dict[TopicPartition, str] = {}
        for member_id in self.subscriptions.keys() & given.keys():
            for partition in given[member_id].partitions:
                other = owners.setdefault(partition, member_id)
                if other != member_id:
                    return f"it assigns {partition} to both {other} and {member_id}, so both read it"
        moving = set[TopicPartition]()
        if self.assignor.protocol is RebalanceProtocol.COOPERATIVE:
            moving.update(*(subscription.owned_partitions for subscription in self.subscriptions.values()))
        wanted = (TopicPartition(topic, n) for topic in sorted(self.topics) for n in range(counts.get(topic) or 0))
        left = [partition for partition in wanted if partition not in owners and partition not in moving]
        if not left:
            return None
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        return f"it assigns {left[0]}{more} to no member, so no member reads it"


def lead_of(assignor: Assignor, response: JoinGroupResponse) -> Lead:
    """Return what a leader knows from the response that makes it one. Raises DecodeError."""
    return Lead(
        assignor,
        subscriptions={member.member_id: decode_subscription(member.metadata) for member in response.members},
        instance_ids={member.member_id: member.group_instance_id for member in response.members},
        skip_assignment=response.skip_assignment,
    )
