"""Producer with the methods of confluent-kafka's, over `kohort.blocking.Producer`."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter, time_ns
from typing import Any

from kohort.client import (
    ClosedError,
    ConsumerGroupMetadata,
    DeliveryFailedError,
    ErrorCode,
    InvalidRecordError,
    KohortError,
)
from kohort.client import KafkaError as ProtocolError
from kohort.compat.confluent.clients import QuietProducer
from kohort.compat.confluent.cluster_metadata import ClusterClient
from kohort.compat.confluent.configuration import read_configuration
from kohort.compat.confluent.deliveries import Deliveries, OnDelivery
from kohort.compat.confluent.errors import KafkaError, KafkaException, cluster_error, error_of, not_supported, raising
from kohort.compat.confluent.statistics import Statistics
from kohort.compat.confluent.values import Headers, TopicPartition, positions_of_partitions

_CLOSED = "Producer has been closed"
_FULL = "Local: Queue full"
_SERVE_EVERY_S = 0.05
"""Interval at which polls that do not wait look for statistics and errors."""


class Producer(ClusterClient):
    """Producer whose callbacks run in `poll` and `flush`. Any number of threads may use it."""

    def __init__(self, *configuration: Any, **options: Any) -> None:
        super().__init__(read_configuration(configuration, options, "producer"))
        self._statistics = Statistics(self._configuration, self._adjust_statistics)
        with raising():
            self._client = QuietProducer(**self._configuration.kohort, **self._statistics.options)
        self._deliveries = Deliveries(only_failed=self._configuration.only_failed_deliveries)
        self._closed = False
        self._serve_at = 0.0
        self._last_problem = ""
        self._send = self._client.send
        self._most = self._configuration.most_messages or sys.maxsize
        self._on_delivery = self._configuration.on_delivery

    def __len__(self) -> int:
        return len(self._deliveries)

    def __bool__(self) -> bool:
        return True

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Queue a message. Raises BufferError while queue.buffering.max.messages wait: call `poll`.

        `callback` (or `on_delivery`) gets an error or None, and the message.
        """
        if self._closed:
            raise RuntimeError(_CLOSED)
        deliveries = self._deliveries
        if deliveries.count >= self._most:
            raise BufferError(_FULL)
        told = callback or on_delivery or self._on_delivery
        if told is not None and not callable(told):
            raise TypeError("the delivery callback is not callable")
        if type(value) is not bytes:
            value = _bytes(value)
        if key is not None:
            key = _bytes(key)
        number = None if partition < 0 else partition
        pairs = _pairs(headers) if headers else ()
        try:
            if told is None:
                delivery = self._send(
                    topic, value, key=key, timestamp=timestamp or None, headers=pairs, partition=number
                )
                deliveries.add_silent(delivery)
            else:
                stamp = timestamp or time_ns() // 1_000_000
                delivery = self._send(topic, value, key=key, timestamp=stamp, headers=pairs, partition=number)
                deliveries.add((delivery, told, topic, number, key, value, stamp, perf_counter()))
        except ClosedError:
            raise RuntimeError(_CLOSED) from None
        except InvalidRecordError as problem:
            raise TypeError(str(problem)) from None
        except ProtocolError as problem:
            raise KafkaException(_produce_error(problem)) from problem
        except KohortError as problem:
            raise KafkaException(error_of(problem)) from problem

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> int:
        """Queue messages and return the number of those that were queued. The others get an `_error`."""
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        queued = 0
        for message in messages:
            told = message.get("callback") or callback or on_delivery
            where = message.get("partition", partition)
            try:
                self.produce(
                    topic, message.get("value"), message.get("key"), where, told, timestamp=message.get("timestamp", 0)
                )
            except BufferError:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            except KafkaException as problem:
                message["_error"] = problem.args[0]
            else:
                queued += 1
        return queued

    def poll(self, timeout: float | None = -1) -> int:
        """Call the callbacks that are due, waiting up to `timeout` seconds for one. Return their number."""
        self._check_open()
        now = time.monotonic()
        if timeout == 0 and not self._deliveries.done and now < self._serve_at:
            return 0  # many programs poll before each message
        deadline = None if timeout is None or timeout < 0 else now + timeout
        while True:
            self._serve()
            if called := self._deliveries.serve():
                return called
            left = 1.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return 0
            self._deliveries.wait(left)

    def flush(self, timeout: float | None = -1) -> int:
        """Send all messages and call their callbacks. Return the number of messages left after `timeout` seconds."""
        self._check_open()
        deadline = None if timeout is None or timeout < 0 else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self._client.flush(timeout=left)
            except DeliveryFailedError as problem:
                if self._deliveries.without_callback:
                    self._configuration.log.error("%s", problem)
                    self._deliveries.without_callback = False
            except ProtocolError as problem:
                if problem.code is not ErrorCode.REQUEST_TIMED_OUT:
                    raise KafkaException(error_of(problem)) from problem
            self._serve()
            self._deliveries.serve()
            # A callback may have produced further messages.
            if not len(self._deliveries) or (deadline is not None and time.monotonic() >= deadline):
                return len(self._deliveries)

    def _adjust_statistics(self, document: dict[str, Any]) -> None:
        document["msg_cnt"] = len(self._deliveries)
        document["msg_max"] = self._configuration.most_messages

    def _serve(self) -> None:
        self._serve_at = time.monotonic() + _SERVE_EVERY_S
        self._statistics.serve()
        problem = self._client.problem
        if problem is not None and self._configuration.error_cb is not None and self._last_problem != str(problem):
            self._last_problem = str(problem)
            self._configuration.error_cb(cluster_error(problem))

    def close(self) -> bool:
        """Flush and disconnect. Closing twice is allowed."""
        if not self._closed:
            self.flush()
            self._closed = True
            with raising(_CLOSED):
                self._client.close()
                self._close_admin()
        return True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(_CLOSED)

    # -- transactions

    def init_transactions(self, timeout: float = -1) -> None:
        """Get the next epoch of the transactional.id, which fences older producers of it."""
        with self._in_transaction():
            self._client.limited.initialize(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        with self._in_transaction():
            self._client.begin_transaction()

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: object, timeout: float = -1
    ) -> None:
        """Commit the offsets of these partitions with the transaction; those without an offset are left out.

        `group_metadata` is the result of `Consumer.consumer_group_metadata`.
        """
        if not isinstance(group_metadata, ConsumerGroupMetadata):
            raise TypeError("group_metadata must be the result of Consumer.consumer_group_metadata()")
        offsets = positions_of_partitions(positions)
        with self._in_transaction():
            self._client.limited.send_offsets(offsets, group_metadata, timeout)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Send all messages, call their callbacks, and commit."""
        try:
            with self._in_transaction():
                self._client.limited.commit(timeout)
        finally:
            self._serve()
            self._deliveries.serve()

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort. The callbacks of messages that were not sent get an error."""
        try:
            with self._in_transaction():
                self._client.limited.abort(timeout)
        finally:
            self._serve()
            self._deliveries.serve()

    @contextmanager
    def _in_transaction(self) -> Iterator[None]:
        self._check_open()
        try:
            yield
        except TimeoutError as problem:
            text = "the call did not end in time; it goes on, so call it again"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text, retriable=True)) from problem
        except KohortError as problem:
            raise KafkaException(error_of(problem)) from problem

    # -- left out

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Raise KafkaException: messages cannot be taken back."""
        raise not_supported("purge")


def _bytes(given: Any) -> bytes | None:
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"a bytes-like object is required, not '{type(given).__name__}'")


def _pairs(headers: Headers | None) -> Sequence[tuple[str, bytes | None]]:
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, _bytes(value)) for name, value in pairs]


def _produce_error(problem: ProtocolError) -> KafkaError:
    if problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(KafkaError._UNKNOWN_PARTITION, problem.sentence)
    return error_of(problem)
