"""Records per CPU second of our client, beside kafka-python, aiokafka and confluent-kafka, against one broker of ours.

    python bench/bench_client.py [--bootstrap HOST:PORT] [--records N] [--codec none|gzip|snappy|lz4|zstd]

Each client produces and consumes records of 100 bytes in a process of its own, as its users would: one record at a
time, batches of its default size, acknowledged by all. CPU is what the kernel booked to that process from its first
record to its last, all threads. What a process reads was written before, the same for all; confluent-kafka is C.

"consume" polls for up to 500 records and looks at each; "iterate" asks for one after the other; "columns" takes what
the client gives for many at once: Arrow tables of ours, lists of 10,000 of confluent-kafka's. "plain" is ours without
the extra `fast`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PARTITIONS = 4
VALUE = b"v" * 100
RECORDS = 1_000_000
FEWER = {"kafka-python": 10, "aiokafka": 5}  # how many times fewer the slower ones produce
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
                for record in records:
                    left -= record.value is not None
            watch.stop()

    uvloop.run(run())


def iterate_kohort(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    import uvloop

    from kohort import Consumer

    async def run() -> None:
        left = count
        async with Consumer(topic, bootstrap_servers=bootstrap, **_kohort_group()) as consumer:
            async for record in consumer:
                watch.start()
                left -= record.value is not None
                if not left:
                    break
            watch.stop()

    uvloop.run(run())


def columns_kohort(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    import uvloop

    from kohort import Consumer

    async def run() -> None:
        left = count
        async with Consumer(topic, bootstrap_servers=bootstrap, **_kohort_group()) as consumer:
            while left > 0:
                table = await consumer.poll_arrow()
                if table.num_rows:
                    watch.start()
                left -= table.num_rows - table["value"].null_count
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
            for record in records:
                left -= record.value is not None
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
        for some in records.values():
            for record in some:
                left -= record.value is not None
    watch.stop()
    consumer.close()


def iterate_kafka_python(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, **_kohort_group())
    left = count
    for record in consumer:
        watch.start()
        left -= record.value is not None
        if not left:
            break
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
                for some in records.values():
                    for record in some:
                        left -= record.value is not None
            watch.stop()

    asyncio.run(run())


def iterate_aiokafka(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        left = count
        async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **_kohort_group()) as consumer:
            async for record in consumer:
                watch.start()
                left -= record.value is not None
                if not left:
                    break
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
    _consume_confluent_kafka(bootstrap, topic, count, watch, READ_AT_ONCE)


def columns_confluent_kafka(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    _consume_confluent_kafka(bootstrap, topic, count, watch, 10_000)


def iterate_confluent_kafka(bootstrap: str, topic: str, count: int, watch: Stopwatch) -> None:
    from confluent_kafka import Consumer

    group = {"group.id": f"bench-{uuid.uuid4()}", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **group})
    consumer.subscribe([topic])
    left = count
    while left > 0:
        record = consumer.poll(1.0)
        if record is not None and record.error() is None:
            watch.start()
            left -= record.value() is not None
    watch.stop()
    consumer.close()


def _consume_confluent_kafka(bootstrap: str, topic: str, count: int, watch: Stopwatch, at_once: int) -> None:
    from confluent_kafka import Consumer

    group = {"group.id": f"bench-{uuid.uuid4()}", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **group})
    consumer.subscribe([topic])
    left = count
    while left > 0:
        records = consumer.consume(at_once, 1.0)
        if records:
            watch.start()
        left -= sum(record.error() is None and record.value() is not None for record in records)
    watch.stop()
    consumer.close()


Work = Callable[[str, str, int, Stopwatch], None]

CLIENTS: dict[str, dict[str, Work]] = {
    "kohort": {
        "produce": produce_kohort,
        "consume": consume_kohort,
        "iterate": iterate_kohort,
        "columns": columns_kohort,
    },
    "kohort, plain": {"consume": consume_kohort, "iterate": iterate_kohort},
    "kohort.blocking": {"produce": produce_kohort_blocking, "consume": consume_kohort_blocking},
    "kafka-python": {
        "produce": produce_kafka_python,
        "consume": consume_kafka_python,
        "iterate": iterate_kafka_python,
    },
    "aiokafka": {"produce": produce_aiokafka, "consume": consume_aiokafka, "iterate": iterate_aiokafka},
    "confluent-kafka": {
        "produce": produce_confluent_kafka,
        "consume": consume_confluent_kafka,
        "iterate": iterate_confluent_kafka,
        "columns": columns_confluent_kafka,
    },
}
KINDS = ("produce", "consume", "iterate", "columns")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the client.")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that runs; else one of ours is started")
    parser.add_argument("--records", type=int, default=RECORDS, metavar="N")
    parser.add_argument("--codec", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="take each figure's best of N rounds")
    parser.add_argument("--only", nargs="*", choices=KINDS, default=KINDS, metavar="KIND")
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)  # NAME KIND TOPIC: what a child does
    options = parser.parse_args()
    if options.client:
        name, kind, topic = options.client
        print(json.dumps(measured(options.bootstrap, name, kind, topic, options.records)))
        return 0

    with broker(options.bootstrap) as bootstrap:
        topics = {kind: f"bench-{kind}-{uuid.uuid4()}" for kind in ("produce", "consume")}
        create(bootstrap, list(topics.values()))
        fill(bootstrap, topics["consume"], options.records, options.codec)
        figures: dict[str, dict[str, float]] = {name: {} for name in CLIENTS}
        for _ in range(options.rounds):
            for name, works in CLIENTS.items():
                for kind in (kind for kind in works if kind in options.only):
                    topic = topics.get(kind, topics["consume"])
                    rate = in_a_process(bootstrap, name, kind, topic, options.records)
                    if rate is not None:
                        figures[name][kind] = max(rate, figures[name].get(kind, 0.0))
    show(figures)
    return 0


def fill(bootstrap: str, topic: str, count: int, codec: str) -> None:
    """By confluent-kafka: records with keys of no one and timestamps of their own, in batches of 16 KiB."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "compression.type": codec, "linger.ms": 5})
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0


def measured(bootstrap: str, name: str, kind: str, topic: str, records: int) -> float:
    """Records per CPU second."""
    count = records // FEWER.get(name, 1) if kind == "produce" else records
    watch = Stopwatch()
    CLIENTS[name][kind](bootstrap, topic, count, watch)
    return count / watch.spent


def in_a_process(bootstrap: str, name: str, kind: str, topic: str, records: int) -> float | None:
    """Records per CPU second; None where the client cannot (kafka-python knows no lz4 without another package)."""
    command = [sys.executable, __file__, "--bootstrap", bootstrap, "--records", str(records)]
    command += ["--client", name, kind, topic]
    environment = {**os.environ, "KOHORT_FAST": "0" if name.endswith("plain") else "1"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    if run.returncode:
        print(f"{name} {kind}: {run.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
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


def show(figures: dict[str, dict[str, float]]) -> None:
    ours = figures["kohort"]
    print(
        f"{'M records per CPU second':<26} " + " ".join(f"{kind:>8}" for kind in KINDS) + "   kohort is so many times"
    )
    for name, found in figures.items():
        rates = " ".join(f"{found[kind] / 1e6:8.3f}" if kind in found else " " * 8 for kind in KINDS)
        ratios = " ".join(f"{ours[kind] / found[kind]:6.2f}" if kind in found else " " * 6 for kind in KINDS)
        print(f"{name:<26} {rates}   {ratios}")


if __name__ == "__main__":
    sys.exit(main())
