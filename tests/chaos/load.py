"""Load of a run: numbered records by idempotent producers of three libraries, and commits that count up."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import confluent_kafka
import kafka

from kohort import blocking
from kohort.model import TopicPartition
from tests.chaos.history import History, now_ms
from tests.interop.mixed.events import value_of

_TICK_S = 0.25
_PATIENCE_MS = 180_000
"""Longer than any fault lasts: what was sent is acknowledged in the end."""


@dataclass(frozen=True, slots=True)
class Told:
    """Callbacks that a producer gets from its library."""

    acked: Callable[[int, int, int], None]
    """A record is in: its partition, value and offset."""
    failed: Callable[[str], None]
    """One will never be acknowledged."""
    bumped: Callable[[str], None]
    """The library goes on at a new producer epoch, for that reason."""


class Sender(Protocol):
    """One library's producer."""

    def send(self, partition: int, value: int) -> None: ...

    def close(self) -> None:
        """Wait until every record that was sent is acknowledged or has failed."""
        ...


class Librdkafka:
    """By confluent-kafka."""

    def __init__(self, bootstrap: str, topic: str, told: Told) -> None:
        self._topic, self._told = topic, told
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": _PATIENCE_MS,
                "debug": "eos",
            },
            logger=_bumps(told),
        )

    def send(self, partition: int, value: int) -> None:
        def delivered(error: Any, record: Any) -> None:
            if error is not None:
                self._told.failed(str(error))
            else:
                self._told.acked(partition, value, record.offset())

        self._producer.produce(self._topic, value_of(partition, value), partition=partition, on_delivery=delivered)
        self._producer.poll(0)

    def close(self) -> None:
        if self._producer.flush(60.0):
            self._told.failed("records were never acknowledged")
        del self._producer  # that ends its threads


def _bumps(told: Told) -> logging.Logger:
    """Where librdkafka says of a request that was refused that it begins a new producer epoch because of it."""

    class Bumps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = record.getMessage()
            if said.startswith("ERRSEQ"):
                told.bumped(said)

    logger = logging.Logger("librdkafka", logging.DEBUG)
    logger.addHandler(Bumps())
    return logger


class Kohort:
    """By our own."""

    def __init__(self, bootstrap: str, topic: str, told: Told) -> None:
        self._topic, self._told = topic, told
        self._producer = blocking.Producer(
            bootstrap_servers=bootstrap, linger_ms=20, delivery_timeout_ms=_PATIENCE_MS, enable_idempotence=True
        )
        self._open: list[tuple[int, int, Any]] = []

    def send(self, partition: int, value: int) -> None:
        sent = self._producer.send(self._topic, value_of(partition, value).encode(), partition=partition)
        self._open.append((partition, value, sent))
        while self._open and self._open[0][2].done():
            self._settle()

    def close(self) -> None:
        while self._open:
            self._settle()
        self._producer.close()

    def _settle(self) -> None:
        partition, value, sent = self._open.pop(0)
        try:
            self._told.acked(partition, value, sent.result().offset)
        except Exception as error:  # noqa: BLE001  # whatever it is: a record was not acknowledged
            self._told.failed(repr(error))


class KafkaPython:
    """By kafka-python."""

    def __init__(self, bootstrap: str, topic: str, told: Told) -> None:
        self._topic, self._told = topic, told
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=20,
            delivery_timeout_ms=_PATIENCE_MS,
            # With the default of 30 s it has no broker for minutes if all of them are killed often.
            reconnect_backoff_max_ms=1_000,
        )

    def send(self, partition: int, value: int) -> None:
        sent = self._queue(partition, value_of(partition, value).encode())
        sent.add_callback(lambda record: self._told.acked(partition, value, record.offset))
        sent.add_errback(lambda error: self._told.failed(repr(error)))

    def close(self) -> None:
        self._producer.flush(60.0)
        self._producer.close(10.0)

    def _queue(self, partition: int, value: bytes) -> Any:
        while True:
            try:
                return self._producer.send(self._topic, value, partition=partition)
            except kafka.errors.KafkaTimeoutError:  # of metadata: nothing was sent, and it asks again
                continue


NewSender = Callable[[str, str, Told], Sender]
TIDY: Sequence[NewSender] = (Librdkafka, Kohort)
SENDERS: Sequence[NewSender] = (*TIDY, KafkaPython)
"""kafka-python leaves sockets of refused connections to the collector, so it is not for tests."""


class Producer:
    """A thread that writes to its share of the partitions."""

    def __init__(self, new: NewSender, share: range, bootstrap: str, topic: str, per_s: int, history: History) -> None:
        self._history = history
        self._name = getattr(new, "__name__", "producer")
        self._partitions = share
        self._burst = max(1, round(per_s * _TICK_S))
        self._chance = random.Random(share.start)
        self._sent = dict.fromkeys(self._partitions, 0)
        self._sender = new(bootstrap, topic, Told(self._acked, self._failed, self._bumped))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait until every record that it sent is acknowledged, or recorded as failed."""
        self._stopping.set()
        self._thread.join(90.0)
        if self._thread.is_alive():
            self._failed("it hangs")

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            for _ in range(self._burst):
                partition = self._chance.choice(self._partitions)
                value = self._sent[partition]
                self._sent[partition] += 1
                self._history.note("sent", producer=self._name, partition=partition, value=value)
                self._sender.send(partition, value)
        self._sender.close()

    def _acked(self, partition: int, value: int, offset: int) -> None:
        self._history.note("acked", producer=self._name, partition=partition, value=value, offset=offset)

    def _failed(self, what: str) -> None:
        self._history.note("failed", producer=self._name, what=what)

    def _bumped(self, why: str) -> None:
        self._history.note("bumped", producer=self._name, what=why)


class Committer:
    """A thread that commits 0, 1, 2, ... for a group that has no members, and looks what is committed."""

    def __init__(self, number: int, bootstrap: str, topic: str, history: History) -> None:
        self._group = f"committer-{number}"
        self._history = history
        self._commit, self._look, self._close = (_librdkafka, _kohort)[number % 2](bootstrap, self._group, topic)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(90.0)

    def _run(self) -> None:
        value = 0
        while not self._stopping.wait(0.02):
            self._history.note("committing", group=self._group, value=value)
            try:
                self._commit(value)
                self._history.note("committed", group=self._group, value=value)
                if value % 10 == 0:
                    since = now_ms()
                    self._history.note("found", group=self._group, since=since, value=self._look())
            except Exception as error:  # noqa: BLE001  # written or not: the next read shows it
                self._history.note("unsure", group=self._group, what=repr(error))
                time.sleep(0.1)
            value += 1
        self._close()


Ways = tuple[Callable[[int], None], Callable[[], int], Callable[[], None]]
"""How to commit, to look, and to close."""


def _librdkafka(bootstrap: str, group: str, topic: str) -> Ways:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "session.timeout.ms": 45_000}
    )

    def commit(value: int) -> None:
        done = consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, value)], asynchronous=False)
        refused = [partition.error for partition in done or () if partition.error]
        if refused:
            raise RuntimeError(str(refused))

    def look() -> int:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=30.0)
        if found.error:
            raise RuntimeError(str(found.error))
        return int(found.offset)

    return commit, look, consumer.close


def _kohort(bootstrap: str, group: str, topic: str) -> Ways:
    admin = blocking.Admin(bootstrap_servers=bootstrap)
    partition = TopicPartition(topic, 0)

    def commit(value: int) -> None:
        admin.alter_group_offsets(group, {partition: value})

    def look() -> int:
        found = admin.group_offsets(group, [partition])[partition]
        return -1 if found is None else found.offset

    return commit, look, admin.close
