"""Interceptors of a consumer."""

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.interception import Interception
from kohort.client.options import ConsumerOptions
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition


class ConsumerInterceptor:
    """Interceptor of a consumer, as in Java. An interceptor may have only some of the methods, and another base.

    An exception is logged, and the consumer continues as if the interceptor had not been called.
    """

    def on_poll(self, most: int) -> None:
        """Learn that the application asks for records, so it is done with those that it received before.

        Runs at the beginning of `poll`, of each step of an iteration and of `close`. `most` is the
        largest number of records that the application may receive; 1 in an iteration and in `close`.
        """

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord] | None:
        """Return the records that the application receives instead, or None to leave them as they are.

        Runs in `poll` after the deserializers, and once for each record of an iteration. Positions
        are those after the original records. `poll_arrow`, `poll_batches` and `poll_values` do not
        call it.
        """
        return None

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Learn that these offsets are committed.

        Runs in the event loop, in `kohort.blocking` in the consumer's thread: it must not block.
        """

    def on_commit_done(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None, seconds: float
    ) -> None:
        """Learn that a commit has succeeded or failed, and how long it took. Runs where `on_commit` does."""

    def close(self) -> None:
        """Learn that the consumer is closed."""


class ConsumeInterception(Interception):
    """Interceptors of one consumer."""

    def __init__(self, given: Sequence[Any] | None, options: ConsumerOptions | None = None) -> None:
        super().__init__(given, ConsumerInterceptor, options)

    def on_poll(self, most: int) -> None:
        """Report that the application asks for records."""
        if self.interceptors:
            self.tell("on_poll", most)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records that the application receives."""
        return self.changed("on_consume", records, _check) if records else records

    def committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None, seconds: float
    ) -> None:
        """Report the result of a commit."""
        shown = {partition: position._replace(topic_id=None) for partition, position in offsets.items()}
        if error is None:
            self.tell("on_commit", shown)
        self.tell("on_commit_done", shown, error, seconds)


def _check(made: object) -> None:
    if not isinstance(made, list) or not all(isinstance(record, ConsumerRecord) for record in made):
        raise TypeError("on_consume returned something other than a list of ConsumerRecord or None")
