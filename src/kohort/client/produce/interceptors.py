"""Interceptors of a producer."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kohort.client.interception import Interception
from kohort.client.options import ProducerOptions
from kohort.client.produce.batches import Delivery, RecordMetadata
from kohort.model import Millis
from kohort.wire.batches import Header


class ProducerRecord(NamedTuple):
    """Arguments of `send`, before the key and the value are serialized."""

    topic: str
    value: Any
    key: Any = None
    timestamp: Millis | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None


class ProducerInterceptor:
    """Interceptor of a producer, as in Java. An interceptor may have only some of the methods, and another base.

    An exception is logged, and the producer continues as if the interceptor had not been called.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Return the record to send instead, or None to leave it as it is.

        Runs inside of `send`, before serializers and the choice of the partition.
        """
        return None

    def on_acknowledgement(
        self, record: ProducerRecord, metadata: RecordMetadata | None, error: Exception | None
    ) -> None:
        """Learn that the record is written (`metadata`), or is not (`error`), also if `send` raised the error.

        Runs in the event loop, in `kohort.blocking` in the producer's thread: it must not block.
        """

    def close(self) -> None:
        """Learn that the producer is closed."""


class SendInterception(Interception):
    """Interceptors of one producer."""

    def __init__(self, given: Sequence[Any] | None, options: ProducerOptions | None = None) -> None:
        super().__init__(given, ProducerInterceptor, options)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send."""
        return self.changed("on_send", record, _check)

    def rejected(self, record: ProducerRecord, error: Exception) -> None:
        """Report an error that `send` raises."""
        self.tell("on_acknowledgement", record, None, error)

    def watch(self, record: ProducerRecord, delivery: Delivery) -> None:
        """Report the result of the delivery once it is known."""
        delivery.add_done_callback(lambda done: self.decided(record, done.error, done.result))

    def decided(self, record: ProducerRecord, error: Exception | None, metadata: Callable[[], RecordMetadata]) -> None:
        """Report the result of a delivery. A failure still counts as unchecked."""
        self.tell("on_acknowledgement", record, None if error is not None else metadata(), error)


def _check(made: object) -> None:
    if not isinstance(made, ProducerRecord):
        raise TypeError(f"on_send returned {type(made).__name__}, but must return a ProducerRecord or None")
