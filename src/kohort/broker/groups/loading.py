"""Load a shard of the coordinator from its partition, in slices that let other work run: a million records a second.

In a partition that was not compacted lately, later records replace most of the earlier ones. So the loader compacts
what it reads, one window at a time: it decodes and replays only the last record of each key, in the order of the log.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice

from kohort.broker.garbage_collection import without_collector
from kohort.coordinator import Record
from kohort.log import CorruptBatch, PartitionLog
from kohort.wire.batches import BatchError, batches
from kohort.wire.batches.scanning import Pair, decode_pairs
from kohort.wire.codec import DecodeError
from kohort.wire.group_log import decode_group_records

log = logging.getLogger("kohort.broker")

_READ_BYTES = 256 << 10
_WINDOW_KEYS = 100_000
_SLICE_KEYS = 2_000


async def load(partition: int, partition_log: PartitionLog, replay: Callable[[Iterable[Record]], None]) -> int:
    """Pass every record below the stable offset to `replay`, in order; skip records that a later record replaces.

    Damaged records are skipped and logged: a shard with one unreadable record is better than none. Return the number of
    records read. Raise OSError if the log cannot be read.
    """
    with without_collector():  # the collector would take a third of the time
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
                offset = end  # the rest is gaps
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
                    _apply_batch(newest, pairs)
        await asyncio.sleep(0)
        if len(newest) >= _WINDOW_KEYS or offset >= end:
            await _replay(partition, newest, replay)
            newest = {}
    return count


def _behind(offset: int, base_offset: int, next_offset: int, end: int, count: int) -> int:
    """Return the offset at which to read on after a batch that was found at `offset`.

    No checksum covers a batch's base offset. An impossible value must not cause later batches to be skipped.
    """
    return next_offset if offset <= base_offset < next_offset <= end else offset + count


def _apply_batch(newest: dict[bytes | None, bytes | None], pairs: Iterable[Pair]) -> None:
    """Add pairs to `newest`. A repeated key moves to the end, so keys are in the order of their last records."""
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
