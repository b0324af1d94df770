"""Statistics beside those of librdkafka: docs/coming-from.md names each part that is absent."""

from __future__ import annotations

import importlib
import json
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.compat.confluent import Consumer, Producer
from tests.interop.broker import Broker
from tests.test_documents import ROOT

pytest.importorskip("confluent_kafka")


def paths(document: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Names of all values, such as `brokers.*.rtt.avg`."""
    for name, value in document.items():
        under = prefix.rstrip(".").rpartition(".")[2]
        if under == "partitions" and name == "-1":
            continue  # librdkafka's internal queue for messages that have no partition yet
        shown = "*" if under in ("brokers", "topics", "partitions", "toppars", "req") else name
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{shown}.")
        else:
            yield f"{prefix}{shown}"


def documents(library: str, bootstrap: str, topic: str) -> dict[str, dict[str, Any]]:
    """Produce and consume with this library and return the last statistics of each client."""
    classes = importlib.import_module(library)
    sent: list[str] = []
    options = {"bootstrap.servers": bootstrap, "statistics.interval.ms": 50}
    producer = classes.Producer({**options, "stats_cb": sent.append})
    for _ in range(20):
        producer.produce(topic, bytes(50))
    producer.flush(20)
    sent.clear()
    wait_for(sent, lambda: producer.poll(0.05))
    got: list[str] = []
    consumer = classes.Consumer(
        {**options, "group.id": f"{library}-{topic}", "auto.offset.reset": "earliest", "stats_cb": got.append}
    )
    consumer.subscribe([topic])
    read = 0
    deadline = time.monotonic() + 30
    while read < 20:
        assert time.monotonic() < deadline
        message = consumer.poll(0.1)
        read += message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    got.clear()
    wait_for(got, lambda: consumer.poll(0.05))
    consumer.close()
    return {"producer": json.loads(sent[-1]), "consumer": json.loads(got[-1])}


def wait_for(found: list[str], poll: Any) -> None:
    deadline = time.monotonic() + 30
    while len(found) < 2:
        assert time.monotonic() < deadline
        poll()


def absent() -> set[str]:
    """Names that the page lists."""
    text = (ROOT / "docs" / "coming-from.md").read_text()
    section = text.partition("**Absent statistics.**")[2].partition("\n- **")[0]
    return set(re.findall(r"`([a-z0-9_.*]+)`", section))


@pytest.mark.interop
def test_the_page_names_each_statistic_of_librdkafka_that_is_absent(plain_kohort_broker: Broker) -> None:
    topic = f"statistics-{uuid.uuid4().hex[:8]}"
    theirs = documents("confluent_kafka", plain_kohort_broker.bootstrap, topic)
    ours = documents("kohort.compat.confluent", plain_kohort_broker.bootstrap, topic)
    listed = absent()
    for kind in theirs:
        expected, found = set(paths(theirs[kind])), set(paths(ours[kind]))
        missing = {path for path in expected - found if not listed & {path, *path.split(".")}}
        assert missing == set(), kind
        assert found - expected == set(), kind
    everything = {part for kind in ours for path in paths(ours[kind]) for part in (path, *path.split("."))}
    assert listed & everything == set(), "the page names statistics that exist"


@pytest.mark.interop
def test_both_libraries_tell_the_same_of_the_same_work(plain_kohort_broker: Broker) -> None:
    topic = f"statistics-{uuid.uuid4().hex[:8]}"
    for library, written in (("confluent_kafka", 20), ("kohort.compat.confluent", 40)):
        found = documents(library, plain_kohort_broker.bootstrap, topic)
        assert found["producer"]["txmsgs"] == 20 and found["producer"]["msg_cnt"] == 0
        partition = found["consumer"]["topics"][topic]["partitions"]["0"]
        assert partition["hi_offset"] == partition["ls_offset"] == written
        assert partition["committed_offset"] == 20 <= partition["stored_offset"] == partition["app_offset"]
        assert partition["consumer_lag"] == written - partition["committed_offset"]
        assert partition["lo_offset"] == 0 and partition["fetch_state"] == "active"
        assert found["consumer"]["cgrp"]["join_state"] == "steady"
        assert found["consumer"]["cgrp"]["assignment_size"] == 1


def test_offsets_that_the_application_stores_are_those_of_the_statistics(kohort_broker: Broker) -> None:
    topic, texts = f"statistics-{uuid.uuid4().hex[:8]}", list[str]()
    options = {"bootstrap.servers": kohort_broker.bootstrap}
    with Producer(options) as producer:
        for _ in range(10):
            producer.produce(topic, b"x")
        producer.flush()
    settings = {"auto.offset.reset": "earliest", "enable.auto.offset.store": False, "group.id": topic}
    with Consumer({**options, **settings, "statistics.interval.ms": 50, "stats_cb": texts.append}) as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(20)
        assert message is not None
        consumer.store_offsets(message)
        texts.clear()
        wait_for(texts, lambda: consumer.poll(0.05))
    partition = json.loads(texts[-1])["topics"][topic]["partitions"]["0"]
    assert (partition["stored_offset"], partition["consumer_lag_stored"]) == (1, 9)
    assert partition["app_offset"] > 1
