"""A producer without its face: what `kohort.Producer` and `kohort.blocking.Producer` share."""

import asyncio
import time
from collections.abc import Sequence

from kohort.client import unclosed
from kohort.client.batches import Delivery
from kohort.client.closing import undisturbed
from kohort.client.cluster import Cluster
from kohort.client.failures import BufferFullError, ClosedError
from kohort.client.loops import check_loop
from kohort.client.options import ProducerOptions
from kohort.client.outgoing import check_partition
from kohort.client.producer_topics import ProducerTopics
from kohort.client.sender import Sender
from kohort.client.undelivered import Failures
from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis
from kohort.wire.records import Header


class ProducerCore:
    """Belongs to the event loop in which it was made. `keep` is for one that may outlive its owner's interest: its
    records are written when the loop or the interpreter ends."""

    def __init__(self, options: ProducerOptions, *, keep: bool = True) -> None:
        self.loop = asyncio.get_running_loop()
        self.cluster = Cluster(options)
        self.failures = Failures()
        self.topics = ProducerTopics(self.cluster, options)
        self.closed = False
        self._options = options
        self._sender = Sender(self.cluster, options, self.failures)
        self._gathered = self._sender.accumulator
        self._keeps = keep
        self._keeper: asyncio.Task[None] | None = None

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        timestamp: Millis | None,
        headers: Sequence[Header],
        partition: int | None,
        size: int,
    ) -> Delivery:
        """Queue a record of `size` bytes. Raises BufferFullError, also while the topic is not known."""
        known = self.topics.known.get(topic)
        if known is None:
            raise BufferFullError(f"the partitions of {topic} are not known yet: await ready({topic!r}) first.")
        if partition is None:
            partitioner = known.partitioner
            partition = partitioner.without_key(size) if key is None else partitioner.by_key(key)
        else:
            partition = check_partition(topic, partition, known.partitioner.count)
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        return self._gathered.append(known.queues[partition], timestamp, key, value, headers, size)

    def check_size(self, size: int) -> None:
        """Raise MESSAGE_TOO_LARGE for a record that can never be sent. Any thread may ask."""
        self._gathered.check_size(size)

    async def ready(self, topic: str) -> None:
        """Wait until the topic's partitions are known and the buffer has room. Raises KafkaError after max_block_ms."""
        check_loop(self.loop, "producer")
        if self.closed:
            raise ClosedError("the producer is closed.")
        try:
            async with asyncio.timeout(self._options.max_block_ms / 1000):
                self._keep()
                await self.topics.find(topic)
                await self._gathered.room()
        except TimeoutError:
            refused = self.topics.refusal(topic)
            if refused is not None:
                raise refused from None
            if topic in self.topics.known:
                detail = f"no room for a record to {topic} within max_block_ms: the brokers take records too slowly"
            else:
                why = self.cluster.problem.sentence if self.cluster.problem else "no broker answered in time"
                detail = f"the partitions of {topic} were not found within max_block_ms: {why}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from None

    async def partitions_for(self, topic: str) -> int:
        """Number of the topic's partitions. Raises KafkaError after max_block_ms."""
        check_loop(self.loop, "producer")
        if self.closed:
            raise ClosedError("the producer is closed.")
        self._keep()  # `append` takes records for the topic from now on
        await self.topics.find(topic)
        return self.topics.known[topic].partitioner.count

    def unwritten(self) -> int:
        """Number of records that are not decided."""
        return self._gathered.unwritten()

    async def flush(self, patience: float | None) -> None:
        """Wait until all that is queued now is decided. Raises KafkaError when `patience` seconds have passed, and
        DeliveryFailedError for what failed since the last flush without anybody seeing it."""
        check_loop(self.loop, "producer")
        if not await self._sender.flush(patience):
            detail = f"{self.unwritten()} records are not written after {patience:g} s; the producer still tries"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail)
        self.failures.raise_unseen()

    async def close(self, patience: float | None) -> None:
        """Send what there is for that many seconds (None: as delivery_timeout_ms allows), fail the rest, disconnect."""
        if self.closed:
            return
        check_loop(self.loop, "producer")
        self.closed = True
        try:
            await self._sender.flush(patience)
        finally:
            await undisturbed(self._clean_up())

    async def finish(self, patience: float) -> int:
        """Close a producer that nobody closed; the number of records that were not written."""
        if self.closed:
            return 0
        self.closed = True
        await self._sender.flush(patience)
        lost = self.unwritten()
        self.failures.hand_over()
        await self._clean_up()
        return lost

    async def _clean_up(self) -> None:
        unclosed.forget(self)
        if self._keeper is not None and self._keeper is not asyncio.current_task():
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self.topics.close()
        await self._sender.close()
        await self.cluster.close()
        self.failures.close()

    # -- when the loop ends first

    def _keep(self) -> None:
        if self._keeps and self._keeper is None:
            unclosed.remember(self)
            self._keeper = self.loop.create_task(self._until_the_loop_ends(), name="kohort-unclosed-producer")

    async def _until_the_loop_ends(self) -> None:
        """`asyncio.run` cancels every task before it closes the loop, and waits for those that go on."""
        try:
            await self.loop.create_future()
        except asyncio.CancelledError:
            if self.closed:
                raise
            unclosed.report(await self.finish(unclosed.PATIENCE_S))
