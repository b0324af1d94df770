"""What members of the protocol type "consumer" tell one another inside JoinGroup and SyncGroup.

The bytes begin with their version. A reader takes a version that is newer than its own for its newest, since later
ones only append fields.
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
    """What a member asks for, and what it still owns."""

    topics: Sequence[str] = ()
    user_data: bytes | None = None
    """Whatever the member's assignor wants to know of it."""
    owned_partitions: Collection[TopicPartition] = ()
    """Empty below version 1."""
    generation_id: int = -1
    """In which `owned_partitions` were given; -1 for unknown, and below version 2 (KIP-792)."""
    rack_id: str | None = None
    """None below version 3 (KIP-881)."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader gives a member."""

    partitions: Collection[TopicPartition] = ()
    user_data: bytes | None = None


@struct
class ConsumerProtocolPartitions(Struct):
    """Some partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = array()


@message(versions=(0, NEWEST_VERSION))
class ConsumerProtocolSubscription(Message):
    """A subscription as it stands on the wire."""

    topics: list[String] = array()
    user_data: NullableBytes = None
    owned_partitions: list[ConsumerProtocolPartitions] = since(1, ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: NullableString = since(3, default=None, ignorable=True)


@message(versions=(0, NEWEST_VERSION))
class ConsumerProtocolAssignment(Message):
    """An assignment as it stands on the wire; all versions are the same."""

    assigned_partitions: list[ConsumerProtocolPartitions] = array()
    user_data: NullableBytes = None


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """The bytes of a subscription. What the version lacks is left out.

    Topics and partitions are sorted, as Java's client sorts them: who asks for the same again sends the same bytes.
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
    """The subscription that the bytes hold; where fields of their version are missing, what version 0 has.

    Raises DecodeError.
    """
    version = _version(data)
    try:
        body, _ = decoder(ConsumerProtocolSubscription, version)(data, _VERSION.size)
    except DecodeError:
        # Some clients name version 1 and end where version 0 does. Kafka takes them, so a leader has to as well.
        if version == 0:
            raise
        body, _ = decoder(ConsumerProtocolSubscription, 0)(data, _VERSION.size)
    return Subscription(body.topics, body.user_data, _flat(body.owned_partitions), body.generation_id, body.rack_id)


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """The bytes of an assignment."""
    body = ConsumerProtocolAssignment(
        assigned_partitions=_by_topic(assignment.partitions), user_data=assignment.user_data
    )
    return _VERSION.pack(version) + encode(body, version)


def decode_assignment(data: bytes) -> Assignment:
    """The assignment that the bytes hold; no bytes at all mean an empty one. Raises DecodeError."""
    # A member that the leader forgot is answered with no bytes.
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
    # A set's order changes from process to process; bytes must not.
    ordered = partitions if isinstance(partitions, Sequence) else sorted(partitions)
    numbers = defaultdict[str, list[int]](list)
    for topic, partition in ordered:
        numbers[topic].append(partition)
    return [ConsumerProtocolPartitions(topic=topic, partitions=found) for topic, found in numbers.items()]


def _flat(topics: Iterable[ConsumerProtocolPartitions]) -> list[TopicPartition]:
    return [TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions]
