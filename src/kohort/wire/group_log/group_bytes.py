"""Encode and decode keys and values of `__consumer_offsets`.

A key begins with its record type (int16), and a value with its version (int16). The type determines
both schemas.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct as Packer
from typing import Protocol

from kohort.wire.codec import Buffer, DecodeError, Message, decoder, encode, encoder
from kohort.wire.messages.group_records import (
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
    """Encode the keys and values of the records, in order.

    Most records of a broker are commits, in runs with the same group and topic. Their common parts
    are encoded once per run.
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
    """Encode a record's key: its type and fields."""
    if type(key) is OffsetCommitKey:
        return _commit_prefix(key.group, key.topic) + _pack_int32(key.partition)
    if isinstance(key, _MEMBER_KEYS):
        return _INT16.pack(key.KEY) + _string(key.group_id) + _string(key.member_id)
    return _INT16.pack(key.KEY) + encode(key, 0)


def encode_value(value: Message) -> bytes:
    """Encode a record's value, in the version that Apache Kafka 4.3 writes."""
    if type(value) is OffsetCommitValue:
        # Only version 1 has an expiration time.
        version = 4 if value.expire_timestamp == -1 else 1
    else:
        # KIP-915 made newer versions flexible. The newest version before them remains readable for
        # old brokers after a downgrade.
        version = 3 if type(value) is GroupMetadataValue else 0
    parts: list[Buffer] = [_INT16.pack(version)]
    encoder(type(value), version)(value, parts)
    return b"".join(parts)


def decode_key(data: bytes) -> Message | None:
    """Decode a record's key; return None for an unknown type. Raises DecodeError."""
    kinds = _KINDS.get(_prefix(data))
    return None if kinds is None else decoder(kinds[0], 0)(data, 2)[0]


def decode_value(key: Message, data: bytes) -> Message:
    """Decode the value of a record with that key. Raises DecodeError, also for an unknown version."""
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
    """Encode a string with its length. Cached, because each step of a member writes its IDs."""
    raw = text.encode("utf-8", "surrogateescape")
    return _INT16.pack(len(raw)) + raw


@lru_cache(maxsize=8192)
def _commit_prefix(group: str, topic: str) -> bytes:
    return _INT16.pack(1) + encode(OffsetCommitKey(group=group, topic=topic), 0)[: -_INT32.size]
