"""Kohort's blocking clients with what the adapter needs besides: time limits, and one record at a time."""

import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from kohort.client import ConsumerGroupMetadata, ConsumerRecord, ErrorCode, OffsetAndMetadata
from kohort.client import KafkaError as ProtocolError
from kohort.client.blocking import Admin, Consumer, Producer
from kohort.client.membership import ask_committed
from kohort.model import TopicPartition
from kohort.requests import PartitionResults

T = TypeVar("T")

_POLL_EVERY_S = 0.5
"""Interval at which callbacks run and the group learns that the application polls, while records are buffered."""

_REPORTED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""Errors of topics that do not pass by themselves."""


class LimitedAdmin(Admin):
    """Admin client whose calls end after `limit_s` seconds. It need not be closed."""

    _warns_unclosed = False
    limit_s: float | None = None

    def within(self, limit_s: float | None) -> Self:
        """Set the limit of the calls that follow; None or a negative number for none."""
        self.limit_s = None if limit_s is None or limit_s < 0 else limit_s
        return self

    def stable_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None
    ) -> PartitionResults[OffsetAndMetadata | None]:
        """Return committed offsets, and the errors of partitions whose offset an open transaction may change."""
        cluster = self._admin._cluster
        return self._call(lambda: cluster.retrying(lambda: ask_committed(cluster, group_id, partitions, {})))

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        return super()._call(work, self.limit_s if timeout_s is None else timeout_s)


class OneRecordConsumer(Consumer):
    """Consumer that returns one record at a time. It need not be closed."""

    _warns_unclosed = False
    _limit_s: float | None = None
    poll_at = 0.0
    """Monotonic time from which the next poll must call `next_records`, even while there are records.

    Otherwise an application could take longer than max_poll_interval_ms for all that are buffered.
    """

    def __init__(self, delivered: Callable[[ConsumerRecord], None], **options: Any) -> None:
        self._delivered = delivered
        self._noted: ConsumerRecord | None = None
        super().__init__(**options)
        self._buffered = self._consumer.unread  # the adapter itself calls interceptors

    @property
    def closed(self) -> bool:
        """Whether the consumer is closed."""
        return self._stopped

    @contextmanager
    def within(self, limit_s: float | None) -> Iterator[None]:
        """Limit the calls inside to this many seconds; None or a negative number for no limit."""
        self._limit_s = None if limit_s is None or limit_s < 0 else limit_s
        try:
            yield
        finally:
            self._limit_s = None

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        self.note_delivered()
        return super()._call(work, self._limit_s if timeout_s is None else timeout_s)

    def _stop(self) -> None:
        self.poll_at = 0.0
        super()._stop()

    def _inherit(self) -> None:
        self.poll_at = 0.0
        super()._inherit()

    def _pump(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self.note_delivered()
        return super()._pump(work)

    def next_records(self, timeout_s: float) -> Iterator[ConsumerRecord] | None:
        """Return an iterator over the next records, or None after `timeout_s` seconds.

        A record that it returns counts as delivered. It ends when the client's records change.
        """
        due = time.monotonic() > self.poll_at
        if due:
            self._read_ahead(0.0)
        if (records := self._buffered_records()) is None and (timeout_s > 0 or not due):
            self._read_ahead(timeout_s)
            records = self._buffered_records()
        return records

    def note_delivered(self) -> None:
        """Report the last record that was delivered, unless that has been done."""
        if self._made:
            record = self._buffered.last_handed_out()
            if record is not None and record is not self._noted:
                self._noted = record
                self._delivered(record)

    def _buffered_records(self) -> Iterator[ConsumerRecord] | None:
        self._check_process()
        self.note_delivered()
        return self._buffered.ready if self._buffered.next_run() else None

    def _read_ahead(self, timeout_s: float) -> None:
        self._pump(lambda: self._consumer.read_ahead(timeout_s))
        self.poll_at = time.monotonic() + _POLL_EVERY_S

    @property
    def intercepts(self) -> bool:
        """Whether there are interceptors, which the adapter calls by `asked` and `seen`."""
        return bool(self._consumer.interception)

    def asked(self, most: int) -> None:
        """Report to interceptors that the application asks for records."""
        self._consumer.note_asked(most)

    def seen(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return what interceptors make of the records that the application receives."""
        return self._consumer.interception.on_consume(records)

    def ends_reached(self) -> dict[TopicPartition, int]:
        """Return the positions of the partitions that have no further records as of the last fetch."""

        def find() -> dict[TopicPartition, int]:
            positions = self._consumer.positions()
            return {partition: positions[partition] for partition, lag in self._consumer.lags().items() if lag == 0}

        return self._do(find)

    @property
    def problem(self) -> ProtocolError | None:
        """Error of the last metadata request; None if it succeeded."""
        return self._consumer.cluster.problem

    def rejected_topics(self) -> dict[str, ErrorCode]:
        """Return the topics for which the brokers' last answer was an error, such as those that do not exist."""
        topics = self._consumer.cluster.metadata.topics.values()
        return {topic.name: topic.error for topic in topics if topic.error in _REPORTED and not topic.exists}


class QuietProducer(Producer):
    """Producer that need not be closed."""

    _warns_unclosed = False

    @property
    def problem(self) -> ProtocolError | None:
        """Error of the last metadata request; None if it succeeded."""
        return self._core.cluster.problem

    @property
    def limited(self) -> "LimitedTransactions":
        """Transactions with a time limit for each call. Raises TransactionStateError without a transactional_id."""
        return LimitedTransactions(self, self._core.transactions, self._records)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], limit_s: float | None) -> T:
        """Run a coroutine in the producer's loop. Raises TimeoutError after `limit_s` seconds.

        - `work`: Function that returns the coroutine.
        - `limit_s`: Longest time to wait; None or a negative number for no limit.
        """
        return self._call(work, None if limit_s is None or limit_s < 0 else limit_s)


class LimitedTransactions:
    """Transactions of a producer. A call that did not end in time goes on; the same call waits for it again."""

    def __init__(self, producer: QuietProducer, transactions: Any, records: Any) -> None:
        self._run = producer.run
        self._transactions, self._records = transactions, records

    def initialize(self, limit_s: float | None) -> None:
        """Get the next epoch of the transactional ID. It may be repeated."""
        self._run(self._transactions.initialize_once, limit_s)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata, limit_s: float | None
    ) -> None:
        """Commit offsets with the transaction."""
        self._run(lambda: self._transactions.send_offsets(offsets, group), limit_s)

    def commit(self, limit_s: float | None) -> None:
        """Write all messages and commit."""
        self._run(self._records.commit, limit_s)

    def abort(self, limit_s: float | None) -> None:
        """Abort."""
        self._run(self._records.abort, limit_s)
