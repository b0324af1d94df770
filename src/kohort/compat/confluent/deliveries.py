"""Messages of one producer that are not acknowledged, or whose callback has not been called."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kohort.client import ErrorCode, KohortError
from kohort.client import KafkaError as ProtocolError
from kohort.client.blocking import BlockingDelivery
from kohort.compat.confluent.errors import KafkaError, error_of
from kohort.compat.confluent.values import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

OnDelivery = Callable[[KafkaError | None, Message], Any]

_ALL_EVERY_S = 0.05
"""Minimum interval between two searches for messages that were acknowledged before older ones of other partitions."""
_WAIT_S = 0.05
_NOT_IN_TIME = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION)


class Sent:
    """Message in delivery."""

    __slots__ = ("callback", "delivery", "key", "partition", "sent_at", "timestamp", "topic", "value")

    def __init__(
        self,
        delivery: BlockingDelivery,
        callback: OnDelivery | None,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
    ) -> None:
        self.delivery, self.callback = delivery, callback
        self.topic, self.partition, self.key, self.value = topic, partition, key, value
        self.timestamp = timestamp
        self.sent_at = time.perf_counter()

    def report(self) -> tuple[KafkaError | None, Message]:
        """Return the arguments of the callback. Requires that the delivery is done."""
        latency = time.perf_counter() - self.sent_at
        try:
            written = self.delivery.result()
        except (KohortError, ValueError, TypeError) as problem:
            error = _delivery_error(problem)
            timestamp = (TIMESTAMP_CREATE_TIME, self.timestamp)
            message = Message(self.topic, self.partition, None, self.key, self.value, None, error, timestamp, latency)
            return error, message
        stamp = (TIMESTAMP_CREATE_TIME, self.timestamp)
        if written.timestamp is not None:
            stamp = (TIMESTAMP_LOG_APPEND_TIME, written.timestamp)
        offset = written.offset if written.offset >= 0 else None
        return None, Message(self.topic, written.partition, offset, self.key, self.value, None, None, stamp, latency)


def _delivery_error(problem: Exception) -> KafkaError:
    # The producer retries for message.timeout.ms before it reports that brokers do not respond.
    if isinstance(problem, ProtocolError) and problem.code in _NOT_IN_TIME:
        return KafkaError(KafkaError._MSG_TIMED_OUT, problem.sentence)
    return error_of(problem)


class Deliveries:
    """Queue of messages until their callbacks have been called. Any thread may use it."""

    def __init__(self, *, only_failed: bool) -> None:
        self._only_failed = only_failed
        self._sent: deque[Sent] = deque()
        self._silent: deque[Sent] = deque()
        """Messages without a callback, which are gone as soon as they are acknowledged."""
        self._taking = threading.Lock()
        self._all_at = self._all_silent_at = 0.0

    def __len__(self) -> int:
        self._drop_silent()
        return len(self._sent) + len(self._silent)

    def add(self, sent: Sent) -> None:
        """Add a message."""
        (self._silent if sent.callback is None else self._sent).append(sent)

    @property
    def without_callback(self) -> bool:
        """Whether there are messages without a callback, whose errors nobody receives."""
        return bool(self._silent)

    def serve(self, *, everything: bool = False) -> int:
        """Call the callbacks of messages that are acknowledged or have failed, and return their number.

        With `everything`, no message that is acknowledged is left.
        """
        if everything:
            self._all_at = self._all_silent_at = 0.0
        called = 0
        done = self._take_done()
        try:
            while done:
                sent = done.popleft()
                error, message = sent.report()
                if sent.callback is not None and (error is not None or not self._only_failed):
                    called += 1
                    sent.callback(error, message)
        finally:  # a callback that raises an exception leaves the others for the next call
            self._sent.extendleft(reversed(done))
        self._drop_silent()
        return called

    def wait(self, timeout_s: float) -> None:
        """Wait for the oldest message with a callback, for a short time at most."""
        limit_s = min(timeout_s, _WAIT_S)
        try:
            oldest = self._sent[0]
        except IndexError:
            time.sleep(limit_s)
            return
        try:
            oldest.delivery.result(limit_s)
        except (KohortError, ValueError, TypeError):
            return  # `serve` reports it, or it is not written yet

    def _take_done(self) -> deque[Sent]:
        with self._taking:
            done: deque[Sent] = deque()
            queue = self._sent
            while queue and queue[0].delivery.done():
                done.append(queue.popleft())
            if queue and time.monotonic() >= self._all_at:
                kept = [sent for sent in (queue.popleft() for _ in range(len(queue))) if not _moved(sent, done)]
                queue.extendleft(reversed(kept))
                self._all_at = time.monotonic() + _ALL_EVERY_S
            return done

    def _drop_silent(self) -> None:
        with self._taking:
            queue = self._silent
            while queue and queue[0].delivery.done():
                queue.popleft()
            if queue and time.monotonic() >= self._all_silent_at:
                kept = [sent for sent in (queue.popleft() for _ in range(len(queue))) if not sent.delivery.done()]
                queue.extendleft(reversed(kept))
                self._all_silent_at = time.monotonic() + _ALL_EVERY_S


def _moved(sent: Sent, done: deque[Sent]) -> bool:
    if sent.delivery.done():
        done.append(sent)
        return True
    return False
