"""Subscriptions and assignments of the protocol type "consumer", inside JoinGroup and SyncGroup.

The bytes begin with their version. A reader treats a version newer than its own as its newest
version, because later versions only append fields.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from struct import Struct as Packer

from kohort.model import TopicPartition
from kohort.wire.codec import (
    DecodeError,
    Int32,
    Message,
    NullableBytes,
    NullableString,
    String,
    Struct,
    array,
    decoder,
    encode,
    message,
    since,
    struct,
)

NEWEST_VERSION = 3

_VERSION = Packer(">h")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics to which a member subscribes, and partitions that it still owns."""

    topics: Sequence[str] = ()
    user_data: bytes | None = None
    """Data of the member for its assignor."""
    owned_partitions: Collection[TopicPartition] = ()
    """Empty before version 1."""
    generation_id: int = -1
    """Generation in which `owned_partitions` were assigned; -1 if unknown, and before version 2 (KIP-792)."""
    rack_id: str | None = None
    """None before version 3 (KIP-881)."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Assignment of a member, as computed by the leader."""

    partitions: Collection[TopicPartition] = ()
    user_data: bytes | None = None


@struct
class ConsumerProtocolPartitions(Struct):
    """Partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = array()


@message(versions=(0, NEWEST_VERSION))
class ConsumerProtocolSubscription(Message):
    """A subscription in wire format."""

    topics: list[String] = array()
    user_data: NullableBytes = None
    owned_partitions: list[ConsumerProtocolPartitions] = since(1, ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: NullableString = since(3, default=None, ignorable=True)


@message(versions=(0, NEWEST_VERSION))
class ConsumerProtocolAssignment(Message):
    """An assignment in wire format, which is the same in all versions."""

    assigned_partitions: list[ConsumerProtocolPartitions] = array()
    user_data: NullableBytes = None


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Encode a subscription. Fields that the version lacks are omitted.

    Topics and partitions are sorted, as by the Java client, so equal subscriptions have equal
    bytes.
    """
    body = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_by_topic(sorted(subscription.owned_partitions)),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _VERSION.pack(version) + encode(body, version)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription. If fields of its version are missing, only those of version 0 are used.

    Raises DecodeError.
    """
    version = _version(data)
    try:
        body, _ = decoder(ConsumerProtocolSubscription, version)(data, _VERSION.size)
    except DecodeError:
        # Some clients specify version 1 but end after the fields of version 0. Kafka accepts them,
        # so a leader must, too.
        if version == 0:
            raise
        body, _ = decoder(ConsumerProtocolSubscription, 0)(data, _VERSION.size)
    return Subscription(body.topics, body.user_data, _flat(body.owned_partitions), body.generation_id, body.rack_id)


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """Encode an assignment."""
    body = ConsumerProtocolAssignment(
        assigned_partitions=_by_topic(assignment.partitions), user_data=assignment.user_data
    )
    return _VERSION.pack(version) + encode(body, version)


def decode_assignment(data: bytes) -> Assignment:
    """Decode an assignment. No bytes mean an empty assignment. Raises DecodeError."""
    # A member that the leader omitted receives no bytes.
    if not data:
        return Assignment([])
    read = decoder(ConsumerProtocolAssignment, _version(data))
    body, _ = read(data, _VERSION.size)
    return Assignment(_flat(body.assigned_partitions), body.user_data)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError("the consumer protocol's bytes lack their version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"the consumer protocol has no version {version}")
    return min(version, NEWEST_VERSION)


def _by_topic(partitions: Collection[TopicPartition]) -> list[ConsumerProtocolPartitions]:
    # The order of a set differs between processes, but the bytes must not.
    ordered = partitions if isinstance(partitions, Sequence) else sorted(partitions)
    numbers = defaultdict[str, list[int]](list)
    for topic, partition in ordered:
        numbers[topic].append(partition)
    return [ConsumerProtocolPartitions(topic=topic, partitions=found) for topic, found in numbers.items()]


def _flat(topics: Iterable[ConsumerProtocolPartitions]) -> list[TopicPartition]:
    return [TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions]
