"""Metrics of clients, scraped over HTTP as Prometheus does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kohort import Consumer, Producer, blocking
from kohort.prometheus import ClientCollector
from kohort.testing import Broker

Samples = dict[tuple[str, str], float]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as made:
        yield made


def scraped(registry: CollectorRegistry, accept: str) -> Samples:
    """Return each value by its name and its client ID."""
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        with urlopen(Request(f"http://127.0.0.1:{server.server_port}/metrics", headers={"Accept": accept})) as answer:
            body = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    parse = parse_openmetrics if "openmetrics" in accept else parse_text
    return {(s.name, s.labels["client_id"]): s.value for family in parse(body) for s in family.samples}


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text;version=1.0.0"])
async def test_asyncio_clients_are_scraped_from_another_thread(broker: Broker, accept: str) -> None:
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, client_id="shop")
    consumer = Consumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        client_id="worker",
        group_id="g",
        auto_offset_reset="earliest",
    )
    async with producer, consumer:
        await (await producer.send("orders", b"value"))
        while not await consumer.poll():
            pass
        await consumer.commit()
        registry = CollectorRegistry()
        collector = ClientCollector(producer, consumer)
        registry.register(collector)
        found = await asyncio.to_thread(scraped, registry, accept)
        assert found["kafka_producer_producer_metrics_record_send_total", "shop"] == 1
        assert found["kafka_consumer_consumer_fetch_manager_metrics_records_consumed_total", "worker"] == 1
        assert found["kafka_consumer_consumer_coordinator_metrics_assigned_partitions", "worker"] >= 1
        assert found["kafka_consumer_app_info_version", "worker"] == 1
        collector.remove(producer)
        found = await asyncio.to_thread(scraped, registry, accept)
        assert {client for _, client in found} == {"worker"}


def test_clients_of_threads_are_scraped(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, client_id="shop") as producer:
        producer.send("orders", b"value").result()
        registry = CollectorRegistry()
        registry.register(ClientCollector(producer))
        found = scraped(registry, "text/plain")
    assert found["kafka_producer_producer_metrics_record_send_total", "shop"] == 1


async def test_a_scrape_in_the_loop_of_the_client_does_not_wait_for_itself(broker: Broker) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers, client_id="shop") as producer:
        names = {family.name for family in ClientCollector(producer).collect()}
    assert "kafka_producer_producer_metrics_connection_count" in names
