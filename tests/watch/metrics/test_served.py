"""`/metrics` of a real cluster that is watched, scraped over HTTP."""

from __future__ import annotations

import asyncio
from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from kohort import Consumer, Producer
from kohort.testing import Broker
from kohort.watch.metrics import MetricsOptions
from kohort.watch.web import ClusterName, ServingOptions, WebOptions, serving


async def scraped(url: str, accept: str) -> list[Sample]:
    def ask() -> tuple[str, str]:
        with urlopen(Request(f"{url}/metrics", headers={"Accept": accept}), timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    kind, body = await asyncio.to_thread(ask)
    assert kind.startswith(accept)
    parse = parse_openmetrics if "openmetrics" in accept else parse_text
    return [sample for family in parse(body) for sample in family.samples]


def follows(samples: list[Sample]) -> bool:
    """Return whether the watcher follows the log, so that it will see the next rebalance."""
    name = "kohort_watch_source_following"
    return any(s.name == name and s.labels["source"] == "log" and s.value == 1 for s in samples)


def joined(samples: list[Sample]) -> float:
    """Return the number of rebalances in which the first member came."""
    name = "kohort_group_rebalances_total"
    return sum(s.value for s in samples if s.name == name and s.labels["cause"] == "first member")


async def test_a_watched_group_is_scraped_in_both_formats() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        options = ServingOptions(
            WebOptions(port=0),
            {"bootstrap_servers": servers},
            ClusterName(servers, "main"),
            history_ms=0,
            metrics=MetricsOptions("main"),
        )
        async with asyncio.timeout(120), Producer(bootstrap_servers=servers) as producer:
            await (await producer.send("orders", b"value"))
            async with serving(options) as server:
                while not follows(await scraped(server.url, "text/plain")):
                    pass
                consumer = Consumer(
                    "orders",
                    bootstrap_servers=servers,
                    client_id="worker",
                    group_id="g",
                    auto_offset_reset="earliest",
                )
                async with consumer:
                    while not await consumer.poll():
                        pass
                    await consumer.commit()
                    text, openmetrics = "text/plain", "application/openmetrics-text"
                    while not joined(samples := await scraped(server.url, text)) or not any(
                        s.name == "kafka_consumergroup_group_lag" for s in samples
                    ):
                        await consumer.poll(timeout=0.1)
                    assert joined(samples) == joined(await scraped(server.url, openmetrics)) == 1
        (lag,) = (s for s in samples if s.name == "kafka_consumergroup_group_lag")
        assert lag.value == 0
        assert (lag.labels["cluster_name"], lag.labels["group"], lag.labels["client_id"]) == ("main", "g", "worker")
        assert follows(samples)
