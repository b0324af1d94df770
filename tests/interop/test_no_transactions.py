"""A transactional producer learns at once, and in a sentence, that there are no transactions here.

Apache Kafka has no code for that. With INVALID_REQUEST, or a coordinator that is not available, librdkafka asks again
until its user's timeout; what every client takes for final is that it may not use the transactional id.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from tests.interop.kohort import KohortBroker

pytestmark = pytest.mark.interop

PROMPT_S = 10.0
"""A busy machine's; the clients would go on for a minute."""


@pytest.fixture(autouse=True)
def promptly() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < PROMPT_S


def test_librdkafka_gives_up_with_the_reason(kohort_broker: KohortBroker) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kohort_broker.bootstrap, "transactional.id": "t"})
    with pytest.raises(confluent_kafka.KafkaException, match=r"leave transactional\.id unset"):
        producer.init_transactions(60.0)


def test_kafka_python_gives_up(kohort_broker: KohortBroker) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=kohort_broker.bootstrap, transactional_id="t")
    with pytest.raises(kafka.errors.TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=0)


async def test_aiokafka_gives_up(kohort_broker: KohortBroker) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=kohort_broker.bootstrap, transactional_id="t")
    with pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
        await producer.start()
    await producer.stop()
