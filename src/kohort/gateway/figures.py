"""Metrics of one gateway, for Prometheus and OpenMetrics; docs/gateway.md describes each name."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from kohort.broker.metrics import add_process
from kohort.exposition import Exposition, labels

_WITHIN_S = 5.0
"""Time within which the gateway must answer the page's thread. Prometheus waits for 10 s by default."""


@dataclass(slots=True)
class Figures:
    """What the parts of a gateway count, from its start on."""

    opened: int = 0
    """Connections of clients."""
    refused: Counter[str] = field(default_factory=Counter)
    """Connections that were refused, by the setting that refuses them."""
    ended: Counter[str] = field(default_factory=Counter)
    """Connections that the gateway closed because of what a peer did, by reason."""
    client_bytes: int = 0
    """Bytes that clients sent on connections that are closed by now."""
    upstream_bytes: int = 0
    """Bytes that brokers sent on connections that are closed by now."""
    probes: int = 0
    """Heartbeats that the gateway sent in place of members."""


class _Side(Protocol):
    @property
    def received(self) -> int: ...


class Connection(Protocol):
    """One connection of a client; see `Link`."""

    @property
    def client(self) -> _Side: ...
    @property
    def upstream(self) -> _Side: ...


class Sources(Protocol):
    """The parts of the gateway that the metrics show."""

    @property
    def figures(self) -> Figures: ...
    @property
    def links(self) -> Collection[Connection]: ...
    @property
    def held(self) -> int: ...
    @property
    def known_brokers(self) -> int: ...
    @property
    def unreachable_brokers(self) -> int: ...
    @property
    def rebalances(self) -> int | None: ...
    @property
    def gone_members(self) -> int | None: ...


class GatewayMetrics:
    """Text of all metrics of a gateway on the running event loop."""

    def __init__(self, gateway: Sources) -> None:
        self._gateway = gateway
        self._loop = asyncio.get_running_loop()

    async def part_for(self, openmetrics: bool) -> bytes:
        """Return the metrics as `Exposition.part` does, in the event loop of any thread.

        Raises TimeoutError if the gateway is busy or stopped.
        """

        async def part() -> bytes:
            return self._text(openmetrics=openmetrics).part()

        asked = asyncio.run_coroutine_threadsafe(part(), self._loop)
        return await asyncio.wait_for(asyncio.wrap_future(asked), _WITHIN_S)

    def _text(self, *, openmetrics: bool) -> Exposition:
        text = Exposition(openmetrics=openmetrics)
        gateway, figures = self._gateway, self._gateway.figures
        text.gauge("kohort_gateway_connections", "Open connections of clients.").add("", len(gateway.links))
        text.counter("kohort_gateway_connections_opened", "Connections that clients opened.").add("", figures.opened)
        _by_reason(
            text.counter("kohort_gateway_connections_refused", "Connections refused, by limit.").add, figures.refused
        )
        _by_reason(
            text.counter("kohort_gateway_connections_ended", "Connections closed by the gateway, by reason.").add,
            figures.ended,
        )
        passed = text.counter("kohort_gateway_received_bytes", "Bytes from clients and from brokers.")
        open_client = sum(link.client.received for link in gateway.links)
        open_upstream = sum(link.upstream.received for link in gateway.links)
        passed.add(labels(peer="client"), figures.client_bytes + open_client)
        passed.add(labels(peer="broker"), figures.upstream_bytes + open_upstream)
        text.gauge("kohort_gateway_held_heartbeats", "Heartbeats that are held until there is news.").add(
            "", gateway.held
        )
        text.counter("kohort_gateway_probes", "Heartbeats sent in place of members.").add("", figures.probes)
        text.gauge("kohort_gateway_brokers", "Brokers whose address is known.").add("", gateway.known_brokers)
        text.gauge("kohort_gateway_unreachable_brokers", "Addresses of brokers that could not be reached.").add(
            "", gateway.unreachable_brokers
        )
        if gateway.rebalances is not None:
            text.counter("kohort_gateway_rebalances", "Rebalances in the journal.").add("", gateway.rebalances)
        if gateway.gone_members is not None:
            text.counter("kohort_gateway_gone_members", "Members that did not come back to the gateway.").add(
                "", gateway.gone_members
            )
        add_process(text)
        return text


def _by_reason(add: Callable[[str, float], None], counts: Counter[str]) -> None:
    for reason, count in sorted(counts.items()):
        add(labels(reason=reason), count)
