"""Kohort's blocking clients with what the adapter needs besides: time limits, and one record at a time."""

import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from kohort.client import ConsumerRecord, ErrorCode
from kohort.client import KafkaError as ProtocolError
from kohort.client.blocking import Admin, Consumer, Producer
from kohort.model import TopicPartition

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

    def _call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        return super()._call(work, self.limit_s if timeout_s is None else timeout_s)


class OneRecordConsumer(Consumer):
    """Consumer that returns one record at a time. It need not be closed."""

    _warns_unclosed = False
    _limit_s: float | None = None
    _polled_at = 0.0

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

    def _call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        return super()._call(work, self._limit_s if timeout_s is None else timeout_s)

    def buffered_record(self) -> ConsumerRecord | None:
        """Return the next record if it is here and no callback may be due."""
        # An application may take longer than max_poll_interval_ms for all records that are buffered.
        if time.monotonic() - self._polled_at > _POLL_EVERY_S:
            return None
        return self._next_buffered()

    def next_record(self, timeout_s: float) -> ConsumerRecord | None:
        """Return the next record, or None after `timeout_s` seconds."""
        due = time.monotonic() - self._polled_at > _POLL_EVERY_S
        if due:
            self._read_ahead(0.0)
        if (record := self._next_buffered()) is None and (timeout_s > 0 or not due):
            self._read_ahead(timeout_s)
            record = self._next_buffered()
        return record

    def _next_buffered(self) -> ConsumerRecord | None:
        self._check_process()
        return self._consumer.next_unread()

    def _read_ahead(self, timeout_s: float) -> None:
        self._pump(self._consumer.read_ahead(timeout_s))
        self._polled_at = time.monotonic()

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
