"""Fill a shard of the coordinator from its partition: in slices that let other work go on, a million records a second.

Most records of a partition that was not compacted lately are soon replaced. So what is read is compacted here first, a
window at a time: the last record of each key is decoded and replayed, in the order of the log.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice

from kohort.broker.collector import without_collector
from kohort.coordinator import Record
from kohort.log import CorruptBatch
from kohort.log.api import PartitionLog
from kohort.wire.codec import DecodeError
from kohort.wire.compression import BatchError
from kohort.wire.group_log import decode_group_records
from kohort.wire.record_pairs import Pair, decode_pairs
from kohort.wire.records import batches

log = logging.getLogger("kohort.broker")

_READ_BYTES = 256 << 10
_WINDOW_KEYS = 100_000
_SLICE_KEYS = 2_000


async def load(partition: int, partition_log: PartitionLog, replay: Callable[[Iterable[Record]], None]) -> int:
    """Give every record below the stable offset to `replay`, in order, but those that a later one replaces anyway.

    What is damaged is left out and reported: a shard with one unreadable record is better than none. Returns how many
    records were read. Raises OSError where the log cannot be read.
    """
    with without_collector():  # a third of the time
        return await _load(partition, partition_log, replay)


async def _load(partition: int, partition_log: PartitionLog, replay: Callable[[Iterable[Record]], None]) -> int:
    offset, end, count = partition_log.start_offset, partition_log.stable_offset, 0
    newest: dict[bytes | None, bytes | None] = {}
    while offset < end:
        try:
            found = partition_log.read(offset, _READ_BYTES)
        except CorruptBatch as error:
            log.error("skipped a batch of __consumer_offsets-%d: %s", partition, error)
            offset, found = _behind(offset, error.base_offset, error.next_offset, end, 1), ()
        else:
            if not found:
                offset = end  # only gaps follow
        for buffer in found:
            for position, header in batches(buffer):
                records = header.last_offset_delta + 1
                offset = _behind(offset, header.base_offset, header.next_offset, end, records)
                try:
                    _, pairs = decode_pairs(buffer, position)
                except BatchError as error:
                    log.error("skipped a batch of __consumer_offsets-%d: %s", partition, error)
                else:
                    count += len(pairs)
                    _take_in(newest, pairs)
        await asyncio.sleep(0)
        if len(newest) >= _WINDOW_KEYS or offset >= end:
            await _replay(partition, newest, replay)
            newest = {}
    return count


def _behind(offset: int, base_offset: int, next_offset: int, end: int, count: int) -> int:
    """Where to read on behind a batch that was found at `offset`.

    No checksum covers where a batch says that it begins. One that cannot be true must not take along what lies behind.
    """
    return next_offset if offset <= base_offset < next_offset <= end else offset + count


def _take_in(newest: dict[bytes | None, bytes | None], pairs: Iterable[Pair]) -> None:
    """A key that comes again moves to the end: keys stand in the order of their last records."""
    for key, value in pairs:
        newest.pop(key, None)
        newest[key] = value


async def _replay(
    partition: int, newest: dict[bytes | None, bytes | None], replay: Callable[[Iterable[Record]], None]
) -> None:
    def unreadable(error: DecodeError) -> None:
        log.error("skipped an unreadable record of __consumer_offsets-%d: %s", partition, error)

    left = iter(newest.items())
    while some := list(islice(left, _SLICE_KEYS)):
        replay(decode_group_records(some, Record, unreadable))
        await asyncio.sleep(0)
