"""A producer's records until they are acknowledged: in batches, by partition."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import NamedTuple

from kohort.client.undelivered import Failure
from kohort.errors import KafkaError, KohortError
from kohort.model import Millis, TopicPartition
from kohort.wire.records import BatchBuilder, Codec

NO_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Where a record was written. The offset is -1 where the broker does not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: Millis | None
    """When the broker set it (LogAppendTime); None where the record keeps its own."""


class ProducerId(NamedTuple):
    """KIP-98: with a sequence number it lets the broker drop what it has already."""

    id: int
    epoch: int


class Batch:
    """Records of one partition that are written together or not at all."""

    __slots__ = (
        "_encoded",
        "attempts",
        "base_offset",
        "builder",
        "deadline_at",
        "done",
        "failure",
        "lingers_until",
        "log_append_time",
        "partition",
        "producer_id",
        "sequence",
        "size",
    )

    def __init__(self, partition: TopicPartition, lingers_until: float, deadline_at: float) -> None:
        self.partition = partition
        self.builder = BatchBuilder()
        self.lingers_until = lingers_until
        self.deadline_at = deadline_at
        self.size = 0
        """Of the buffer memory."""
        self.attempts = 0
        self.base_offset = NO_OFFSET
        self.log_append_time: Millis | None = None
        self.producer_id: ProducerId | None = None
        self.sequence = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failure: Failure | None = None
        self._encoded: bytearray | None = None

    @property
    def count(self) -> int:
        return self.builder.count

    def number(self, producer_id: ProducerId | None, sequence: int) -> None:
        """Give it its place in the producer's sequence; a retry must keep it, or the broker could not know it."""
        self.producer_id, self.sequence = producer_id, sequence
        self._encoded = None

    def encoded(self, codec: Codec) -> bytearray:
        """The bytes to send, the same for every attempt."""
        if self._encoded is None:
            if self.producer_id is None:
                self._encoded = self.builder.build(codec)
            else:
                self._encoded = self.builder.build(
                    codec,
                    producer_id=self.producer_id.id,
                    producer_epoch=self.producer_id.epoch,
                    base_sequence=self.sequence,
                )
        return self._encoded

    def succeed(self, base_offset: int, log_append_time: Millis | None) -> None:
        """Every record of it is written."""
        self.base_offset, self.log_append_time = base_offset, log_append_time
        self.builder = BatchBuilder()
        self._encoded = None
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, failure: Failure) -> None:
        """None of it is known to be written."""
        self._encoded = None
        if not self.done.done():
            self.failure = failure
            self.done.set_exception(failure.error)
            self.done.exception()  # `failure` counts the deliveries that nobody looks at


class Delivery:
    """The fate of one record: await it for its RecordMetadata, or the KafkaError that kept it from being written.

    A failure that nobody looks at, by `await` or `result`, is raised by the producer's next `flush`, and logged.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self._batch.done.done():
            with suppress(KohortError):  # `result` raises it
                yield from asyncio.shield(self._batch.done).__await__()
        return self.result()

    def done(self) -> bool:
        """Whether it is decided."""
        return self._batch.done.done()

    def result(self) -> RecordMetadata:
        """What awaiting it gives, once it is decided."""
        batch = self._batch
        if batch.failure is not None:
            raise batch.failure.see(self._index)
        batch.done.result()
        offset = NO_OFFSET if batch.base_offset == NO_OFFSET else batch.base_offset + self._index
        return RecordMetadata(*batch.partition, offset, batch.log_append_time)

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Call it with this delivery, in the event loop, when it is decided."""
        self._batch.done.add_done_callback(lambda _: callback(self))


class PartitionQueue:
    """The batches of one partition, oldest first. One is under way at most, so their order cannot change.

    The newest goes on filling while it waits for the one before it: a slow broker gets fewer and larger batches.
    """

    __slots__ = ("in_flight", "next_sequence", "open", "partition", "problem", "producer_id", "retry_at", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[Batch] = deque()
        self.open: Batch | None = None
        """The newest, which still takes records; it is not in `waiting`."""
        self.in_flight: Batch | None = None
        self.retry_at = 0.0
        self.problem: KafkaError | None = None
        """Why its oldest batch was not written so far."""
        self.producer_id: ProducerId | None = None
        self.next_sequence = 0

    def ready(self, now: float, *, flushing: bool, batch_size: int) -> bool:
        """Whether a batch may go out now."""
        if self.in_flight is not None or now < self.retry_at:
            return False
        if self.waiting:
            return True
        newest = self.open
        return newest is not None and (flushing or newest.builder.size >= batch_size or newest.lingers_until <= now)

    def take(self, producer_id: ProducerId | None) -> Batch:
        """The batch to send, numbered."""
        assert self.in_flight is None
        if self.waiting:
            batch = self.waiting.popleft()
        else:
            assert self.open is not None
            batch, self.open = self.open, None
        if batch.attempts == 0:
            if self.producer_id != producer_id:
                self.producer_id, self.next_sequence = producer_id, 0
            batch.number(producer_id, self.next_sequence)
            self.next_sequence = (self.next_sequence + batch.count) & 0x7FFFFFFF
        batch.attempts += 1
        self.in_flight = batch
        return batch

    def put_back(self, retry_at: float) -> None:
        """The batch under way goes out again, before all others."""
        assert self.in_flight is not None
        self.waiting.appendleft(self.in_flight)
        self.in_flight = None
        self.retry_at = retry_at

    def refused(self) -> None:
        """The broker said that it wrote nothing of the batch under way: its sequence numbers are free."""
        assert self.in_flight is not None
        if self.in_flight.producer_id == self.producer_id:
            self.next_sequence = self.in_flight.sequence

    def take_waiting(self) -> list[Batch]:
        """Take out all but the batch under way."""
        found = [*self.waiting]
        if self.open is not None:
            found.append(self.open)
        self.waiting.clear()
        self.open = None
        return found

    def batches(self) -> list[Batch]:
        """All that are not decided."""
        found = [*self.waiting]
        if self.in_flight is not None:
            found.insert(0, self.in_flight)
        if self.open is not None:
            found.append(self.open)
        return found
