"""A producer's unacknowledged records, in batches by partition."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import NamedTuple

from kohort.client.produce.failed_deliveries import Failure
from kohort.errors import KafkaError, KohortError
from kohort.model import Millis, TopicPartition
from kohort.requests import ProducerId
from kohort.wire.batches import HEADER_SIZE, BatchBuilder, Codec

NO_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Topic, partition and offset of a written record. The offset is -1 if unknown (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: Millis | None
    """Timestamp set by the broker (LogAppendTime); None if the record keeps its own."""


class Batch:
    """Records of one partition that are written together or not at all."""

    __slots__ = (
        "_encoded",
        "_slack",
        "attempts",
        "base_offset",
        "builder",
        "deadline_at",
        "done",
        "failure",
        "filled",
        "largest",
        "lingers_until",
        "log_append_time",
        "on_done",
        "opened_at",
        "partition",
        "producer_id",
        "sequence",
    )

    def __init__(self, partition: TopicPartition, loop: asyncio.AbstractEventLoop) -> None:
        self.partition = partition
        self.builder = BatchBuilder()
        self.lingers_until = self.deadline_at = math.inf
        self.opened_at = math.inf
        self.filled = HEADER_SIZE
        """Size in bytes before compression, not less than in the request."""
        self._slack = -HEADER_SIZE
        self.largest = 0
        """Size of the largest record, in bytes of buffer memory."""
        self.attempts = 0
        self.base_offset: int
        """Offset of the first record, set by `succeed`."""
        self.log_append_time: Millis | None = None
        self.producer_id: ProducerId | None = None
        self.sequence: int
        """Sequence number of the first record, set by `number`."""
        self.done: asyncio.Future[None] = loop.create_future()
        self.on_done: Callable[[Batch], object] | None = None
        self.failure: Failure | None = None
        self._encoded: bytearray | None = None

    @property
    def count(self) -> int:
        return self.builder.count

    @property
    def size(self) -> int:
        """Bytes of buffer memory used."""
        return self.filled + self._slack

    def measure(self) -> None:
        """Set `filled` to the actual size."""
        self.builder.pack()
        self._slack += self.filled - self.builder.size
        self.filled = self.builder.size

    def number(self, producer_id: ProducerId | None, sequence: int) -> None:
        """Set the batch's producer ID and sequence number.

        A retry must keep them; otherwise the broker cannot recognize a duplicate.
        """
        self.producer_id, self.sequence = producer_id, sequence
        self._encoded = None

    def encoded(self, codec: Codec, *, transactional: bool = False) -> bytearray:
        """Return the bytes to send, which are the same for every attempt."""
        if self._encoded is None:
            if self.producer_id is None:
                self._encoded = self.builder.build(codec)
            else:
                self._encoded = self.builder.build(
                    codec,
                    producer_id=self.producer_id.id,
                    producer_epoch=self.producer_id.epoch,
                    base_sequence=self.sequence,
                    transactional=transactional,
                )
        return self._encoded

    @property
    def encoded_size(self) -> int:
        """Size of the bytes to send; 0 before `encoded`."""
        return 0 if self._encoded is None else len(self._encoded)

    def succeed(self, base_offset: int, log_append_time: Millis | None) -> None:
        """Complete all deliveries of this batch as written."""
        self.base_offset, self.log_append_time = base_offset, log_append_time
        self.builder = BatchBuilder()
        self._encoded = None
        if not self.done.done():
            self.done.set_result(None)
            if self.on_done is not None:
                self.on_done(self)

    def fail(self, failure: Failure) -> None:
        """Fail all deliveries of this batch, because it is not known to be written."""
        self._encoded = None
        if not self.done.done():
            self.failure = failure
            self.done.set_exception(failure.error)
            self.done.exception()  # `failure` counts the deliveries whose errors are never retrieved
            if self.on_done is not None:
                self.on_done(self)

    def when_done(self, call: "Callable[[Batch], object]") -> None:
        """Call `call` once or twice when the batch is written or has failed. Any thread may set it, once."""
        self.on_done = call
        if self.done.done():
            call(self)


class BatchedRecord:
    """Place of a record in a batch."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Return whether the record is written or has failed."""
        return self._batch.done.done()

    def failed(self) -> bool:
        """Return whether the record has failed. The failure still counts as unchecked."""
        return self._batch.failure is not None

    @property
    def error(self) -> Exception | None:
        """Error of a failed record, or None. The failure still counts as unchecked."""
        failure = self._batch.failure
        return None if failure is None else failure.error

    def _outcome(self) -> RecordMetadata:
        batch = self._batch
        if batch.failure is not None:
            raise batch.failure.see(self._index)
        batch.done.result()
        offset = NO_OFFSET if batch.base_offset == NO_OFFSET else batch.base_offset + self._index
        return RecordMetadata(*batch.partition, offset, batch.log_append_time)


class Delivery(BatchedRecord):
    """Result of one `send`. Await it for the RecordMetadata, or the KafkaError that prevented the write.

    If neither `await` nor `result` retrieves a failure, the producer's next `flush` raises it, and
    it is logged.
    """

    __slots__ = ()

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self._batch.done.done():
            with suppress(KohortError):  # `result` raises it
                yield from asyncio.shield(self._batch.done).__await__()
        return self.result()

    def result(self) -> RecordMetadata:
        """Return the RecordMetadata or raise the error, as awaiting does. Requires `done`."""
        return self._outcome()

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Call `callback` with this delivery in the event loop once the record is written or has failed."""
        self._batch.done.add_done_callback(lambda _: callback(self))


def delivery_of(record: BatchedRecord) -> Delivery:
    """Return a record's delivery for the event loop."""
    return Delivery(record._batch, record._index)


class PartitionQueue:
    """Batches of one partition, oldest first.

    At most one is in flight, so their order cannot change. The newest batch keeps filling while it
    waits for the one before it, so a slow broker receives fewer and larger batches.
    """

    __slots__ = ("in_flight", "next_sequence", "open", "partition", "problem", "producer_id", "retry_at", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[Batch] = deque()
        self.open: Batch | None = None
        """Newest batch, which still accepts records; it is not in `waiting`."""
        self.in_flight: Batch | None = None
        self.retry_at = 0.0
        self.problem: KafkaError | None = None
        """Reason why the oldest batch has not been written so far."""
        self.producer_id: ProducerId | None = None
        self.next_sequence = 0

    def ready(self, now: float, *, flushing: bool, batch_size: int) -> bool:
        """Return whether a batch may be sent now."""
        if self.in_flight is not None or now < self.retry_at:
            return False
        if self.waiting:
            return True
        newest = self.open
        return newest is not None and (flushing or newest.filled >= batch_size or newest.lingers_until <= now)

    @property
    def next_size(self) -> int:
        """Size in bytes of the batch that `take` returns next, before compression."""
        batch = self.waiting[0] if self.waiting else self.open
        assert batch is not None
        return batch.size

    @property
    def deadline_at(self) -> float:
        """Time at which the oldest batch that is not in flight expires. Requires such a batch."""
        batch = self.waiting[0] if self.waiting else self.open
        assert batch is not None
        return batch.deadline_at

    def take(self, producer_id: ProducerId | None) -> Batch:
        """Remove and return the next batch to send, with its sequence number set."""
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
        """Return the in-flight batch to the front of the queue, to be sent again."""
        assert self.in_flight is not None
        self.waiting.appendleft(self.in_flight)
        self.in_flight = None
        self.retry_at = retry_at

    def refused(self) -> None:
        """Release the sequence numbers of the in-flight batch, because the broker wrote none of it."""
        assert self.in_flight is not None
        if self.in_flight.producer_id == self.producer_id:
            self.next_sequence = self.in_flight.sequence

    def take_waiting(self) -> list[Batch]:
        """Remove and return all batches except the in-flight one."""
        found = [*self.waiting]
        if self.open is not None:
            found.append(self.open)
        self.waiting.clear()
        self.open = None
        return found

    def batches(self) -> list[Batch]:
        """Return all batches, oldest first."""
        found = [*self.waiting]
        if self.in_flight is not None:
            found.insert(0, self.in_flight)
        if self.open is not None:
            found.append(self.open)
        return found
