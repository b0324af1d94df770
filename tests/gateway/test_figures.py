"""Metrics of a gateway, and the page that shows them."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat

import pytest

from kohort.client import Consumer
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.gateway.figures import GatewayMetrics
from kohort.lab.process import ServerProcess
from kohort.testing import Broker
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.peer import Peer
from tests.interop.kohort import kohort

pytestmark = pytest.mark.timeout(90)
READY_S = 40.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # Its own held heartbeats would leave none to the gateway.
    with Broker(settings={"group.heartbeat.hold.ms": "0"}, topics={"orders": 2}) as broker:
        yield broker


def gateway_to(broker: Broker, **settings: str) -> Gateway:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Gateway(GatewayOptions([Address(broker.host, broker.port)], Address("127.0.0.1", 0), named))


async def shown(metrics: GatewayMetrics) -> dict[str, float]:
    text = (await metrics.part_for(False)).decode()
    samples = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in samples}


async def until(metrics: GatewayMetrics, is_so: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    async with asyncio.timeout(20):
        for _ in repeat(None):
            if is_so(found := await shown(metrics)):
                break
            await asyncio.sleep(0.01)
    return found


async def connected(gateway: Gateway) -> Peer:
    return Peer(*await asyncio.open_connection(gateway.address.host, gateway.address.port))


async def ended(peer: Peer) -> None:
    with suppress(ConnectionResetError):
        await peer.reader.read()
    peer.writer.transport.abort()


async def test_connections_and_bytes_are_counted(broker: Broker) -> None:
    async with gateway_to(broker, max_connections="2") as gateway:
        metrics = GatewayMetrics(gateway)
        peers = [await connected(gateway) for _ in range(2)]
        sizes = []
        for peer in peers:
            await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            sizes.append((await shown(metrics))['kohort_gateway_received_bytes_total{peer="client"}'])
        assert sizes[1] == 2 * sizes[0] > 0
        (first, second) = gateway.links
        answered = (await shown(metrics))['kohort_gateway_received_bytes_total{peer="broker"}']
        assert answered == first.upstream.received + second.upstream.received != sizes[1]
        await ended(await connected(gateway))
        found = await until(metrics, lambda found: found["kohort_gateway_connections"] == 2)
        assert found["kohort_gateway_connections_opened_total"] == 3
        assert found['kohort_gateway_connections_refused_total{reason="max.connections"}'] == 1
        peers[0].writer.write(b"GET / HTTP/1.1\r\n\r\n")
        for peer in peers:
            if peer is peers[1]:
                peer.writer.write_eof()
            await ended(peer)
        found = await until(metrics, lambda found: found["kohort_gateway_connections"] == 0)
        assert found['kohort_gateway_connections_ended_total{reason="protocol"}'] == 1
        assert found['kohort_gateway_received_bytes_total{peer="client"}'] > sizes[1]
        assert found['kohort_gateway_received_bytes_total{peer="broker"}'] > 0
        assert (found["kohort_gateway_brokers"], found["kohort_gateway_unreachable_brokers"]) == (1, 0)
        assert "kohort_gateway_rebalances_total" not in found


async def test_held_heartbeats_and_probes_are_counted(broker: Broker) -> None:
    async with gateway_to(broker) as gateway:
        metrics = GatewayMetrics(gateway)
        async with Consumer(
            "orders", bootstrap_servers=str(gateway.address), group_id="counted", group_protocol="consumer"
        ) as consumer:
            while not consumer.assignment:
                await consumer.poll(timeout=0.05)
            await until(metrics, lambda found: found["kohort_gateway_held_heartbeats"] == 1)
            await until(metrics, lambda found: found["kohort_gateway_probes_total"] > 0)


async def test_brokers_that_cannot_be_reached_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with Gateway(GatewayOptions([Address("127.0.0.1", port)], Address("127.0.0.1", 0))) as gateway:
        await ended(await connected(gateway))
        assert (await shown(GatewayMetrics(gateway)))["kohort_gateway_unreachable_brokers"] == 1


async def test_an_address_that_a_broker_has_left_is_not_counted(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with gateway_to(broker) as gateway:
        metrics = GatewayMetrics(gateway)
        await until(metrics, lambda found: found["kohort_gateway_brokers"] == 1)
        (node_id, address), *_ = gateway.brokers.upstream.items()
        gateway.brokers.learn(node_id, Address("127.0.0.1", port))
        place = gateway._doors[0].open_for(node_id)
        await ended(Peer(*await asyncio.open_connection(place.host, place.port)))
        await until(metrics, lambda found: found["kohort_gateway_unreachable_brokers"] == 1)
        gateway.brokers.learn(node_id, address)
        await until(metrics, lambda found: found["kohort_gateway_unreachable_brokers"] == 0)


def opened(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def gateway_command(broker: Broker, *options: str) -> list[str]:
    return kohort("gateway", "--upstream", broker.bootstrap_servers, "--listen", "127.0.0.1:0", *options)


async def test_the_page_shows_groups_and_the_gateways_metrics(broker: Broker) -> None:
    process = ServerProcess(gateway_command(broker, "--web", "127.0.0.1:0"))
    try:
        at = process.wait_for(r"^ready (\d\S+)$", READY_S)[1]
        url = process.wait_for(r"^ready (http\S+)$", READY_S)[1]
        async with Consumer("orders", bootstrap_servers=at, group_id="seen", group_protocol="consumer") as consumer:
            while not consumer.assignment:
                await consumer.poll(timeout=0.05)
            async with asyncio.timeout(30):
                await _listed(url, "seen")
            text = await _get(f"{url}/metrics")
        assert re.search(r"^kohort_gateway_connections [1-9]", text, re.MULTILINE)
        assert re.search(r'^kohort_gateway_received_bytes_total\{peer="client"\} [1-9]', text, re.MULTILINE)
        assert 'group="seen"' in text
        assert process.stop() == 0
    finally:
        process.kill()


async def _listed(url: str, group_id: str) -> None:
    for _ in repeat(None):
        groups = json.loads(await _get(f"{url}/api/groups"))["groups"]
        if any(group["group"] == group_id for group in groups):
            return
        await asyncio.sleep(0.05)


async def _get(url: str) -> str:
    return await asyncio.to_thread(opened, url)


async def test_a_page_that_cannot_be_served_does_not_end_the_gateway(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = ServerProcess(gateway_command(broker, "--web", f"127.0.0.1:{taken.getsockname()[1]}"))
        try:
            at = process.wait_for(r"^ready (\d\S+)$", READY_S)[1]
            process.wait_for("The page is not served: .*Address already in use", READY_S)
            host, _, port = at.rpartition(":")
            peer = Peer(*await asyncio.open_connection(host, int(port)))
            assert (await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)).brokers
            peer.writer.close()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--webhook", "https://example.com/hook"), "--webhook needs the watcher: add --web"),
        (("--web", "nowhere"), "--web takes HOST:PORT"),
        (("--web", "0.0.0.0:9464"), "Other machines could read the page"),
    ],
)
def test_a_page_that_nobody_may_serve_is_a_wrong_use(broker: Broker, options: tuple[str, ...], sentence: str) -> None:
    process = ServerProcess(gateway_command(broker, *options))
    try:
        assert process.wait(READY_S) == 2
        assert sentence in process.output().replace("\n", " ")
    finally:
        process.kill()
