"""Member that uses librdkafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka

from kohort.lab.clients.application import POLL_S, Application
from kohort.lab.member_settings import MemberSettings

_MOST = 500


def run(settings: MemberSettings) -> None:
    """Run the member until SIGTERM."""

    def commit(ends: Mapping[int, int]) -> bool:
        offsets = [confluent_kafka.TopicPartition(settings.topic, number, end) for number, end in ends.items()]
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException:
            return False
        return not any(partition.error for partition in done or ())

    application = Application(settings, commit)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "client.id": settings.name,
            "group.id": settings.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": settings.metadata_ms,
            "metadata.max.age.ms": 3 * settings.metadata_ms,
            **_protocol(settings),
        }
    )
    application.joining()
    consumer.subscribe(
        [settings.topic],
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


def _protocol(settings: MemberSettings) -> dict[str, Any]:
    if settings.protocol == "consumer":
        return {"group.protocol": "consumer", "group.remote.assignor": "uniform"}
    return {
        "partition.assignment.strategy": "range" if settings.protocol == "eager" else "cooperative-sticky",
        "session.timeout.ms": settings.session_ms,
        "heartbeat.interval.ms": settings.heartbeat_ms,
    }


def _numbers(partitions: Iterable[confluent_kafka.TopicPartition]) -> list[int]:
    return [partition.partition for partition in partitions]
