"""Metrics of the adapter beside those of kafka-python after the same work."""

from __future__ import annotations

import importlib
import uuid
from typing import Any

import pytest

from tests.interop.broker import Broker

pytest.importorskip("kafka")

_PER_NODE = {"throttle-time-avg", "throttle-time-max"}
"""Metrics of a node that docs/coming-from.md lists as missing."""


def metrics(library: str, bootstrap: str, topic: str) -> dict[str, dict[str, set[str]]]:
    """Produce and consume with this library and return the names by client and group."""
    classes = importlib.import_module(library)
    producer = classes.KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(5):
        producer.send(topic, b"x").get(timeout=20)
    consumer = classes.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=f"{library}-{topic}", auto_offset_reset="earliest"
    )
    read = 0
    while read < 5:
        read += sum(map(len, consumer.poll(500).values()))
    consumer.commit()
    found: dict[str, Any] = {"producer": producer.metrics(), "consumer": consumer.metrics()}
    consumer.close()
    producer.close()
    return {client: {group: set(names) for group, names in groups.items()} for client, groups in found.items()}


@pytest.mark.interop
def test_the_adapter_has_every_group_and_name_of_the_library(plain_kohort_broker: Broker) -> None:
    topic = f"metrics.{uuid.uuid4().hex[:8]}"
    theirs = metrics("kafka", plain_kohort_broker.bootstrap, topic)
    ours = metrics("kohort.compat.kafka_python", plain_kohort_broker.bootstrap, topic)
    for client, groups in theirs.items():
        assert groups.keys() <= ours[client].keys()
        for group, names in groups.items():
            known_missing = _PER_NODE if "-node-metrics." in group else set()
            assert names - ours[client][group] - known_missing == set(), group
