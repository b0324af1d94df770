"""Interceptors of a consumer."""

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.interception import Interception
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition


class ConsumerInterceptor:
    """Interceptor of a consumer, as in Java. An interceptor may have only some of the methods, and another base.

    An exception is logged, and the consumer continues as if the interceptor had not been called.
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

    def close(self) -> None:
        """Learn that the consumer is closed."""


class ConsumeInterception(Interception):
    """Interceptors of one consumer."""

    def __init__(self, given: Sequence[Any] | None) -> None:
        super().__init__(given, ConsumerInterceptor)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records that the application receives."""
        return self.changed("on_consume", records, _check) if records else records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Report a successful commit."""
        shown = {partition: position._replace(topic_id=None) for partition, position in offsets.items()}
        self.tell("on_commit", shown)


def _check(made: object) -> None:
    if not isinstance(made, list) or not all(isinstance(record, ConsumerRecord) for record in made):
        raise TypeError("on_consume returned something other than a list of ConsumerRecord or None")
