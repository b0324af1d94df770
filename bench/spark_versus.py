"""What the connectors do with the same topics of one Apache Kafka, case by case, a turn each, in one run."""

from __future__ import annotations

import random
import statistics
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.spark_peer import Contestant, contestant, cpu_seconds, start_to_first_batch
from tests.interop.kafka import PRODUCTION, running_kafka

PARTITIONS = 8
TUNED = {"kafka.max.poll.records": "10000", "kafka.receive.buffer.bytes": str(4 << 20)}
TUNED_SINK = {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)}
LATENCY_S, LATENCY_RATE = 30, 1_000


@dataclass(slots=True)
class Turn:
    """One contestant's way through a case, and what it took each time."""

    name: str
    contestant: Contestant
    asked: Mapping[str, Any]
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    broker: list[float] = field(default_factory=list)
    phases: Mapping[str, list[int]] = field(default_factory=dict)
    """Of a stream's batches but the first, by Spark's names: how long each phase took, in ms, in the last round."""


def compare(rows: int, rounds: int, cases: list[str]) -> None:
    """Run the chosen cases ([] for all) and print a line for each contestant of each."""
    with running_kafka({"log.segment.bytes": str(1 << 30)}, PRODUCTION) as kafka:
        bootstrap = kafka.bootstrap
        reads = not cases or {"batch", "value", "stream", "member"} & set(cases)
        small = fill(bootstrap, "bench100", rows if reads else 1, bytes(100))
        warm = fill(bootstrap, "warm", 50_000, bytes(100))
        batch = min(1_000_000, rows // 4)
        with contestant("kafka") as theirs, contestant("kohort") as ours:
            both = {"spark-sql-kafka": (theirs, {}), "tuned": (theirs, TUNED), "kohort": (ours, {})}

            def wanted(case: str) -> bool:
                return not cases or case in cases

            def turns(case: dict[str, Any], extra: dict[str, str], choose: Mapping[str, Any] = both) -> list[Turn]:
                return [
                    Turn(name, who, case | {"options": {"kafka.bootstrap.servers": bootstrap} | extra | tuning})
                    for name, (who, tuning) in choose.items()
                ]

            if wanted("batch"):
                race("batch, seven columns", "batch", turns({}, {"subscribe": small}), rows, rounds, kafka.pid)
            if wanted("value"):
                asked = turns({"schema": "value binary"}, {"subscribe": small})
                race("batch, value only", "batch", asked, rows, rounds, kafka.pid)
            if wanted("large"):
                large = fill_large(bootstrap, "bench1k", rows // 5)
                race("batch, 1 KB lz4", "batch", turns({}, {"subscribe": large}), rows // 5, rounds, kafka.pid)
            streaming = {"subscribe": small, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(batch)}
            if wanted("stream"):
                race(f"stream, {batch:,} a batch", "stream", turns({}, streaming), rows, rounds, kafka.pid)
            if wanted("member"):
                extra = streaming | {"kafka.group.id": "bench-member", "groupMode": "member"}
                race("stream as a member", "stream", turns({}, extra, {"kohort": (ours, {})}), rows, rounds, kafka.pid)
            if wanted("sink"):
                produced = {name: (who, TUNED_SINK if tuning else {}) for name, (who, tuning) in both.items()}
                extra = {"topic": create(bootstrap, "bench-sink")}
                race("sink, 100 bytes", "sink", turns({"rows": rows}, extra, produced), rows, rounds, kafka.pid)
            if wanted("latency"):
                extra = {"subscribe": create(bootstrap, "bench-latency"), "startingOffsets": "latest"}
                for turn in turns(
                    {"seconds": LATENCY_S}, extra, {name: both[name] for name in ("spark-sql-kafka", "kohort")}
                ):
                    follow(turn, bootstrap, extra["subscribe"])
        if wanted("start"):
            given = {"kafka.bootstrap.servers": bootstrap, "subscribe": warm, "startingOffsets": "earliest"}
            for form in ("kafka", "kohort"):
                took = sorted(start_to_first_batch(form, given) for _ in range(3))
                print(
                    f"start to first batch    {form:16} {took[1]:6.1f} s ({took[0]:.1f} to {took[2]:.1f})", flush=True
                )


def race(title: str, case: str, turns: list[Turn], rows: int, rounds: int, broker: int) -> None:
    """Everyone once to warm up, then round by round; the medians."""
    for counted in [False] * 2 + [True] * rounds:
        for turn in turns:
            before = cpu_seconds(broker)
            found = turn.contestant.run(case, **turn.asked)
            if counted:
                turn.seconds.append(found["seconds"])
                turn.cpu.append(found["cpu"])
                turn.broker.append(cpu_seconds(broker) - before)
            if counted and "batches" in found:
                turn.phases = found["phases"]
                warm = found["batches"][1:] or found["batches"]
                turn.seconds[-1] = rows * sum(ms for _, ms in warm) / 1000 / sum(count for count, _ in warm)
    for turn in turns:
        rate, per_cpu = rows / statistics.median(turn.seconds) / 1e6, rows / statistics.median(turn.cpu) / 1e6
        print(
            f"{title:23} {turn.name:16} {rate:6.2f} M rows/s {per_cpu:6.2f} M rows/CPU s"
            f"   broker {statistics.median(turn.broker):5.2f} CPU s",
            flush=True,
        )
        if turn.phases:
            spent = (f"{name} {statistics.median(found):.0f}" for name, found in turn.phases.items())
            print(f"{'':23} {turn.name:16} ms of a batch: {', '.join(spent)}", flush=True)


def follow(turn: Turn, bootstrap: str, topic: str) -> None:
    """Produce at a steady rate while the query follows; how long after its time a record's batch was done."""
    produced: list[float] = []
    ends = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        begin = time.time()
        while not ends.is_set():
            due = int((time.time() - begin) * LATENCY_RATE)
            while len(produced) < due:
                producer.produce(topic, bytes(100), partition=len(produced) % PARTITIONS)
                produced.append(time.time())
            producer.poll(0.002)
        producer.flush(10)

    base = _size(bootstrap, topic)
    thread = threading.Thread(target=produce)
    thread.start()
    try:
        done = turn.contestant.run("latency", **turn.asked)["done"]
    finally:
        ends.set()
        thread.join()
    late: list[float] = []
    before = done[len(done) // 2][0]  # the first half warms up
    for count, at in done[len(done) // 2 + 1 :]:
        late += [at - produced[n - base] for n in range(before, min(count, base + len(produced)))]
        before = count
    late.sort()
    p50, p99 = late[len(late) // 2] * 1000, late[len(late) * 99 // 100] * 1000
    print(f"latency at {LATENCY_RATE:,}/s      {turn.name:16} p50 {p50:5.0f} ms   p99 {p99:5.0f} ms", flush=True)


def _size(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "sizes"})
    try:
        return sum(consumer.get_watermark_offsets(Position(topic, n), timeout=10)[1] for n in range(PARTITIONS))
    finally:
        consumer.close()


def create(bootstrap: str, name: str) -> str:
    """A topic with a name that nobody has."""
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        created.result(10)
    return topic


def fill(bootstrap: str, name: str, rows: int, *values: bytes, codec: str = "none") -> str:
    """Records with 8-byte keys and these values in turn, in batches of up to 1 MB."""
    topic = create(bootstrap, name)
    settings = {
        "bootstrap.servers": bootstrap,
        "linger.ms": 50,
        "log_level": 0,
        "batch.size": 1_000_000,
        "compression.type": codec,
    }
    producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000, "batch.num.messages": 10_000})
    for n in range(rows):
        value = values[n % len(values)]
        while True:
            try:
                producer.produce(topic, key=b"%08d" % n, value=value, partition=n // 5_000 % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    return topic


def fill_large(bootstrap: str, name: str, rows: int) -> str:
    """Values of 1 KB that compress as JSON does: names repeat, what they name does not."""
    values = [_document(random.Random(seed)) for seed in range(2_000)]
    return fill(bootstrap, name, rows, *values, codec="lz4")


def _document(dice: random.Random) -> bytes:
    fields = (f'"carrier_delay_minutes_{n}":"{dice.getrandbits(48):012x}"' for n in range(26))
    return ("{" + ",".join(fields)).encode()[:1024]
