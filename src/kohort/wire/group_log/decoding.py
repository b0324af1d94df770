"""Decode `__consumer_offsets` records in bulk, from keys and values as bytes to messages.

Nearly all of them are committed offsets without metadata, for few groups and topics. Those are read
at fixed positions, all others by the compiled decoders.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct
from typing import TypeVar

from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.batches.scanning import Pair
from kohort.wire.codec import DecodeError, Message
from kohort.wire.group_log.group_bytes import decode_key, decode_value, encode_key
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

R = TypeVar("R")

_COMMIT = Struct(">hqibqb")
"""Version, offset, leader epoch, length of the metadata plus one, timestamp, and number of tagged fields."""
_COMMIT_SIZE = _COMMIT.size
_TAGGED_ID = b"\0\x10"
"""Tag 0 with its size."""
_TAGGED_SIZE = _COMMIT_SIZE + len(_TAGGED_ID) + 16
_PARTITION = Struct(">i")
_OFFSET_KEY = b"\0\1"
_new = object.__new__


def decode_group_records(
    pairs: Iterable[Pair], record: Callable[[Message, Message | None], R], unreadable: Callable[[DecodeError], None]
) -> list[R]:
    """Return `record(key, value)` for each pair, in order.

    Record types of a newer Kafka are skipped, because this version cannot interpret them. Damaged
    records are skipped, too, and `unreadable` is called for each.
    """
    found: list[R] = []
    for pair in pairs:
        try:
            key, value = _decode_commit(*pair) or _decode(*pair)
        except DecodeError as error:
            unreadable(error)
        else:
            if key is not None:
                found.append(record(key, value))
    return found


def _decode_commit(key: bytes | None, value: bytes | None) -> tuple[Message, Message] | None:
    """Decode a committed offset without metadata, as the current versions of Kafka and Kohort write it; else None."""
    if key is None or value is None or not key.startswith(_OFFSET_KEY):
        return None
    size = len(value)
    if size != _COMMIT_SIZE and (size != _TAGGED_SIZE or value[24:26] != _TAGGED_ID):
        return None
    version, offset, epoch, metadata, time, tags = _COMMIT.unpack_from(value)
    names = _group_and_topic(key[:-4])
    if version != 4 or metadata != 1 or tags != (size != _COMMIT_SIZE) or names is None:
        return None
    # The objects are filled without __init__: creating them is most of the cost of loading a shard,
    # and this halves it.
    place, stored = _new(OffsetCommitKey), _new(OffsetCommitValue)
    place.group, place.topic = names
    (place.partition,) = _PARTITION.unpack_from(key, len(key) - 4)
    stored.offset = offset
    stored.leader_epoch = epoch
    stored.metadata = ""
    stored.commit_timestamp = time
    stored.expire_timestamp = -1
    stored.topic_id = _topic_id(value[26:]) if tags else NO_TOPIC_ID
    return place, stored


def _decode(key_bytes: bytes | None, value_bytes: bytes | None) -> tuple[Message | None, Message | None]:
    key = decode_key(key_bytes or b"")
    return key, None if key is None or value_bytes is None else decode_value(key, value_bytes)


@lru_cache(maxsize=1 << 16)
def _group_and_topic(prefix: bytes) -> tuple[str, str] | None:
    """Decode the prefix of an offset key, before the partition. Return None if the key has other content."""
    whole = prefix + bytes(4)
    try:
        key = decode_key(whole)
    except DecodeError:
        return None
    assert isinstance(key, OffsetCommitKey)
    return (key.group, key.topic) if encode_key(key) == whole else None


@lru_cache(maxsize=8192)
def _topic_id(data: bytes) -> UUID:
    return UUID(bytes=data)
