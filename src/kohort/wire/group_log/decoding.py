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
from kohort.wire.group_log.group_bytes import decode_key, decode_value
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

R = TypeVar("R")

_COMMIT = Struct(">hqibqb")
"""Version, offset, leader epoch, length of the metadata plus one, timestamp, and number of tagged fields."""
_COMMIT_SIZE = _COMMIT.size
_unpack_commit = _COMMIT.unpack_from
_TAGGED_ID = b"\0\x10"
"""Tag 0 with its size."""
_TAGGED_SIZE = _COMMIT_SIZE + len(_TAGGED_ID) + 16
_OFFSET_KEY = b"\0\1"
_partition = Struct(">i").unpack_from
_new = object.__new__


def decode_group_records(
    pairs: Iterable[Pair], record: Callable[[Message, Message | None], R], unreadable: Callable[[DecodeError], None]
) -> list[R]:
    """Return `record(key, value)` for each pair, in order.

    Record types of a newer Kafka are skipped, because this version cannot interpret them. Damaged
    records are skipped, too, and `unreadable` is called for each.
    """
    found: list[R] = []
    place: bytes | None = None
    names: tuple[str, str] | None = None
    for key, value in pairs:
        if key is not None and value is not None:
            if key[:-4] != place:  # commits arrive in runs of one group and topic
                place = key[:-4]
                names = _group_and_topic(place)
            if names is not None and (stored := _commit(value)) is not None:
                # Filled without __init__, like the value: creating these objects is most of the cost of loading a
                # shard, and this halves it.
                own = _new(OffsetCommitKey)
                own.group, own.topic = names
                (own.partition,) = _partition(key, len(key) - 4)
                found.append(record(own, stored))
                continue
        try:
            other = decode_key(key or b"")
            message = None if other is None or value is None else decode_value(other, value)
        except DecodeError as error:
            unreadable(error)
        else:
            if other is not None:
                found.append(record(other, message))
    return found


def _commit(data: bytes) -> OffsetCommitValue | None:
    """Decode a committed offset without metadata, as the current versions of Kafka and Kohort write it; else None."""
    size = len(data)
    if size != _COMMIT_SIZE and (size != _TAGGED_SIZE or data[24:26] != _TAGGED_ID):
        return None
    version, offset, epoch, metadata, time, tags = _unpack_commit(data)
    if version != 4 or metadata != 1 or tags != (size != _COMMIT_SIZE):
        return None
    stored = _new(OffsetCommitValue)
    stored.offset = offset
    stored.leader_epoch = epoch
    stored.metadata = ""
    stored.commit_timestamp = time
    stored.expire_timestamp = -1
    stored.topic_id = _topic_id(data[26:]) if tags else NO_TOPIC_ID
    return stored


@lru_cache(maxsize=1 << 16)
def _group_and_topic(start: bytes) -> tuple[str, str] | None:
    """Decode an offset key without its partition. Return None if it is another key, or damaged."""
    if len(start) < 6 or not start.startswith(_OFFSET_KEY):
        return None
    group_end = 4 + int.from_bytes(start[2:4])
    topic_at = group_end + 2
    if topic_at > len(start) or topic_at + int.from_bytes(start[group_end:topic_at]) != len(start):
        return None
    return start[4:group_end].decode("utf-8", "surrogateescape"), start[topic_at:].decode("utf-8", "surrogateescape")


@lru_cache(maxsize=8192)
def _topic_id(data: bytes) -> UUID:
    return UUID(bytes=data)
