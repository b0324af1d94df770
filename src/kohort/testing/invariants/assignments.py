"""Subscriptions and assignments of classic members, from the bytes of the consumer protocol."""

from functools import lru_cache

from kohort.model import TopicPartition
from kohort.testing.invariants.state import Partitions
from kohort.wire.codec import DecodeError
from kohort.wire.messages.consumer_protocol import Subscription, decode_assignment, decode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest

CONSUMER = "consumer"
"""Protocol type of consumers; others have bytes of their own."""


def subscription_of(request: JoinGroupRequest) -> Subscription | None:
    """Return what the member subscribes to; None for another protocol type, or malformed bytes."""
    if request.protocol_type != CONSUMER or not request.protocols:
        return None
    try:
        return decode_subscription(request.protocols[0].metadata)
    except DecodeError:
        return None


@lru_cache(1024)
def topics_of(data: bytes) -> frozenset[str] | None:
    """Return the topics that a member subscribes to, from the bytes that the leader receives; None if malformed."""
    try:
        return frozenset(decode_subscription(data).topics)
    except DecodeError:
        return None


def owned_of(subscription: Subscription) -> Partitions:
    """Return the partitions that the member reports to own."""
    return frozenset(TopicPartition(*place) for place in subscription.owned_partitions)


@lru_cache(1024)
def partitions_of(data: bytes) -> Partitions | None:
    """Return the partitions of an assignment; None for malformed bytes."""
    try:
        return frozenset(TopicPartition(*place) for place in decode_assignment(data).partitions)
    except DecodeError:
        return None
