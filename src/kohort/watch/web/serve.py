"""A cluster with its page: the sources, the state, and the web server, for the time of a block."""

import asyncio
import logging
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kohort.client import KafkaError
from kohort.errors import ConfigError
from kohort.model import Millis
from kohort.watch import Live, Watching
from kohort.watch.metrics import GroupMetrics, MetricsOptions
from kohort.watch.source import clock, cluster_id
from kohort.watch.web.application import Metrics, OtherMetrics
from kohort.watch.web.documents import ClusterName
from kohort.watch.web.log_lines import LogLines
from kohort.watch.web.server import WebOptions, WebServer
from kohort.watch.webhooks import WebhookSettings, sending

_log = logging.getLogger("kohort.watch")

_AGAIN_S = 10.0
"""Pause after the cluster refused to tell its ID."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """What is watched, and where its page is served."""

    web: WebOptions
    client: Mapping[str, Any] = field(repr=False)  # may contain passwords
    """Options of the clients, such as bootstrap_servers."""
    cluster: ClusterName
    history_ms: Millis
    """Age of the history to read first; 0 starts at the end."""
    metrics: MetricsOptions = field(default_factory=MetricsOptions)
    """What /metrics shows."""
    others: OtherMetrics | None = None
    """Further metrics that it shows, such as those of the broker in whose process the page is."""
    webhook: WebhookSettings | None = None
    """Where events are sent."""
    traces: str | None = None
    """URL to which rebalances are exported as traces, as `traces_endpoint` returns it."""


@asynccontextmanager
async def serving(options: ServingOptions) -> AsyncIterator[WebServer]:
    """Serve the page of a cluster. Raises ConfigError if the address or a file cannot be used."""
    live = Live()
    stop_lines = live.subscribe(LogLines().sink)
    metrics = GroupMetrics(live, options.metrics, clock())

    def scrape(openmetrics: bool, others: Iterable[bytes]) -> Generator[None, None, bytes]:
        return metrics.steps(clock(), openmetrics=openmetrics, others=others)

    shown = Metrics(scrape, options.others)
    async with WebServer(live, options.web, cluster=options.cluster, metrics=shown) as server:
        async with Watching(options.client, history_ms=options.history_ms, live=live):
            async with AsyncExitStack() as stack:
                if options.webhook is not None:
                    name = options.cluster.name or options.cluster.bootstrap
                    await stack.enter_async_context(sending(live, options.webhook, cluster=name, page=server.url))
                if options.traces is not None:
                    await stack.enter_async_context(_exporting(live, options.client, options.traces))
                try:
                    yield server
                finally:
                    stop_lines()
                    server.begin_stop()  # browsers leave while the sources close


@asynccontextmanager
async def _exporting(live: Live, client: Mapping[str, Any], endpoint: str) -> AsyncIterator[None]:
    """Export rebalances, as soon as the cluster has told its ID, which the IDs of traces contain."""
    from kohort.watch.otlp import TraceExport

    since = clock()

    async def export() -> None:
        async with TraceExport(live, await _known_cluster_id(client), endpoint, since=since):
            await asyncio.Event().wait()

    task = asyncio.create_task(export(), name="kohort-traces")
    task.add_done_callback(_ended)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _known_cluster_id(client: Mapping[str, Any]) -> str:
    """Wait until the cluster has told its ID, also if it refuses the user at first."""
    reported = None
    while True:
        try:
            return await cluster_id(client)
        except KafkaError as problem:
            if str(problem) != reported:
                reported = str(problem)
                _log.warning("Rebalances are not exported as traces yet: %s", problem)
            await asyncio.sleep(_AGAIN_S)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("Rebalances are no longer exported, because of an error of this program.", exc_info=problem)


async def serve_until(stop: asyncio.Event, server: WebServer) -> None:
    """Wait for `stop`. Raises ConfigError if the server ends by itself."""
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(server.ended())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    if not stop.is_set():
        raise ConfigError("The page can no longer be served; the log says why.")
