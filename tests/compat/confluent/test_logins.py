"""The adapter's clients with librdkafka's options for SASL, at a broker that demands a login."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.compat.confluent import Consumer, KafkaError, KafkaException, Producer
from kohort.compat.confluent.admin import AdminClient, NewTopic
from kohort.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(users={"alice": "wonderland"}) as broker:
        yield broker


def login(broker: Broker, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": password,
    }


def test_all_three_clients_log_in(broker: Broker) -> None:
    options, topic = login(broker, "wonderland"), uuid.uuid4().hex
    with AdminClient(options) as admin:
        admin.create_topics([NewTopic(topic, 1)])[topic].result()
    with Producer(options) as producer:
        producer.produce(topic, b"v")
    with Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        while (message := consumer.poll(1.0)) is None:
            pass
        assert message.error() is None and message.value() == b"v"
        assert list(consumer.list_topics(topic, 10).topics) == [topic]


def test_error_cb_learns_of_a_wrong_password(broker: Broker) -> None:
    problems: list[KafkaError] = []
    options = {**login(broker, "rabbit"), "group.id": "g"}
    with Consumer({**options, "error_cb": problems.append}) as consumer:
        consumer.subscribe(["t"])
        deadline = time.monotonic() + 30
        while not problems:
            assert time.monotonic() < deadline
            assert consumer.poll(0.1) is None
    assert problems[0].code() == KafkaError._AUTHENTICATION
    with AdminClient(login(broker, "rabbit")) as admin, pytest.raises(KafkaException) as refused:
        admin.list_topics(timeout=10)
    assert refused.value.args[0].code() == KafkaError._AUTHENTICATION


def test_without_error_cb_a_wrong_password_is_an_error_message(broker: Broker) -> None:
    with Consumer({**login(broker, "rabbit"), "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        message = consumer.poll(30)
        assert message is not None and message.error() == KafkaError._AUTHENTICATION
