"""Programs as the other clients' documentation has them, run as they are and with only the import changed.

Which ones do so is told in docs/coming-from.md; confluent-kafka's take their options as a dictionary, so none does.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from dataclasses import dataclass

import pytest

from kohort import NewTopic
from kohort.blocking import Admin
from tests.interop.broker import Broker


@dataclass(frozen=True)
class Program:
    """Program from the other client's documentation; it prints its results."""

    name: str
    theirs: str
    ours: str
    text: str


KAFKA_PYTHON = (
    "from kafka import KafkaConsumer, KafkaProducer, TopicPartition",
    "from kohort import TopicPartition\n"
    "from kohort.blocking import Consumer as KafkaConsumer, Producer as KafkaProducer",
)
AIOKAFKA = (
    "from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition",
    "from kohort import Consumer as AIOKafkaConsumer, Producer as AIOKafkaProducer, TopicPartition",
)

PROGRAMS = [
    Program(
        "kafka-python-loop",
        *KAFKA_PYTHON,
        """
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
for number in range(10):
    producer.send(TOPIC, b"message %d" % number)
producer.send(TOPIC, key=b"last", value=b"with headers", headers=[("content-type", b"text/plain")])
producer.flush()
producer.close()

consumer = KafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest")
for message in consumer:
    print(message.topic, message.partition, message.offset, message.key, message.value, list(message.headers))
    if message.key == b"last":
        break
consumer.commit()
consumer.close()
""",
    ),
    Program(
        "kafka-python-by-hand",
        *KAFKA_PYTHON,
        """
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type="gzip", acks="all", linger_ms=5)
for number in range(5):
    producer.send(TOPIC, b"message %d" % number, partition=0)
producer.flush()
producer.close()

partition = TopicPartition(TOPIC, 0)
consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, enable_auto_commit=False, auto_offset_reset="earliest")
consumer.assign([partition])
print(next(consumer).value, consumer.position(partition))
consumer.seek(partition, 3)
print(next(consumer).value, consumer.position(partition))
print(consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition])
consumer.close()
""",
    ),
    Program(
        "aiokafka-loop",
        *AIOKAFKA,
        """
import asyncio

async def main():
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        written = await producer.send(TOPIC, b"first", key=b"k")
        print((await written).offset)
        for number in range(10):
            await producer.send(TOPIC, b"message %d" % number)
        await producer.flush()

    async with AIOKafkaConsumer(
        TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest"
    ) as consumer:
        seen = 0
        async for message in consumer:
            print(message.topic, message.partition, message.offset, message.key, message.value)
            seen += 1
            if seen == 11:
                break
        await consumer.commit()

asyncio.run(main())
""",
    ),
    Program(
        "aiokafka-by-hand",
        *AIOKAFKA,
        """
import asyncio

async def main():
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type="gzip") as producer:
        for number in range(5):
            await producer.send(TOPIC, b"message %d" % number, partition=0)
        await producer.flush()

    partition = TopicPartition(TOPIC, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest")
    consumer.assign([partition])
    async with consumer:
        async for message in consumer:
            print(message.value, await consumer.position(partition))
            break
        consumer.seek(partition, 3)
        async for message in consumer:
            print(message.value, await consumer.position(partition))
            break
        print(await consumer.end_offsets([partition]) == {partition: 5})

asyncio.run(main())
""",
    ),
]


def output(program: Program, line: str, broker: Broker) -> str:
    """Return the output with its own topic and group, without their names."""
    topic = uuid.uuid4().hex
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1)])
    head = f"BOOTSTRAP, TOPIC, GROUP = {broker.bootstrap!r}, {topic!r}, {topic!r}"
    command = [sys.executable, "-c", f"{line}\n{head}\n{program.text}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.replace(topic, "TOPIC")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_does_the_same_with_another_import(program: Program, any_broker: Broker) -> None:
    theirs = output(program, program.theirs, any_broker)
    assert len(theirs.splitlines()) >= 3
    assert output(program, program.ours, any_broker) == theirs
