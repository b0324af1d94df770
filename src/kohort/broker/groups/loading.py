"""Load a shard of the coordinator from its partition, in slices that let other work run: a million records a second.

In a partition that was not compacted lately, later records replace most of the earlier ones. So the loader compacts
what it reads, one window at a time: it decodes and replays only the last record of each key, in the order of the log.
A window ends before each batch of a transaction and before each marker, because their order decides.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol

from kohort.broker.garbage_collection import without_collector
from kohort.log import CorruptBatch, PartitionLog
from kohort.wire.batches import BatchError, BatchHeader, batches, read_marker
from kohort.wire.batches.scanning import Pair, decode_pairs
from kohort.wire.codec import Buffer

log = logging.getLogger("kohort.broker")

_READ_BYTES = 256 << 10
_WINDOW_KEYS = 100_000
_SLICE_KEYS = 2_000


class Contents(Protocol):
    """What replays a partition's records into the state of a shard."""

    def replay(self, pairs: Sequence[Pair]) -> None:
        """Apply records."""

    def replay_pending(self, pairs: Sequence[Pair], producer_id: int) -> None:
        """Apply the records of a transactional batch."""

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """Apply the marker that ends a producer's transaction."""


async def load(name: str, partition_log: PartitionLog, contents: Contents) -> int:
    """Pass every record below the stable offset to `contents`, in order; skip records that a later record replaces.

    Damaged records are skipped and logged: a shard with one unreadable record is better than none. Return the number of
    records read. Raise OSError if the log cannot be read.
    """
    with without_collector():  # the collector would take a third of the time
        return await _Load(name, partition_log, contents).run()


class _Load:
    def __init__(self, name: str, partition_log: PartitionLog, contents: Contents) -> None:
        self._name = name
        """Topic and partition, for the log."""
        self._log = partition_log
        self._contents = contents
        self._newest: dict[bytes | None, bytes | None] = {}
        self._count = 0

    async def run(self) -> int:
        offset, end = self._log.start_offset, self._log.stable_offset
        while offset < end:
            try:
                found = self._log.read(offset, _READ_BYTES)
            except CorruptBatch as error:
                log.error("skipped a batch of %s: %s", self._name, error)
                offset, found = _behind(offset, error.base_offset, error.next_offset, end, 1), ()
            else:
                if not found:
                    offset = end  # the rest is gaps
            for buffer in found:
                for position, header in batches(buffer):
                    records = header.last_offset_delta + 1
                    offset = _behind(offset, header.base_offset, header.next_offset, end, records)
                    try:
                        await self._take(buffer, position, header)
                    except BatchError as error:
                        log.error("skipped a batch of %s: %s", self._name, error)
            await asyncio.sleep(0)
            if len(self._newest) >= _WINDOW_KEYS or offset >= end:
                await self._replay()
        return self._count

    async def _take(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        if header.is_control:
            await self._replay()
            marker = read_marker(memoryview(buffer)[position:])
            if marker is not None:
                self._contents.replay_end(header.producer_id, committed=marker.committed)
            return
        _, pairs = decode_pairs(buffer, position)
        self._count += len(pairs)
        if header.is_transactional:
            await self._replay()
            self._contents.replay_pending(pairs, header.producer_id)
        else:
            _apply_batch(self._newest, pairs)

    async def _replay(self) -> None:
        """Replay the window, and begin the next one."""
        newest, self._newest = self._newest, {}
        left = iter(newest.items())
        while some := list(islice(left, _SLICE_KEYS)):
            self._contents.replay(some)
            await asyncio.sleep(0)


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
