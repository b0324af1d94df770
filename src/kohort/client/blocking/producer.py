"""`kohort.Producer` for plain threads: records are handed to the loop many at a time, not one call each."""

import time
from collections.abc import Sequence
from typing import Any

from kohort.client import unclosed
from kohort.client.arguments import names_of, seconds
from kohort.client.batches import RecordMetadata
from kohort.client.blocking.hand_over import HandOver, PendingDelivery
from kohort.client.blocking.loop import Face, made
from kohort.client.outgoing import check_partition, check_timestamp, record_size
from kohort.client.producer import producer_options
from kohort.client.producer_core import ProducerCore
from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis
from kohort.wire.records import Header

_MOST_HANDED_OVER = 20_000
"""Records that a producer's threads may be ahead of its loop."""


class BlockingDelivery:
    """The fate of one record; `result` waits for it.

    A failure that nobody looks at by `result` is raised by the producer's next `flush`, and logged.
    """

    __slots__ = ("_pending", "_producer")

    def __init__(self, producer: "Producer", pending: PendingDelivery) -> None:
        self._producer = producer
        self._pending = pending

    def done(self) -> bool:
        """Whether it is decided."""
        return self._pending.done()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where it was written. Raises the KafkaError that kept it from being written, and REQUEST_TIMED_OUT if it is
        not decided after `timeout` seconds: it may still be written then."""
        if self._pending.done():
            return self._pending.outcome()
        return self._producer.wait_for(self._pending, None if timeout is None else seconds("timeout", timeout))


class Producer(Face):
    """`kohort.Producer` for plain threads: use it as a context manager, or close it.

    An exception that leaves the `with` block does not wait for deliveries, as in `kohort.Producer`.

    Any number of threads may use one. A process that was forked from this one needs a producer of its own: there the
    methods raise ConcurrentUseError. A producer that nobody closes warns (ResourceWarning) when it is garbage, and its
    records are still sent: for up to ten seconds when the interpreter ends, after which standard error says how many
    were not written. A process that ends by a signal or `os._exit` loses them.
    """

    def __init__(self, **options: Any) -> None:
        read = producer_options(options)
        super().__init__("kohort-producer")
        try:
            self._core = self._call(made(lambda: ProducerCore(read, keep=False)))
        except BaseException:
            self._stop()
            raise
        self._records = HandOver(self._thread, self._core)

    def __exit__(self, *exc: object) -> None:
        self.close(timeout=0.0 if any(one is not None for one in exc) else None)

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> BlockingDelivery:
        """Queue a record; waits only while the producer is far behind. See `kohort.Producer.send`.

        Raises at once what can be known at once: a record that is not bytes or too large, and a partition that the
        topic does not have, once the producer knows the topic.
        """
        if self._stopped:
            raise self._refusal()
        if type(topic) is not str or not topic:
            names_of([topic])
        size = record_size(key, value, headers)
        self._core.check_size(size)
        if partition is not None:
            partition = check_partition(topic, partition, self._core.topics.count(topic))
        timestamp = time.time_ns() // 1_000_000 if timestamp is None else check_timestamp(timestamp)
        # The caller may change a bytearray or a list before the loop packs the record.
        value = value if value is None or type(value) is bytes else bytes(value)
        key = key if key is None or type(key) is bytes else bytes(key)
        pending = PendingDelivery()
        self._records.put((pending, topic, value, key, timestamp, tuple(headers), partition, size))
        if len(self._records) > _MOST_HANDED_OVER:
            self._call(self._records.done())
        return BlockingDelivery(self, pending)

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until everything sent so far is written or has failed. See `kohort.Producer.flush`."""
        self._call(self._records.flush(None if timeout is None else seconds("timeout", timeout)))

    def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has."""
        return self._call(self._core.partitions_for(topic))

    def close(self, *, timeout: float | None = None) -> None:
        """Flush, then disconnect. See `kohort.Producer.close`. Closing twice is fine."""
        patience = None if timeout is None else seconds("timeout", timeout)
        if self._stopped:
            return
        try:
            self._call(self._records.close(patience))
        finally:
            self._stop()

    def wait_for(self, pending: PendingDelivery, patience: float | None) -> RecordMetadata:
        """Wait until it is decided."""
        try:
            return self._call(self._records.decided(pending), patience)
        except TimeoutError:
            detail = f"the record is not decided after {patience:g} s; it may still be written"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from None

    def _abandon(self) -> None:
        unclosed.abandoned(self._records, self._thread.stop_soon)
