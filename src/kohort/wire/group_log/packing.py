"""Encode records of `__consumer_offsets` as they are in a batch, while a shard appends them.

Most records of a broker are commits, in runs with the same group and topic. The records of a run
differ only in partition, offset, epoch and time, so one `pack` writes each of them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct as Packer
from typing import NamedTuple

from kohort.wire.batches import pack_record, signed_varint, signed_varints
from kohort.wire.group_log.group_bytes import encode_key, encode_value
from kohort.wire.group_log.records import CommittedOffset, GroupRecord
from kohort.wire.messages.group_records import OffsetCommitKey

_PARTITION_SIZE = 4
_COMMIT_VERSION = b"\0\4"
_NO_METADATA = 1
"""Length of an empty compact string, plus one."""
_COMMIT_SIZE = 23
"""Size of a commit's value up to its tagged fields: version, offset, epoch, empty metadata and time."""


class _Run(NamedTuple):
    """What the records of commits to one topic have in common, if their offset deltas have the same size."""

    start: bytes
    """Length of the record, attributes and timestamp delta."""
    key: bytes
    """Length of the key, and the key up to the partition."""
    value: bytes
    """Length of the value, and its version."""
    end: bytes
    """Tagged fields of the value, and the number of headers."""
    pack: Callable[..., bytes]


def pack_records(records: Sequence[GroupRecord], first: int) -> list[bytes]:
    """Encode records for `pack_batch`, with offset deltas from `first` on."""
    packed: list[bytes] = []
    group = topic = topic_id = None
    delta_size = 0
    for delta, record in zip(signed_varints(first, first + len(records)), records, strict=True):
        if type(record) is not CommittedOffset or record.metadata or record.expire_timestamp != -1:
            value = record.value
            packed.append(pack_record(delta, encode_key(record.key), None if value is None else encode_value(value)))
            continue
        if (
            record.topic is not topic
            or record.group is not group
            or record.topic_id is not topic_id
            or len(delta) != delta_size
        ):
            group, topic, topic_id, delta_size = record.group, record.topic, record.topic_id, len(delta)
            start, names, version, end, pack = _run(group, topic, topic_id.int, delta_size)
        offset, epoch, time = record.offset, record.leader_epoch, record.commit_timestamp
        packed.append(pack(start, delta, names, record.partition, version, offset, epoch, _NO_METADATA, time, end))
    return packed


@lru_cache(maxsize=8192)
def _run(group: str, topic: str, topic_id: int, delta_size: int) -> _Run:
    """Return the run of a topic; its ID is a number, because hashing a UUID would cost half of the look-up."""
    names = encode_key(OffsetCommitKey(group=group, topic=topic))[:-_PARTITION_SIZE]
    key = signed_varint(len(names) + _PARTITION_SIZE) + names
    tags = b"\1\0\x10" + topic_id.to_bytes(16) if topic_id else b"\0"  # one tagged field: tag 0, 16 bytes
    value = signed_varint(_COMMIT_SIZE + len(tags)) + _COMMIT_VERSION
    end = tags + b"\0"
    size = 2 + delta_size + len(key) + _PARTITION_SIZE + len(value) - len(_COMMIT_VERSION) + _COMMIT_SIZE + len(end)
    start = signed_varint(size) + b"\0\0"
    layout = f">{len(start)}s{delta_size}s{len(key)}si{len(value)}sqibq{len(end)}s"
    return _Run(start, key, value, end, _packer(layout))


@lru_cache(maxsize=1024)
def _packer(layout: str) -> Callable[..., bytes]:
    return Packer(layout).pack
