"""Programs as the other clients' documentation has them, run as they are and with only the import changed.

`docs/coming-from.md` names what differs. Many programs also run with Kohort's own classes; the first test has some.
"""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from dataclasses import dataclass

import pytest

from kohort import NewTopic
from kohort.blocking import Admin
from tests.examples import admin_programs, aiokafka_programs, kafka_python_programs
from tests.examples.programs import Program
from tests.interop.broker import Broker


@dataclass(frozen=True)
class DirectProgram:
    """Program that runs with Kohort's own classes; it prints its results."""

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
    DirectProgram(
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
    DirectProgram(
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
    DirectProgram(
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
    DirectProgram(
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

OF_KAFKA_PYTHON = [*kafka_python_programs.PROGRAMS, *admin_programs.OF_KAFKA_PYTHON]
OF_AIOKAFKA = [*aiokafka_programs.PROGRAMS, *admin_programs.OF_AIOKAFKA]


def output(text: str, broker: Broker, partitions: int = 1) -> str:
    """Return what a program prints with its own topic and group, without their names."""
    topic = uuid.uuid4().hex
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions)])
    head = f"BOOTSTRAP, TOPIC, GROUP = {broker.bootstrap!r}, {topic!r}, {topic!r}"
    run = subprocess.run([sys.executable, "-c", f"{head}\n{text}"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.replace(topic, "TOPIC")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_does_the_same_with_our_own_classes(program: DirectProgram, any_broker: Broker) -> None:
    theirs = output(program.theirs + program.text, any_broker)
    assert len(theirs.splitlines()) >= 3
    assert output(program.ours + program.text, any_broker) == theirs


@pytest.mark.parametrize("program", OF_KAFKA_PYTHON, ids=lambda program: program.name)
def test_a_program_for_kafka_python_does_the_same(program: Program, any_broker: Broker) -> None:
    compare(program, "kafka", "kohort.compat.kafka_python", any_broker)


@pytest.mark.parametrize("program", OF_AIOKAFKA, ids=lambda program: program.name)
def test_a_program_for_aiokafka_does_the_same(program: Program, any_broker: Broker) -> None:
    compare(program, "aiokafka", "kohort.compat.aiokafka", any_broker)


def compare(program: Program, library: str, adapter: str, broker: Broker) -> None:
    """Run the program with the library and, with changed imports, with the adapter."""
    ours, changed = re.subn(rf"^from {library}\b", f"from {adapter}", program.text, flags=re.MULTILINE)
    assert changed
    theirs = output(program.text, broker, program.partitions)
    assert len(theirs.splitlines()) >= 1
    assert output(ours, broker, program.partitions) == theirs
