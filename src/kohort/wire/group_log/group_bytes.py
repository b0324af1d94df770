"""Encode and decode keys and values of `__consumer_offsets`.

A key begins with its record type (int16), and a value with its version (int16). The type determines
both schemas.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct as Packer

from kohort.wire.codec import Buffer, DecodeError, Message, decoder, encode, encoder
from kohort.wire.group_log.records import GroupRecord
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


def encode_records(records: Iterable[GroupRecord]) -> list[tuple[bytes, bytes | None]]:
    """Encode the keys and values of the records, in order."""
    return [(encode_key(r.key), None if r.value is None else encode_value(r.value)) for r in records]


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
