"""The clients that bench_client.py compares, each as its users use it, behind one small interface.

What is measured is inside the methods: a call for each record would cost more than some of the clients do.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import ModuleType
from typing import Any, Protocol

VALUE = b"v" * 100
READ_AT_ONCE = 500  # Kafka's max.poll.records
COLUMNS_AT_ONCE = 10_000  # what confluent-kafka is asked for at once


class Reader(Protocol):
    """A consumer alone in a group of its own. A client has the methods for what it can do."""

    async def consume(self) -> int:
        """Poll for up to 500 records, look at each, and say how many there were."""
        ...

    async def iterate(self, count: int, on_first: Callable[[], None]) -> None:
        """Ask for one record after the other."""
        ...


class Columns(Reader, Protocol):
    """One that gives many records at once."""

    async def columns(self) -> int:
        """Take what there is of them, and say how many."""
        ...


OpenReader = Callable[[str, str], AbstractAsyncContextManager[Any]]
"""From bootstrap and topic."""
Produce = Callable[[str, str, int, Callable[[], None]], Any]
"""So many records, acknowledged by all; the callable is called when it begins, connected. A coroutine."""


def _group() -> dict[str, Any]:
    return {"group_id": f"bench-{uuid.uuid4()}", "auto_offset_reset": "earliest"}


def _seen(records: Iterable[Any]) -> int:
    seen = 0
    for record in records:
        seen += record.value is not None
    return seen


class _Kohort:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    async def consume(self) -> int:
        return _seen(await self._consumer.poll(READ_AT_ONCE))

    async def iterate(self, count: int, on_first: Callable[[], None]) -> None:
        left = count
        async for record in self._consumer:
            on_first()
            left -= record.value is not None
            if not left:
                break

    async def columns(self) -> int:
        table = await self._consumer.poll_arrow()
        return int(table.num_rows - table["value"].null_count)


@asynccontextmanager
async def read_kohort(bootstrap: str, topic: str) -> AsyncIterator[Columns]:
    from kohort import Consumer

    async with Consumer(topic, bootstrap_servers=bootstrap, **_group()) as consumer:
        yield _Kohort(consumer)


async def produce_kohort(bootstrap: str, topic: str, count: int, on_first: Callable[[], None]) -> None:
    from kohort import Producer

    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.partitions_for(topic)
        on_first()
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()


class _KohortBlocking:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    async def consume(self) -> int:
        return _seen(self._consumer.poll(READ_AT_ONCE))

    async def iterate(self, count: int, on_first: Callable[[], None]) -> None:
        left = count
        for record in self._consumer:
            on_first()
            left -= record.value is not None
            if not left:
                break


@asynccontextmanager
async def read_kohort_blocking(bootstrap: str, topic: str) -> AsyncIterator[Reader]:
    from kohort.blocking import Consumer

    with Consumer(topic, bootstrap_servers=bootstrap, **_group()) as consumer:
        yield _KohortBlocking(consumer)


async def produce_kohort_blocking(bootstrap: str, topic: str, count: int, on_first: Callable[[], None]) -> None:
    from kohort.blocking import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.partitions_for(topic)
        on_first()
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()


class _KafkaPython:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    async def consume(self) -> int:
        found = self._consumer.poll(timeout_ms=1000, max_records=READ_AT_ONCE)
        return sum(_seen(records) for records in found.values())

    async def iterate(self, count: int, on_first: Callable[[], None]) -> None:
        left = count
        for record in self._consumer:
            on_first()
            left -= record.value is not None
            if not left:
                break


@asynccontextmanager
async def read_kafka_python(bootstrap: str, topic: str) -> AsyncIterator[Reader]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, **_group())
    yield _KafkaPython(consumer)
    consumer.close()


async def produce_kafka_python(bootstrap: str, topic: str, count: int, on_first: Callable[[], None]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    producer.partitions_for(topic)
    on_first()
    for _ in range(count):
        producer.send(topic, VALUE)
    producer.flush()
    producer.close()


class _Aiokafka:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    async def consume(self) -> int:
        found = await self._consumer.getmany(timeout_ms=1000, max_records=READ_AT_ONCE)
        return sum(_seen(records) for records in found.values())

    async def iterate(self, count: int, on_first: Callable[[], None]) -> None:
        left = count
        async for record in self._consumer:
            on_first()
            left -= record.value is not None
            if not left:
                break


@asynccontextmanager
async def read_aiokafka(bootstrap: str, topic: str) -> AsyncIterator[Reader]:
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **_group()) as consumer:
        yield _Aiokafka(consumer)


async def produce_aiokafka(bootstrap: str, topic: str, count: int, on_first: Callable[[], None]) -> None:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        await producer.partitions_for(topic)
        on_first()
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()


class _ConfluentKafka:
    """confluent-kafka's consumer, or ours that has its methods."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    async def consume(self) -> int:
        return self._some(READ_AT_ONCE)

    async def columns(self) -> int:
        return self._some(COLUMNS_AT_ONCE)

    def _some(self, most: int) -> int:
        records = self._consumer.consume(most, 1.0)
        return sum(record.error() is None and record.value() is not None for record in records)

    async def iterate(self, count: int, on_first: Callable[[], None]) -> None:
        left = count
        while left:
            record = self._consumer.poll(1.0)
            if record is not None and record.error() is None:
                on_first()
                left -= record.value() is not None


def _confluent_options(ours: bool) -> dict[str, Any]:
    return {} if ours else {"log_level": 0}


@asynccontextmanager
async def _read_confluent(library: ModuleType, bootstrap: str, topic: str, *, ours: bool) -> AsyncIterator[Columns]:
    group = {name.replace("_", "."): value for name, value in _group().items()}
    consumer = library.Consumer({"bootstrap.servers": bootstrap, **_confluent_options(ours), **group})
    consumer.subscribe([topic])
    yield _ConfluentKafka(consumer)
    consumer.close()


def read_confluent_kafka(bootstrap: str, topic: str) -> AbstractAsyncContextManager[Columns]:
    import confluent_kafka

    return _read_confluent(confluent_kafka, bootstrap, topic, ours=False)


def read_kohort_confluent(bootstrap: str, topic: str) -> AbstractAsyncContextManager[Columns]:
    from kohort.compat import confluent

    return _read_confluent(confluent, bootstrap, topic, ours=True)


def _confluent_producer(library: ModuleType, bootstrap: str, topic: str, *, ours: bool, **options: Any) -> Any:
    producer = library.Producer({"bootstrap.servers": bootstrap, "acks": "all", **_confluent_options(ours), **options})
    producer.list_topics(topic, 10)
    return producer


def _produce_confluent(producer: Any, topic: str, count: int, on_first: Callable[[], None]) -> None:
    on_first()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0


def _call_back_confluent(producer: Any, topic: str, count: int, on_first: Callable[[], None]) -> None:
    """Produce as the examples of its documentation do: a callback for each record, and a poll before it."""
    told = 0

    def delivered(error: object, message: object) -> None:
        nonlocal told
        told += error is None and message is not None

    on_first()
    for _ in range(count):
        producer.poll(0)
        while True:
            try:
                producer.produce(topic, VALUE, callback=delivered)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0
    assert told == count


async def produce_confluent_kafka(
    bootstrap: str, topic: str, count: int, on_first: Callable[[], None], **options: Any
) -> None:
    import confluent_kafka

    producer = _confluent_producer(confluent_kafka, bootstrap, topic, ours=False, **options)
    _produce_confluent(producer, topic, count, on_first)


async def call_back_confluent_kafka(bootstrap: str, topic: str, count: int, on_first: Callable[[], None]) -> None:
    import confluent_kafka

    _call_back_confluent(_confluent_producer(confluent_kafka, bootstrap, topic, ours=False), topic, count, on_first)


async def produce_kohort_confluent(bootstrap: str, topic: str, count: int, on_first: Callable[[], None]) -> None:
    from kohort.compat import confluent

    _produce_confluent(_confluent_producer(confluent, bootstrap, topic, ours=True), topic, count, on_first)


async def call_back_kohort_confluent(bootstrap: str, topic: str, count: int, on_first: Callable[[], None]) -> None:
    from kohort.compat import confluent

    _call_back_confluent(_confluent_producer(confluent, bootstrap, topic, ours=True), topic, count, on_first)


READERS: Mapping[str, OpenReader] = {
    "kohort": read_kohort,
    "kohort, plain": read_kohort,
    "kohort.blocking": read_kohort_blocking,
    "kohort.compat.confluent": read_kohort_confluent,
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
    "confluent-kafka": read_confluent_kafka,
}
PRODUCERS: Mapping[str, Produce] = {
    "kohort": produce_kohort,
    "kohort.blocking": produce_kohort_blocking,
    "kohort.compat.confluent": produce_kohort_confluent,
    "kafka-python": produce_kafka_python,
    "aiokafka": produce_aiokafka,
    "confluent-kafka": produce_confluent_kafka,
}
CALLED_BACK: Mapping[str, Produce] = {
    "kohort.compat.confluent": call_back_kohort_confluent,
    "confluent-kafka": call_back_confluent_kafka,
}
HAVE_COLUMNS = frozenset({"kohort", "kohort.compat.confluent", "confluent-kafka"})
