"""Compaction in the background: the partition with the most to gain first, in short slices of one worker thread."""

import asyncio
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.logs import TopicRules, Topics, Writer
from kohort.errors import KohortError
from kohort.log import Compaction, PartitionLog, Topic
from kohort.model import Millis
from kohort.wire.batches import BatchError


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    rules: TopicRules
    topics: Topics
    writer: Writer

    def wall(self) -> Millis: ...


log = logging.getLogger("kohort.broker")

_SLICE_S = 0.001
"""Seconds that the thread works and then rests, in turn: it shares the interpreter with the event loop."""


class Cleaner:
    """The compaction task of a running broker, and its thread (log.cleaner.threads=1)."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._thread = ThreadPoolExecutor(1, "kohort-cleaner")
        self._stopped = False
        self._uncleanable: set[PartitionLog] = set()
        """Logs with a batch that cannot be decoded; they are not tried again before a restart."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Abandon a compaction in progress and end the thread."""
        self._stopped = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    async def clean(self) -> int:
        """Compact partitions one by one until none is worth it; return how many were compacted."""
        count = 0
        failed: set[PartitionLog] = set()
        while (found := await self._dirtiest(failed)) is not None:
            name, partition_log = found
            if await self._compact(name, partition_log):
                count += 1
            else:
                failed.add(partition_log)
        return count

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.number("log.cleaner.backoff.ms") / 1000)
            if self._broker.config.flag("log.cleaner.enable"):
                try:
                    await self.clean()
                except Exception:  # a bug: the next round may succeed with other logs
                    log.exception("compaction failed")

    async def _dirtiest(self, failed: set[PartitionLog]) -> tuple[str, PartitionLog] | None:
        best: tuple[float, str, PartitionLog] | None = None
        for name, partition_log in self._compacted():
            if partition_log not in failed and partition_log not in self._uncleanable:
                ratio = partition_log.cleanable_ratio(self._broker.wall())
                if ratio > (0 if best is None else best[0]):
                    best = ratio, name, partition_log
            await asyncio.sleep(0)
        return None if best is None else best[1:]

    def _compacted(self) -> Iterator[tuple[str, PartitionLog]]:
        topics = self._broker.topics
        for topic in list(topics.all().values()):
            for partition in range(topic.partitions if self._broker.rules.compacts(topic) else 0):
                found = self._opened(topic, partition)
                if found is not None:
                    yield f"{topic.name}-{partition}", found

    def _opened(self, topic: Topic, partition: int) -> PartitionLog | None:
        try:
            return self._broker.topics.log(topic, partition)
        except (OSError, KohortError) as error:
            log.error("cannot open %s-%d to compact it: %s", topic.name, partition, error)
            return None

    async def _compact(self, name: str, partition_log: PartitionLog) -> bool:
        """Compact the partition; return whether it was compacted. If not, it is not tried again in this round."""
        began = time.monotonic()
        memory = self._broker.config.number("log.cleaner.dedupe.buffer.size")
        try:
            compaction = partition_log.compact(self._broker.wall(), memory)
        except OSError as error:
            log.warning("compaction of %s cannot begin: %s", name, error)
            return False
        try:
            while True:
                await self._in_thread(compaction)
                if not compaction.swap():
                    break
        except BatchError as error:
            log.error("%s cannot be compacted: %s", name, error)
            self._uncleanable.add(partition_log)
            return False
        except OSError as error:
            log.warning("compaction of %s stopped: %s", name, error)
            return False
        finally:
            compaction.close()
            self._broker.writer.current()  # the writer deletes the old segments later
        before, after, taken = compaction.bytes_before, compaction.bytes_after, time.monotonic() - began
        if not before:
            return False  # there was nothing to compact
        log.info("compacted partition=%s from_bytes=%d to_bytes=%d seconds=%.1f", name, before, after, taken)
        return True

    async def _in_thread(self, compaction: Compaction) -> None:
        """Run the compaction's work in the thread; wait for it even when cancelled, so that nothing interferes."""
        working = asyncio.get_running_loop().run_in_executor(self._thread, self._work, compaction)
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait([working])
            raise

    def _work(self, compaction: Compaction) -> None:
        began = time.perf_counter()
        for _ in compaction.work():
            if self._stopped:
                return
            if time.perf_counter() - began > _SLICE_S:
                time.sleep(_SLICE_S)
                began = time.perf_counter()
