"""Helpers that all assignors share: order of members, topic sets, and the form of the result."""

from collections.abc import Iterable, Mapping, Sequence

from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription


def in_order(member_ids: Iterable[str], instance_ids: Mapping[str, str | None] | None) -> list[str]:
    """Sort static members by instance ID, because their member IDs change (KIP-345), then the others by member ID."""
    if not instance_ids:
        return sorted(member_ids)

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = instance_ids.get(member_id)
        return (True, member_id) if instance_id is None else (False, instance_id)

    return sorted(member_ids, key=rank)


def as_assignments(shares: Mapping[str, Sequence[TopicPartition]]) -> dict[str, Assignment]:
    """Return the shares as assignments of the consumer protocol, without user data."""
    return {member_id: Assignment(list(share)) for member_id, share in shares.items()}


def topic_sets(members: Mapping[str, Subscription]) -> dict[str, frozenset[str]]:
    """Return each member's topics. Equal sets are one object, because most groups have one common subscription.

    Lists are compared first: this is several times faster than building sets, and Kafka's clients
    sort their topics.
    """
    result: dict[str, frozenset[str]] = {}
    known: dict[frozenset[str], frozenset[str]] = {}
    before: Sequence[str] | None = None
    topics: frozenset[str] = frozenset()
    for member_id, subscription in members.items():
        if subscription.topics != before:
            before = subscription.topics
            topics = frozenset(before)
            topics = known.setdefault(topics, topics)
        result[member_id] = topics
    return result
