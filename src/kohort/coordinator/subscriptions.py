"""What the coordinator reads of the consumer protocol: bytes that members exchange, and that anybody may have made.

A coordinator of classic groups could do without: it looks to refuse bytes that would break a member that leads, to
know which offsets are still wanted, and to tell the recorder who keeps what.
"""

from collections.abc import Iterable, Mapping

from kohort.coordinator.events import Cause
from kohort.model import TopicPartition
from kohort.wire.codec import DecodeError
from kohort.wire.consumer_protocol import Subscription, decode_assignment, decode_subscription

CONSUMER = "consumer"
"""The protocol type of consumers; Connect and schema registries have their own, whose bytes are theirs alone."""

COOPERATIVE = frozenset({"cooperative-sticky", "stream", "warm"})
"""The assignors whose members go on with what they own while the group rebalances (KIP-429)."""


def are_readable(protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
    """Whether a leader could read what this member says (KAFKA-20570)."""
    return protocol_type != CONSUMER or all(read_subscription(metadata) is not None for metadata in protocols.values())


def subscribed_topics(metadata: Iterable[bytes]) -> set[str] | None:
    """All topics that these subscriptions name; None if one of them is not to be read."""
    topics: set[str] = set()
    for one in metadata:
        subscription = read_subscription(one)
        if subscription is None:
            return None
        topics.update(subscription.topics)
    return topics


def owned_partitions(protocol_type: str, protocols: Mapping[str, bytes]) -> frozenset[TopicPartition] | None:
    """What a joining member goes on with.

    None where it stops everything: a consumer is cooperative only while all its assignors are.
    """
    if protocol_type != CONSUMER or not COOPERATIVE.issuperset(protocols):
        return None
    subscriptions = (read_subscription(metadata) for metadata in protocols.values())
    return frozenset().union(*(s.owned_partitions for s in subscriptions if s is not None))


def assigned_partitions(protocol_type: str | None, assignment: bytes) -> frozenset[TopicPartition]:
    """What an assignment gives; nothing where the bytes are not those of the consumer protocol."""
    if protocol_type != CONSUMER or not assignment:
        return frozenset()
    try:
        return frozenset(decode_assignment(assignment).partitions)
    except DecodeError:
        return frozenset()


def change(protocol_type: str, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> Cause | None:
    """What a rejoining member says differently; None if nothing.

    Owned partitions in another order are no change: some clients do not sort them, and each of their joins would
    start another rebalance (KAFKA-12898).
    """
    if list(old.items()) == list(new.items()):
        return None
    if protocol_type != CONSUMER or list(old) != list(new):
        return Cause.SUBSCRIPTION_CHANGED
    pairs = [(read_subscription(old[name]), read_subscription(new[name])) for name in new]
    if any(before is None or after is None for before, after in pairs):
        return Cause.SUBSCRIPTION_CHANGED
    if any(_wish(before) != _wish(after) for before, after in pairs):
        return Cause.SUBSCRIPTION_CHANGED
    if all(_claim(before) == _claim(after) for before, after in pairs):
        return None
    return Cause.OWNED_CHANGED


def read_subscription(metadata: bytes) -> Subscription | None:
    """What a member says; None if its bytes are not to be read."""
    try:
        return decode_subscription(metadata)
    except DecodeError:
        return None


def _wish(subscription: Subscription | None) -> object:
    assert subscription is not None
    return (frozenset(subscription.topics), subscription.rack_id)


def _claim(subscription: Subscription | None) -> object:
    assert subscription is not None
    return (frozenset(subscription.owned_partitions), subscription.generation_id, subscription.user_data)
