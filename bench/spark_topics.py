"""Topics for the comparison of Spark's connectors: their partitions have leaders, their records are on disk."""

from __future__ import annotations

import random
import time
import uuid

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 8
_PATIENCE_S = 30


def create(bootstrap: str, name: str) -> str:
    """Create a topic with a unique name, and wait until its partitions have leaders."""
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        created.result(10)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            size(bootstrap, topic)
            return topic
        except KafkaException:  # no leader yet, or the broker that will be has not heard of it
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def size(bootstrap: str, topic: str) -> int:
    """Records in the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "sizes", "log_level": 0})
    try:
        return sum(consumer.get_watermark_offsets(Position(topic, n), timeout=10)[1] for n in range(PARTITIONS))
    finally:
        consumer.close()


def fill(bootstrap: str, name: str, rows: int, *values: bytes, codec: str = "none") -> str:
    """A topic of records with 8-byte keys and these values in turn, in batches of up to 1 MB."""
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
