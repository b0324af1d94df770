"""Keys and values of `__consumer_offsets` as bytes, and back.

A record's key begins with its type (int16), its value with the value's version (int16); the type names both schemas.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct as Packer
from typing import Protocol

from kohort.wire.codec import Buffer, DecodeError, Message, decoder, encode, encoder
from kohort.wire.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)

_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    key.KEY: (key, value)
    for key, value in (
        (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
        (OffsetCommitKey, OffsetCommitValue),
        (GroupMetadataKey, GroupMetadataValue),
        (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
        (ShareGroupMetadataKey, ShareGroupMetadataValue),
    )
}

_INT16 = Packer(">h")
_INT32 = Packer(">i")


class KeyAndValue(Protocol):
    """A record of a coordinator."""

    key: Message
    value: Message | None


def encode_records(records: Iterable[KeyAndValue]) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of the records, in order.

    Commits are most of what a broker writes, and come in runs of one group and topic: what they share is made once.
    """
    encoded: list[tuple[bytes, bytes | None]] = []
    run_group = run_topic = run_id = None
    prefix = tail = b""
    for record in records:
        key, value = record.key, record.value
        if type(key) is not OffsetCommitKey:
            encoded.append((encode_key(key), None if value is None else encode_value(value)))
            continue
        if key.topic is not run_topic or key.group is not run_group:
            run_group, run_topic = key.group, key.topic
            prefix = _commit_prefix(run_group, run_topic)
        if value is None:
            encoded.append((prefix + _pack_int32(key.partition), None))
            continue
        assert type(value) is OffsetCommitValue
        if value.topic_id is not run_id:
            run_id = value.topic_id
            # One tagged field: tag 0, 16 bytes.
            tail = b"\1\0\x10" + run_id.bytes if run_id.int else b"\0"
        if value.metadata or value.expire_timestamp != -1:
            packed = encode_value(value)
        else:
            packed = _pack_commit(4, value.offset, value.leader_epoch, 1, value.commit_timestamp) + tail
        encoded.append((prefix + _pack_int32(key.partition), packed))
    return encoded


def encode_key(key: Message) -> bytes:
    """A record's key: its type and its fields."""
    if type(key) is OffsetCommitKey:
        return _commit_prefix(key.group, key.topic) + _pack_int32(key.partition)
    if isinstance(key, _MEMBER_KEYS):
        return _INT16.pack(key.KEY) + _string(key.group_id) + _string(key.member_id)
    return _INT16.pack(key.KEY) + encode(key, 0)


def encode_value(value: Message) -> bytes:
    """A record's value, in the version that Apache Kafka 4.3 writes."""
    if type(value) is OffsetCommitValue:
        # A time to live fits version 1 only.
        version = 4 if value.expire_timestamp == -1 else 1
    else:
        # KIP-915 made these flexible, but the newest that is not is what old brokers can read after a downgrade.
        version = 3 if type(value) is GroupMetadataValue else 0
    parts: list[Buffer] = [_INT16.pack(version)]
    encoder(type(value), version)(value, parts)
    return b"".join(parts)


def decode_key(data: bytes) -> Message | None:
    """A record's key; None for a type that we do not know. Raises DecodeError."""
    kinds = _KINDS.get(_prefix(data))
    return None if kinds is None else decoder(kinds[0], 0)(data, 2)[0]


def decode_value(key: Message, data: bytes) -> Message:
    """The value that belongs to that key. Raises DecodeError, also for a version that we do not know."""
    return decoder(_KINDS[key.KEY][1], _prefix(data))(data, 2)[0]


def _prefix(data: bytes) -> int:
    if len(data) < 2:
        raise DecodeError("a record of __consumer_offsets lacks its type or version")
    prefix: int = _INT16.unpack_from(data)[0]
    return prefix


_pack_int32 = _INT32.pack
_pack_commit = Packer(">hqiBq").pack


_MEMBER_KEYS = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupMemberMetadataKey,
)


@lru_cache(maxsize=8192)
def _string(text: str) -> bytes:
    """A string with its length. A member's ids are written with each step that it takes."""
    raw = text.encode("utf-8", "surrogateescape")
    return _INT16.pack(len(raw)) + raw


@lru_cache(maxsize=8192)
def _commit_prefix(group: str, topic: str) -> bytes:
    return _INT16.pack(1) + encode(OffsetCommitKey(group=group, topic=topic), 0)[: -_INT32.size]
