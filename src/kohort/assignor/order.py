"""What every assignor needs of its input and its output: members in order, topics as sets, the form of the answer."""

from collections.abc import Iterable, Mapping, Sequence

from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, Subscription


def in_order(member_ids: Iterable[str], instance_ids: Mapping[str, str | None] | None) -> list[str]:
    """Static members by instance id, since their member ids change (KIP-345), then the others by member id."""
    if not instance_ids:
        return sorted(member_ids)

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = instance_ids.get(member_id)
        return (True, member_id) if instance_id is None else (False, instance_id)

    return sorted(member_ids, key=rank)


def as_assignments(shares: Mapping[str, Sequence[TopicPartition]]) -> dict[str, Assignment]:
    """The shares as the wire's assignments, without user data."""
    return {member_id: Assignment(list(share)) for member_id, share in shares.items()}


def topic_sets(members: Mapping[str, Subscription]) -> dict[str, frozenset[str]]:
    """Each member's topics; equal ones are one object, since most groups have one subscription in many copies.

    Lists compare several times faster than sets are made, and Kafka's clients sort theirs.
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
