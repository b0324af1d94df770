"""Parts of the consumer protocol that the coordinator reads: bytes from members, which may be malformed.

A coordinator of classic groups could ignore them. It reads them to reject bytes that would make a
leader fail, to know which offsets are still needed, and to report to the recorder which partitions
members keep.
"""

from collections.abc import Collection, Iterable, Mapping

from kohort.group_events import Cause
from kohort.model import TopicPartition
from kohort.wire.codec import DecodeError
from kohort.wire.messages.consumer_protocol import Subscription, decode_assignment, decode_subscription

CONSUMER = "consumer"
"""Protocol type of consumers. Connect and schema registries have their own types, with private formats."""

COOPERATIVE = frozenset({"cooperative-sticky", "stream", "warm"})
"""Assignors whose members keep processing their partitions while the group rebalances (KIP-429)."""


def are_readable(protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
    """Return whether a leader could read this member's subscriptions (KAFKA-20570)."""
    return protocol_type != CONSUMER or all(read_subscription(metadata) is not None for metadata in protocols.values())


def subscribed_topics(metadata: Iterable[bytes]) -> set[str] | None:
    """Return all topics of these subscriptions; None if one of them is unreadable."""
    topics: set[str] = set()
    for encoded in metadata:
        subscription = read_subscription(encoded)
        if subscription is None:
            return None
        topics.update(subscription.topics)
    return topics


def is_eager_assignor(protocol_type: str | None, protocol: str | None) -> bool:
    """Return whether consumers with this assignor give up all partitions when they learn of a rebalance."""
    return protocol_type == CONSUMER and protocol is not None and protocol not in COOPERATIVE


def are_cooperative(protocol_type: str | None, protocols: Collection[str]) -> bool:
    """Return whether members with these assignors keep processing while the group rebalances (KIP-429)."""
    return protocol_type == CONSUMER and COOPERATIVE.issuperset(protocols)


def members_giving_up(
    protocol_type: str, protocols: Mapping[str, Mapping[str, bytes]], assignment: Mapping[str, bytes]
) -> frozenset[str]:
    """Return the members of a cooperative assignor that must give up partitions and rejoin: a rebalance is near.

    `protocols` has the subscriptions of each member, and `assignment` its assigned partitions.
    """
    members = set()
    for member_id, offered in protocols.items():
        owned = owned_partitions(protocol_type, offered)
        if owned and owned - assigned_partitions(protocol_type, assignment.get(member_id, b"")):
            members.add(member_id)
    return frozenset(members)


def owned_partitions(protocol_type: str, protocols: Mapping[str, bytes]) -> frozenset[TopicPartition] | None:
    """Return the partitions that a joining member keeps processing.

    None if it stops processing: a consumer is cooperative only if all its assignors are.
    """
    if not are_cooperative(protocol_type, protocols):
        return None
    subscriptions = (read_subscription(metadata) for metadata in protocols.values())
    return frozenset().union(*(s.owned_partitions for s in subscriptions if s is not None))


def assigned_partitions(protocol_type: str | None, assignment: bytes) -> frozenset[TopicPartition]:
    """Return the assigned partitions; empty if the bytes are not those of the consumer protocol."""
    if protocol_type != CONSUMER or not assignment:
        return frozenset()
    try:
        return frozenset(decode_assignment(assignment).partitions)
    except DecodeError:
        return frozenset()


def subscription_change(protocol_type: str, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> Cause | None:
    """Return what a rejoining member changed; None if nothing.

    A different order of owned partitions is not a change: some clients do not sort them, and each of
    their joins would start another rebalance (KAFKA-12898).
    """
    if list(old.items()) == list(new.items()):
        return None
    if protocol_type != CONSUMER or list(old) != list(new):
        return Cause.SUBSCRIPTION_CHANGED
    pairs = [(read_subscription(old[name]), read_subscription(new[name])) for name in new]
    if any(before is None or after is None for before, after in pairs):
        return Cause.SUBSCRIPTION_CHANGED
    if any(_topics_and_rack(before) != _topics_and_rack(after) for before, after in pairs):
        return Cause.SUBSCRIPTION_CHANGED
    if all(_ownership(before) == _ownership(after) for before, after in pairs):
        return None
    return Cause.OWNED_CHANGED


def read_subscription(metadata: bytes) -> Subscription | None:
    """Decode a member's subscription; return None if it is unreadable."""
    try:
        return decode_subscription(metadata)
    except DecodeError:
        return None


def _topics_and_rack(subscription: Subscription | None) -> object:
    assert subscription is not None
    return (frozenset(subscription.topics), subscription.rack_id)


def _ownership(subscription: Subscription | None) -> object:
    assert subscription is not None
    return (frozenset(subscription.owned_partitions), subscription.generation_id, subscription.user_data)
