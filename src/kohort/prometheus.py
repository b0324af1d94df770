"""Metrics of clients for Prometheus: a collector for applications that use prometheus_client.

The names are those that the JMX exporter gives to the metrics of Java's clients, so dashboards and
rules for these apply. The package needs the extra `prometheus`.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kohort.client import MetricName

MetricValue = float | int | str
_WITHIN_S = 10.0
"""Time within which the event loop of a client must answer a scrape."""
_DOMAINS = ("consumer", "producer", "admin-client")


class Client(Protocol):
    """Consumer, producer or admin client, for asyncio or for threads."""

    def metrics(self) -> Mapping[MetricName, MetricValue]:
        """Return the metrics."""


class ClientCollector(Collector):
    """Collector of clients' metrics: `REGISTRY.register(ClientCollector(consumer, producer))`.

    Use one collector for all clients of a registry, because each name may be described only once.
    Remove a client before it is closed. An asyncio client must be added in its event loop; scrapes may
    come from any thread.
    """

    def __init__(self, *clients: Client) -> None:
        """Create it, with the first clients."""
        self._clients: dict[Client, asyncio.AbstractEventLoop | None] = {}
        for client in clients:
            self.add(client)

    def add(self, client: Client) -> None:
        """Add a client."""
        self._clients[client] = _running_loop()

    def remove(self, client: Client) -> None:
        """Remove a client. Nothing happens if it is not there."""
        self._clients.pop(client, None)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the names depend on what the clients do, so the registry does not check them."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the families of a scrape. Raises TimeoutError if the event loop of a client is blocked."""
        families: dict[str, Metric] = {}
        for client, loop in list(self._clients.items()):
            metrics = _read(client, loop)
            domain = _domain(metrics)
            for name, value in metrics.items():
                _add(families, domain, name, value)
        return families.values()


def _read(client: Client, loop: asyncio.AbstractEventLoop | None) -> Mapping[MetricName, MetricValue]:
    if loop is None or loop is _running_loop():
        return client.metrics()
    # The client changes while its loop runs, so only its loop may read it.
    return asyncio.run_coroutine_threadsafe(_in_loop(client), loop).result(_WITHIN_S)


def _in_loop(client: Client) -> Coroutine[Any, Any, Mapping[MetricName, MetricValue]]:
    async def read() -> Mapping[MetricName, MetricValue]:
        return client.metrics()

    return read()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _domain(metrics: Iterable[MetricName]) -> str:
    """Return the domain of the client's MBeans in Java, as part of a name."""
    groups = {name.group for name in metrics}
    return next(domain for domain in _DOMAINS if any(group.startswith(f"{domain}-") for group in groups))


def _add(families: dict[str, Metric], domain: str, name: MetricName, value: MetricValue) -> None:
    series = "_".join(("kafka", domain, name.group, name.name)).replace("-", "_").replace(".", "_")
    tags = {tag.replace("-", "_"): text for tag, text in name.tags.items()}
    if isinstance(value, str):
        tags[name.name.replace("-", "_")] = value
        value = 1
    is_counter = name.name.endswith("-total")
    family = families.get(series)
    if family is None:
        kind = CounterMetricFamily if is_counter else GaugeMetricFamily
        family = families[series] = kind(series.removesuffix("_total"), name.description)
    sample = family.name + "_total" if is_counter else family.name
    family.add_sample(sample, tags, value)
