"""Decode `__consumer_offsets` records in bulk, from keys and values as bytes.

Nearly all of them are committed offsets without metadata, for few groups and topics, in the format
of current versions of Kafka and Kohort. Those are read at fixed positions, all others by the compiled
decoders.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from struct import Struct

from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.batches.scanning import Pair
from kohort.wire.codec import DecodeError
from kohort.wire.group_log.group_bytes import decode_key, decode_value
from kohort.wire.group_log.records import CommittedOffset, GroupRecord, group_record

_COMMIT = Struct(">hqibqb")
"""Version, offset, leader epoch, length of the metadata plus one, timestamp, and number of tagged fields."""
_COMMIT_SIZE = _COMMIT.size
_NO_METADATA = 1
_unpack_commit = _COMMIT.unpack_from
_TAGGED_ID = b"\0\x10"
"""Tag 0 with its size."""
_TAGGED_SIZE = _COMMIT_SIZE + len(_TAGGED_ID) + 16
_OFFSET_KEY = b"\0\1"
_partition = Struct(">i").unpack
_new = object.__new__


def decode_group_records(pairs: Iterable[Pair], unreadable: Callable[[DecodeError], None]) -> Iterator[GroupRecord]:
    """Yield the record of each pair, in order.

    Record types of a newer Kafka are skipped, because this version cannot interpret them. Damaged
    records are skipped, too, and `unreadable` is called for each.
    """
    place: bytes | None = None
    names: tuple[str, str] | None = None
    for key, value in pairs:
        if key is not None and value is not None:
            if key[:-4] != place:  # commits arrive in runs of one group and topic
                place = key[:-4]
                names = _group_and_topic(place)
            size = len(value)
            if names is not None and (size == _COMMIT_SIZE or (size == _TAGGED_SIZE and value[24:26] == _TAGGED_ID)):
                version, offset, epoch, metadata, time, tags = _unpack_commit(value)
                if version == 4 and metadata == _NO_METADATA and tags == (size == _TAGGED_SIZE):
                    # Filled without __init__: creating these objects is half of the cost of loading a shard.
                    committed = _new(CommittedOffset)
                    committed.group, committed.topic = names
                    (committed.partition,) = _partition(key[-4:])
                    committed.offset = offset
                    committed.leader_epoch = epoch
                    committed.metadata = ""
                    committed.commit_timestamp = time
                    committed.expire_timestamp = -1
                    committed.topic_id = _topic_id(value[26:]) if tags else NO_TOPIC_ID
                    yield committed
                    continue
        try:
            record = _decode(key or b"", value)
        except DecodeError as error:
            unreadable(error)
        else:
            if record is not None:
                yield record


def _decode(key_bytes: bytes, value_bytes: bytes | None) -> GroupRecord | None:
    """Decode any record; return None for an unknown type. Raises DecodeError."""
    key = decode_key(key_bytes)
    if key is None:
        return None
    return group_record(key, None if value_bytes is None else decode_value(key, value_bytes))


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
