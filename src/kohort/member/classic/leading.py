"""What the leader of a classic group does: from all subscriptions to all assignments, as bytes."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.assignor import Assignor, RackAware
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, Subscription, decode_subscription, encode_assignment
from kohort.wire.join_group import JoinGroupResponse
from kohort.wire.sync_group import SyncGroupRequestAssignment

VERSION = 3
"""Of the consumer protocol's bytes: with generation and rack. Older members read the part that they know."""


@dataclass(frozen=True, slots=True)
class Lead:
    """What the leader of a generation knows of its group."""

    assignor: Assignor
    subscriptions: Mapping[str, Subscription]
    instance_ids: Mapping[str, str | None]
    skip_assignment: bool

    @property
    def topics(self) -> frozenset[str]:
        """All topics that anybody in the group wants."""
        return frozenset(topic for subscription in self.subscriptions.values() for topic in subscription.topics)

    @property
    def knows_racks(self) -> bool:
        """Whether where replicas are makes a difference to the assignment (KIP-881)."""
        return isinstance(self.assignor, RackAware)

    def shares(
        self, counts: Mapping[str, int | None], racks: Mapping[TopicPartition, frozenset[str]]
    ) -> list[SyncGroupRequestAssignment]:
        """What SyncGroup carries: an entry for every member, if an empty one. A count of None: no such topic."""
        if self.skip_assignment:
            # KIP-814: a static leader came back, the group keeps its assignment; the leader still watches the topics.
            return []
        known = {topic: count for topic, count in counts.items() if count is not None}
        if racks and isinstance(self.assignor, RackAware):
            shares = self.assignor.assign_near(known, self.subscriptions, self.instance_ids, racks)
        else:
            shares = self.assignor.assign(known, self.subscriptions, self.instance_ids)
        nothing = Assignment()
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(shares.get(member_id, nothing), VERSION)
            )
            for member_id in self.subscriptions
        ]


def lead_of(assignor: Assignor, response: JoinGroupResponse) -> Lead:
    """From the answer that makes a member the leader. Raises DecodeError."""
    return Lead(
        assignor,
        subscriptions={member.member_id: decode_subscription(member.metadata) for member in response.members},
        instance_ids={member.member_id: member.group_instance_id for member in response.members},
        skip_assignment=response.skip_assignment,
    )
