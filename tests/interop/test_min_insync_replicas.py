"""min.insync.replicas on one broker, as Apache Kafka has it."""

from __future__ import annotations

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.interop.broker import Broker

pytestmark = pytest.mark.interop


def test_acks_of_all_require_no_more_replicas_than_the_topic_has(any_broker: Broker, fresh: str) -> None:
    admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
    admin.create_topics([NewTopic(fresh, 1, 1, config={"min.insync.replicas": "2"})])[fresh].result(30)
    producer = Producer({"bootstrap.servers": any_broker.bootstrap, "acks": "all", "message.timeout.ms": 5_000})
    outcomes: list[str | None] = []

    def delivered(error: object, message: Message) -> None:
        outcomes.append(None if error is None else str(error))

    producer.produce(fresh, b"x", on_delivery=delivered)
    producer.flush(10)
    assert outcomes == [None]
