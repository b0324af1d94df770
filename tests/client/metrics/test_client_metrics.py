"""Metrics of clients that worked with a broker: the figures are what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import isnan
from typing import Any

import pytest

from kohort import (
    Admin,
    ClosedError,
    ConfigError,
    Consumer,
    KafkaError,
    MetricName,
    Producer,
    TopicPartition,
    blocking,
    testing,
)
from kohort.compat.kafka_python import KafkaConsumer, KafkaProducer
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker


class Found:
    """Metrics of one client, by group, name and tags."""

    def __init__(self, metrics: Mapping[MetricName, Any]) -> None:
        self._metrics = metrics
        (self._client,) = {name.tags["client-id"] for name in metrics}

    def __call__(self, group: str, name: str, **tags: str) -> Any:
        wanted = {"client-id": self._client} | {tag.replace("_", "-"): text for tag, text in tags.items()}
        return self._metrics[MetricName(name, group, "", wanted)]


async def test_a_producers_metrics_count_records_batches_and_requests(
    any_broker: Broker, new_topic: NewTopicName
) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap, compression_type="gzip", linger_ms=50) as producer:
        for _ in range(40):
            await producer.send(topic, bytes(500))
        await producer.flush()
        found = Found(producer.metrics())
    totals = "producer-metrics"
    assert found(totals, "record-send-total") == 40
    assert found(totals, "record-send-rate") == pytest.approx(40 / 30, rel=0.1)
    assert found(totals, "record-error-total") == found(totals, "record-retry-total") == 0
    assert found(totals, "records-per-request-avg") > 1
    assert 500 < found(totals, "record-size-avg") <= found(totals, "record-size-max") < 600
    assert found(totals, "compression-rate-avg") < 0.5
    assert 0 < found(totals, "batch-size-avg") <= found(totals, "batch-size-max") < 20_000
    assert 0 <= found(totals, "record-queue-time-avg") < 60_000
    assert 0 <= found(totals, "request-latency-avg") <= found(totals, "request-latency-max")
    assert found(totals, "flush-time-ns-total") > 0 and found(totals, "metadata-wait-time-ns-total") > 0
    assert found(totals, "buffer-total-bytes") == found(totals, "buffer-available-bytes") == 33_554_432
    assert 0 <= found(totals, "metadata-age") < 60
    assert found(totals, "connection-count") == found(totals, "connection-creation-total") >= 1
    assert found("producer-topic-metrics", "record-send-total", topic=topic) == 40
    assert 0 < found("producer-topic-metrics", "byte-total", topic=topic) < 40 * 500 / 2
    sent = found(totals, "request-total")
    assert found(totals, "response-total") == sent and found(totals, "network-io-total") == 2 * sent
    assert found("app-info", "start-time-ms") > 1_700_000_000_000
    assert found("kafka-metrics-count", "count") == len(found._metrics)


async def test_records_that_fail_count_as_errors_of_their_topic(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(max_message_bytes="200")
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        delivery = await producer.send(topic, bytes(1_000))
        with pytest.raises(KafkaError):
            await delivery
        found = Found(producer.metrics())
    assert found("producer-metrics", "record-error-total") == 1
    assert found("producer-topic-metrics", "record-error-total", topic=topic) == 1


async def test_a_consumers_metrics_count_records_and_measure_the_lag(
    any_broker: Broker, new_topic: NewTopicName, fresh: str, protocol: dict[str, Any]
) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await producer.send_values(topic, [b"x" * 100] * 50, partition=0)
    options = {"group_id": fresh, "auto_offset_reset": "earliest", "enable_auto_commit": False, **protocol}
    assigned: list[object] = []
    async with Consumer(
        topic, bootstrap_servers=any_broker.bootstrap, on_assigned=assigned.append, **options
    ) as consumer:
        records = await consumer.poll(max_records=20, timeout=20.0)
        while not records:
            records = await consumer.poll(max_records=20, timeout=20.0)
        found = Found(consumer.metrics())
        fetches, place = "consumer-fetch-manager-metrics", {"topic": topic, "partition": "0"}
        assert found(fetches, "records-lag", **place) == found(fetches, "records-lag-max") == 50 - len(records)
        assert found(fetches, "records-lead", **place) == found(fetches, "records-lead-min") == len(records)
        read = len(records)
        while read < 50:
            read += len(await consumer.poll())
        await consumer.poll(timeout=0.0)
        await consumer.commit()
        found = Found(consumer.metrics())
    assert found(fetches, "records-consumed-total") == 50
    assert found(fetches, "records-consumed-total", topic=topic) == 50
    assert found(fetches, "bytes-consumed-total") == found(fetches, "fetch-size-max") >= 5_000
    assert found(fetches, "records-per-request-avg", topic=topic) == 50
    assert found(fetches, "records-lag", **place) == found(fetches, "records-lag-max", **place) - 30 == 0
    assert found(fetches, "preferred-read-replica", **place) == -1
    assert found(fetches, "fetch-total") >= 1 and found(fetches, "fetch-latency-avg") >= 0
    group = "consumer-coordinator-metrics"
    assert found(group, "assigned-partitions") == 1
    assert found(group, "commit-total") == found(group, "rebalance-total") == 1
    assert found(group, "rebalance-rate-per-hour") == pytest.approx(1, rel=0.1)
    assert 0 <= found(group, "rebalance-latency-avg") == found(group, "rebalance-latency-total")
    assert 0 <= found(group, "last-rebalance-seconds-ago") < 60
    assert found(group, "partition-assigned-latency-avg") >= 0 and assigned
    assert isnan(found(group, "partition-revoked-latency-avg"))
    assert found("consumer-metrics", "commit-sync-time-ns-total") > 0
    assert found("consumer-metrics", "last-poll-seconds-ago") == 0
    assert 0 < found("consumer-metrics", "poll-idle-ratio-avg") <= 1
    assert found("consumer-metrics", "time-between-poll-max") >= found("consumer-metrics", "time-between-poll-avg")
    coordinator = {name.tags["node-id"] for name in found._metrics if "node-id" in name.tags}
    assert any(node.startswith("node-21474836") for node in coordinator)


async def test_a_partition_has_metrics_while_it_is_assigned(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(2)
    async with Consumer(bootstrap_servers=any_broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert {name.tags["partition"] for name in consumer.metrics() if "partition" in name.tags} == {"0", "1"}
        consumer.assign([TopicPartition(topic, 1)])
        assert {name.tags["partition"] for name in consumer.metrics() if "partition" in name.tags} == {"1"}


async def test_a_consumer_without_a_group_has_no_metrics_of_one(any_broker: Broker) -> None:
    async with Consumer(bootstrap_servers=any_broker.bootstrap) as consumer:
        assert {name.group for name in consumer.metrics()}.isdisjoint({"consumer-coordinator-metrics"})


async def test_an_admin_client_measures_every_request(any_broker: Broker, admin: Admin) -> None:
    before = Found(admin.metrics())("admin-client-metrics", "request-total")
    await admin.list_topics()
    found = Found(admin.metrics())
    assert found("admin-client-metrics", "request-total") > before
    assert found("admin-client-node-metrics", "request-latency-avg", node_id="node--1") >= 0


async def test_connections_that_end_are_counted(any_broker: Broker) -> None:
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        await admin.list_topics()
        for connection in admin._cluster.connections:
            connection.abort("a test")
        await eventually(lambda: Found(admin.metrics())("admin-client-metrics", "connection-close-total") == 1)
        assert Found(admin.metrics())("admin-client-metrics", "connection-count") == 0


async def test_the_windows_are_options() -> None:
    options = {"bootstrap_servers": "127.0.0.1:1", "metrics_sample_window_ms": "1000", "metrics_num_samples": 5}
    async with Producer(**options) as producer:  # type: ignore[arg-type]
        sampling = producer._core.metrics._sampling
        assert (sampling.window_s, sampling.windows) == (1.0, 5)
    with pytest.raises(ConfigError, match="metrics_num_samples is 0"):
        Producer(bootstrap_servers="127.0.0.1:1", metrics_num_samples=0)


def test_two_names_are_equal_without_their_descriptions() -> None:
    one, other = (MetricName("n", "g", text, {"client-id": "c"}) for text in ("one", "other"))
    assert one == other and hash(one) == hash(other)
    assert one != MetricName("n", "g", "one", {"client-id": "d"})


async def test_any_thread_can_read_the_metrics_while_another_one_polls(
    any_broker: Broker, new_topic: NewTopicName
) -> None:
    topic = await new_topic()

    def poll(consumer: blocking.Consumer) -> int:
        read = 0
        while not read:
            read = len(consumer.poll(timeout=30.0))
        return read

    with blocking.Consumer(topic, bootstrap_servers=any_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        polling = asyncio.create_task(asyncio.to_thread(poll, consumer))
        found = Found(await asyncio.to_thread(consumer.metrics))
        while found("consumer-metrics", "last-poll-seconds-ago") < 0:
            found = Found(await asyncio.to_thread(consumer.metrics))
        assert not polling.done()
        async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
            await producer.send(topic, b"x")
        assert await polling == 1
    with pytest.raises(ClosedError):
        consumer.metrics()


def test_the_adapter_for_kafka_python_answers_by_group_and_name(any_broker: Broker, fresh: str) -> None:
    with KafkaProducer(bootstrap_servers=any_broker.bootstrap) as producer:
        producer.send(fresh, b"x").get(timeout=20)
        found = producer.metrics()
        assert found is not None
        assert found["producer-metrics"]["record-send-total"] == 1
        assert found[f"producer-topic-metrics.{fresh}"]["record-send-total"] == 1
        assert found["producer-node-metrics.node-1"]["request-total"] >= 1
    with KafkaConsumer(fresh, bootstrap_servers=any_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        while not consumer.poll(1_000):
            pass
        raw = consumer.metrics(raw=True)
        assert raw is not None
        (metric,) = [
            one for name, one in raw.items() if name.name == "records-consumed-total" and "topic" not in name.tags
        ]
        assert metric.metric_name.group == "consumer-fetch-manager-metrics"
        assert metric.value() >= 1
    with KafkaConsumer(bootstrap_servers=any_broker.bootstrap, metrics_enabled=False) as consumer:
        assert consumer.metrics() is None


async def test_authentications_are_counted() -> None:
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
    }
    settings = {"connections.max.reauth.ms": "1500"}
    async with testing.Broker(users={"alice": "wonderland"}, settings=settings) as broker:
        login["bootstrap_servers"] = broker.bootstrap_servers
        async with Admin(**login, sasl_plain_password="wonderland") as admin:
            await admin.list_topics()
            found = Found(admin.metrics())
            assert found("admin-client-metrics", "successful-authentication-total") == 1
            assert found("admin-client-metrics", "successful-reauthentication-total") == 0
            again = "successful-reauthentication-total"
            await eventually(lambda: Found(admin.metrics())("admin-client-metrics", again) == 1)
            assert Found(admin.metrics())("admin-client-metrics", "reauthentication-latency-max") >= 0
        async with Admin(**login, sasl_plain_password="wrong") as admin:
            with pytest.raises(KafkaError):
                await admin.list_topics()
            found = Found(admin.metrics())
            assert found("admin-client-metrics", "failed-authentication-total") == 1
            assert found("admin-client-metrics", "connection-count") == 0
