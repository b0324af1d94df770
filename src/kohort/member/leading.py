"""What the leader of a classic group does: from all subscriptions to all assignments, as bytes."""

from collections.abc import Mapping, Sequence

from kohort.assignor import Assignor
from kohort.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
)
from kohort.wire.join_group import JoinGroupResponseMember
from kohort.wire.sync_group import SyncGroupRequestAssignment


def subscriptions_of(members: Sequence[JoinGroupResponseMember]) -> dict[str, Subscription]:
    """Each member's subscription by its member id. Raises DecodeError."""
    return {member.member_id: decode_subscription(member.metadata) for member in members}


def topics_of(subscriptions: Mapping[str, Subscription]) -> frozenset[str]:
    """All topics that anybody in the group wants."""
    return frozenset(topic for subscription in subscriptions.values() for topic in subscription.topics)


def assign(
    assignor: Assignor,
    partitions: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    instance_ids: Mapping[str, str | None],
) -> list[SyncGroupRequestAssignment]:
    """What SyncGroup carries: an entry for every member, if an empty one."""
    shares = assignor.assign(partitions, subscriptions, instance_ids)
    nothing = Assignment()
    return [
        SyncGroupRequestAssignment(
            member_id=member_id, assignment=encode_assignment(shares.get(member_id, nothing), VERSION)
        )
        for member_id in subscriptions
    ]


VERSION = 3
"""Of the consumer protocol's bytes: with generation and rack. Older members read the part that they know."""
