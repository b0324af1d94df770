"""A small group that lives twice on a broker, so that there is something to read about it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 4
RECORDS = 40


@dataclass(frozen=True, slots=True)
class Lived:
    """Names of the group; all records of the topic are committed, and the group is empty."""

    group: str
    topic: str


def live_twice(bootstrap: str, protocol: str) -> Lived:
    """One member reads and commits all records and leaves; another one joins for a moment."""
    lived = Lived(f"delays-{uuid.uuid4().hex[:8]}", f"flights-{uuid.uuid4().hex[:8]}")
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(lived.topic, PARTITIONS, 1)]).values():
        made.result(10)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for n in range(RECORDS):
        producer.produce(lived.topic, b"late", partition=n % PARTITIONS)
    assert producer.flush(20) == 0
    for records in (RECORDS, 0):
        member, first = _joined(bootstrap, lived, protocol)
        for n in range(records):
            message = member.poll(30.0) if first is None else first
            first = None
            assert message is not None, f"the member was given {n} records of {records}"
            member.commit(message=message, asynchronous=False)
        member.close()
    return lived


def _joined(bootstrap: str, lived: Lived, protocol: str) -> tuple[Consumer, Message | None]:
    """A member that has partitions, and the record that assigned them, if any."""
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": lived.group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    member.subscribe([lived.topic])
    for _ in range(300):
        first = member.poll(0.1)
        if member.assignment():
            return member, first
    raise AssertionError("the member got no partition within 30 s")
