"""Records per CPU second of our client, beside kafka-python, aiokafka and confluent-kafka, against one broker of ours.

    python bench/bench_client.py [--bootstrap HOST:PORT]

Each client produces and consumes records of 100 bytes in a process of its own, as its users would: one record at a
time, batches of its default size, no compression, acknowledged by all. CPU is what the kernel booked to that process
from its first record to its last, all threads. What a process reads was written before, the same for all;
confluent-kafka is C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PARTITIONS = 4
VALUE = b"v" * 100
RECORDS = 200_000
FEWER = {"kafka-python": 40_000, "aiokafka": 80_000}  # what the slower ones produce
READ_AT_ONCE = 500  # Kafka's max.poll.records


class Stopwatch:
    """CPU seconds of this process since `start`; what came before, connecting and joining, does not count."""

    def __init__(self) -> None:
        self._begin = 0.0
        self.spent = 0.0

    def start(self) -> None:
        if not self._begin:
            self._begin = time.process_time()

    def stop(self) -> None:
        self.spent = time.process_time() - self._begin


def produce_kohort(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    import uvloop

    from kohort import Producer

    async def run() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.partitions_for(topic)
            watch.start()
            for _ in range(count):
                await producer.send(topic, VALUE)
            await producer.flush()
            watch.stop()

    uvloop.run(run())


def consume_kohort(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    import uvloop

    from kohort import Consumer

    async def run() -> None:
        left = count
        async with Consumer(topic, bootstrap_servers=bootstrap, **_kohort_group()) as consumer:
            while left > 0:
                records = await consumer.poll(READ_AT_ONCE)
                if records:
                    watch.start()
                left -= len(records)
            watch.stop()

    uvloop.run(run())


def produce_kohort_blocking(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from kohort.blocking import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.partitions_for(topic)
        watch.start()
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()
        watch.stop()


def consume_kohort_blocking(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from kohort.blocking import Consumer

    left = count
    with Consumer(topic, bootstrap_servers=bootstrap, **_kohort_group()) as consumer:
        while left > 0:
            records = consumer.poll(READ_AT_ONCE)
            if records:
                watch.start()
            left -= len(records)
        watch.stop()


def _kohort_group() -> dict[str, Any]:
    return {"group_id": f"bench-{uuid.uuid4()}", "auto_offset_reset": "earliest"}


def produce_kafka_python(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    producer.partitions_for(topic)
    watch.start()
    for _ in range(count):
        producer.send(topic, VALUE)
    producer.flush()
    watch.stop()
    producer.close()


def consume_kafka_python(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, **_kohort_group())
    left = count
    while left > 0:
        records = consumer.poll(timeout_ms=1000, max_records=READ_AT_ONCE)
        if records:
            watch.start()
        left -= sum(map(len, records.values()))
    watch.stop()
    consumer.close()


def produce_aiokafka(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            await producer.partitions_for(topic)
            watch.start()
            for _ in range(count):
                await producer.send(topic, VALUE)
            await producer.flush()
            watch.stop()

    asyncio.run(run())


def consume_aiokafka(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        left = count
        async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **_kohort_group()) as consumer:
            while left > 0:
                records = await consumer.getmany(timeout_ms=1000, max_records=READ_AT_ONCE)
                if records:
                    watch.start()
                left -= sum(map(len, records.values()))
            watch.stop()

    asyncio.run(run())


def produce_confluent_kafka(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    producer.list_topics(topic, 10)
    watch.start()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0
    watch.stop()


def consume_confluent_kafka(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from confluent_kafka import Consumer

    group = {"group.id": f"bench-{uuid.uuid4()}", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **group})
    consumer.subscribe([topic])
    left = count
    while left > 0:
        records = consumer.consume(READ_AT_ONCE, 1.0)
        if records:
            watch.start()
        left -= sum(record.error() is None and record.value() is not None for record in records)
    watch.stop()
    consumer.close()


Work = Callable[[str, str, int, Stopwatch], None]

CLIENTS: dict[str, tuple[Work, Work]] = {
    "kohort": (produce_kohort, consume_kohort),
    "kohort.blocking": (produce_kohort_blocking, consume_kohort_blocking),
    "kafka-python": (produce_kafka_python, consume_kafka_python),
    "aiokafka": (produce_aiokafka, consume_aiokafka),
    "confluent-kafka": (produce_confluent_kafka, consume_confluent_kafka),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the client.")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that runs; else one of ours is started")
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)  # NAME produce|consume TOPIC: what a child does
    options = parser.parse_args()
    if options.client:
        print(json.dumps(measured(options.bootstrap, *options.client)))
        return 0

    with broker(options.bootstrap) as bootstrap:
        topics = [f"bench-{what}-{uuid.uuid4()}" for what in ("produce", "consume")]
        create(bootstrap, topics)
        produce_confluent_kafka(bootstrap, topics[1], RECORDS, Stopwatch())
        figures = {}
        for name in CLIENTS:
            figures[name] = [
                in_a_process(bootstrap, name, what, topic)
                for what, topic in zip(("produce", "consume"), topics, strict=True)
            ]
    show(figures)
    return 0


def measured(bootstrap: str, name: str, what: str, topic: str) -> float:
    """Records per CPU second."""
    produce, consume = CLIENTS[name]
    count = FEWER.get(name, RECORDS) if what == "produce" else RECORDS
    watch = Stopwatch()
    (produce if what == "produce" else consume)(bootstrap, topic, count, watch)
    return count / watch.spent


def in_a_process(bootstrap: str, name: str, what: str, topic: str) -> float:
    command = [sys.executable, __file__, "--bootstrap", bootstrap, "--client", name, what, topic]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return float(json.loads(run.stdout))


def create(bootstrap: str, topics: list[str]) -> None:
    from kohort import NewTopic
    from kohort.blocking import Admin

    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS) for topic in topics])


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The one given, or one of ours that ends with the run."""
    if bootstrap is not None:
        yield bootstrap
        return
    command = [str(Path(sys.executable).with_name("kohort")), "broker", "--listen", "127.0.0.1:0", "--memory"]
    command += ["--set", "group.initial.rebalance.delay.ms=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            ready = next(line for line in process.stdout if line.startswith("ready "))
            yield ready.split()[1]
        finally:
            process.terminate()


def show(figures: dict[str, list[float]]) -> None:
    ours = figures["kohort"]
    print(f"{'M records per CPU second':<26} {'produce':>8} {'consume':>8}   kohort is so many times as fast")
    for name, found in figures.items():
        ratios = "  ".join(f"{our / its:6.2f}" for our, its in zip(ours, found, strict=True))
        print(f"{name:<26} " + " ".join(f"{rate / 1e6:8.3f}" for rate in found) + f"   {ratios}")


if __name__ == "__main__":
    sys.exit(main())
