"""Messages in delivery: their callbacks run when the application polls."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kohort.client import ErrorCode, KohortError
from kohort.client import KafkaError as ProtocolError
from kohort.client.blocking import BlockingDelivery
from kohort.compat.confluent.errors import KafkaError, error_of
from kohort.compat.confluent.values import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, LazyMessage, Message

OnDelivery = Callable[[KafkaError | None, Message], Any]

Sent = tuple[BlockingDelivery, OnDelivery, str, int | None, bytes | None, bytes | None, int, float]
"""Message with a callback: delivery, callback, topic, partition, key, value, timestamp, and the time of `produce`."""

_NOT_IN_TIME = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION)


class DeliveredMessage(LazyMessage):
    """Message that was written, whose fields are found when they are asked for."""

    __slots__ = ()

    def __init__(self, sent: Sent, latency: float) -> None:
        self._origin = sent
        self._latency = latency

    def topic(self) -> str | None:
        return self._sent[2]

    def partition(self) -> int | None:
        return self._sent[0].result().partition

    def offset(self) -> int | None:
        offset = self._sent[0].result().offset
        return offset if offset >= 0 else None

    def key(self) -> Any:
        return self._sent[4]

    def value(self) -> Any:
        return self._sent[5]

    def headers(self) -> Any:
        return None

    def error(self) -> KafkaError | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        written = self._sent[0].result().timestamp
        return (TIMESTAMP_CREATE_TIME, self._sent[6]) if written is None else (TIMESTAMP_LOG_APPEND_TIME, written)

    def leader_epoch(self) -> int | None:
        return None

    @property
    def _sent(self) -> Sent:
        sent: Sent = self._origin
        return sent


def _report(sent: Sent) -> tuple[KafkaError | None, Message]:
    """Return the arguments of the callback. Requires that the delivery is done."""
    delivery, _, topic, partition, key, value, timestamp, sent_at = sent
    latency = time.perf_counter() - sent_at
    if not delivery.failed():
        return None, DeliveredMessage(sent, latency)
    try:
        delivery.result()
    except (KohortError, ValueError, TypeError) as problem:
        error = _delivery_error(problem)
    stamp = (TIMESTAMP_CREATE_TIME, timestamp)
    return error, Message(topic, partition, None, key, value, None, error, stamp, latency)


def _delivery_error(problem: Exception) -> KafkaError:
    # The producer retries for message.timeout.ms before it reports that brokers do not respond.
    if isinstance(problem, ProtocolError) and problem.code in _NOT_IN_TIME:
        return KafkaError(KafkaError._MSG_TIMED_OUT, problem.sentence)
    return error_of(problem)


class _Waiting:
    """Messages that are written together, in the order in which they were produced."""

    __slots__ = ("sent", "silent")

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.silent = 0
        """Number of messages without a callback, which are gone as soon as they are acknowledged."""


class Deliveries:
    """Messages until their callbacks have been called. Any thread may use it.

    It looks at batches, not at messages: a batch tells when it is written or has failed.
    """

    def __init__(self, *, only_failed: bool) -> None:
        self._only_failed = only_failed
        self._waiting: dict[object, _Waiting] = {}
        """By batch."""
        self.done: deque[object] = deque()
        """Batches that are written or have failed. An entry may be there twice."""
        self._news = threading.Event()
        self._lock = threading.RLock()
        self.count = 0
        """Number of messages."""
        self.without_callback = False
        """Whether there were messages without a callback, whose errors nobody receives, since it was set to False."""

    def __len__(self) -> int:
        return self.count

    def add(self, sent: Sent) -> None:
        """Add a message with a callback."""
        delivery = sent[0]
        batch = delivery.shared
        with self._lock:
            self.count += 1
            if (waiting := self._waiting.get(batch)) is not None:
                waiting.sent.append(sent)
                return
            waiting = self._waiting[batch] = _Waiting()
            waiting.sent.append(sent)
        delivery.when_batch_done(self._finished)

    def add_silent(self, delivery: BlockingDelivery) -> None:
        """Add a message without a callback."""
        batch = delivery.shared
        with self._lock:
            self.count += 1
            self.without_callback = True
            if (waiting := self._waiting.get(batch)) is not None:
                waiting.silent += 1
                return
            waiting = self._waiting[batch] = _Waiting()
            waiting.silent = 1
        delivery.when_batch_done(self._finished)

    def _finished(self, batch: object) -> None:
        with self._lock:
            waiting = self._waiting.get(batch)
            if waiting is None:
                return
            self.count -= waiting.silent
            waiting.silent = 0
            if not waiting.sent:
                del self._waiting[batch]
                return
        self.done.append(batch)
        self._news.set()

    def serve(self) -> int:
        """Call the callbacks of messages that are acknowledged or have failed, and return their number."""
        called = 0
        while self.done:
            try:
                batch = self.done.popleft()
            except IndexError:  # another thread was faster
                break
            with self._lock:
                waiting = self._waiting.pop(batch, None)
            if waiting is None:
                continue
            served = 0
            try:
                for sent in waiting.sent:
                    served += 1
                    error, message = _report(sent)
                    if error is not None or not self._only_failed:
                        called += 1
                        sent[1](error, message)
            finally:
                with self._lock:
                    self.count -= served
                    if served < len(waiting.sent):  # a callback raised an exception: the others wait for the next call
                        del waiting.sent[:served]
                        self._waiting[batch] = waiting
                        self.done.appendleft(batch)
        return called

    def wait(self, timeout_s: float) -> None:
        """Wait for an acknowledgement or a failure of a message with a callback."""
        self._news.clear()
        if not self.done:
            self._news.wait(timeout_s)
