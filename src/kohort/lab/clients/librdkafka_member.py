"""Member that uses librdkafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka

from kohort.lab.clients.application import POLL_S, Application
from kohort.lab.order import Order

_MOST = 500


def run(order: Order) -> None:
    """Run the member until SIGTERM."""

    def commit(ends: Mapping[int, int]) -> bool:
        offsets = [confluent_kafka.TopicPartition(order.topic, number, end) for number, end in ends.items()]
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException:
            return False
        return not any(partition.error for partition in done or ())

    application = Application(order, commit)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": order.bootstrap,
            "client.id": order.name,
            "group.id": order.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": order.metadata_ms,
            "metadata.max.age.ms": 3 * order.metadata_ms,
            **_protocol(order),
        }
    )
    application.joining()
    consumer.subscribe(
        [order.topic],
        on_assign=lambda _, given: application.assigned(_numbers(given)),
        on_revoke=lambda _, gone: application.revoked(_numbers(gone)),
        on_lost=lambda _, gone: application.lost(_numbers(gone)),
    )
    while not application.stopping.is_set():
        # `consume` waits for the requested number; `poll` returns with the first, and the rest are fetched already.
        first = consumer.poll(POLL_S)
        messages = [] if first is None else [first, *consumer.consume(_MOST, 0.0)]
        application.read(
            (message.partition() or 0, message.offset() or 0, message.key() or b"")
            for message in messages
            if message.error() is None
        )
        application.polled()
    application.leaving()
    consumer.close()


def _protocol(order: Order) -> dict[str, Any]:
    if order.protocol == "consumer":
        return {"group.protocol": "consumer", "group.remote.assignor": "uniform"}
    return {
        "partition.assignment.strategy": "range" if order.protocol == "eager" else "cooperative-sticky",
        "session.timeout.ms": order.session_ms,
        "heartbeat.interval.ms": order.heartbeat_ms,
    }


def _numbers(partitions: Iterable[confluent_kafka.TopicPartition]) -> list[int]:
    return [partition.partition for partition in partitions]
