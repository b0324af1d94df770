"""Clients that reach a cluster only through the gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from kohort.broker.config import machine_name
from kohort.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


def upstream(cluster: Cluster) -> list[Address]:
    named = (address.rpartition(":") for address in cluster.bootstrap_servers.split(","))
    return [Address(host, int(port)) for host, _, port in named]


@pytest.fixture
async def gateway(cluster: Cluster) -> AsyncIterator[Gateway]:
    async with Gateway(GatewayOptions(upstream(cluster), Address("127.0.0.1", 0))) as gateway:
        yield gateway


async def test_clients_learn_the_gateways_addresses_only(cluster: Cluster, gateway: Gateway) -> None:
    async with Admin(bootstrap_servers=str(gateway.address)) as admin:
        described = await admin.describe_cluster()
    assert described.brokers.keys() == {1, 2, 3}
    named = {Address(broker.host, broker.port) for broker in described.brokers.values()}
    assert len(named) == 3
    assert not named & set(upstream(cluster))
    assert gateway.brokers.upstream.keys() == {1, 2, 3}
    assert set(gateway.brokers.upstream.values()) == set(upstream(cluster))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_records_pass_in_both_directions(gateway: Gateway, protocol: str) -> None:
    servers, topic = str(gateway.address), f"orders-{protocol}"
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(topic, 6)])
    values = [str(number).encode() * 20_000 for number in range(60)]
    async with Producer(bootstrap_servers=servers) as producer:
        await asyncio.gather(*(producer.send(topic, value) for value in values))
    received = []
    async with Consumer(
        topic, group_id=protocol, group_protocol=protocol, bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            received.append(record.value)
            if len(received) == len(values):
                break
    assert sorted(received) == sorted(values)


async def test_requests_without_a_response_pass(gateway: Gateway) -> None:
    servers = str(gateway.address)
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic("unacknowledged", 1)])
    async with Producer(bootstrap_servers=servers, acks=0, enable_idempotence=False) as producer:
        for number in range(100):
            await producer.send("unacknowledged", str(number).encode())
    async with Consumer("unacknowledged", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        received = [record.value async for record in _first(consumer, 100)]
    assert received == [str(number).encode() for number in range(100)]


async def _first(consumer: Consumer, count: int) -> AsyncIterator[ConsumerRecord]:
    async for record in consumer:
        yield record
        count -= 1
        if not count:
            return


async def test_a_gateway_on_all_interfaces_names_this_machine(cluster: Cluster) -> None:
    settings = {"listeners": "PLAINTEXT://:0"}
    async with Gateway(GatewayOptions(upstream(cluster), settings=settings)) as gateway:
        assert gateway.address.host == machine_name()
        async with Admin(bootstrap_servers=f"127.0.0.1:{gateway.address.port}") as admin:
            described = await admin.describe_cluster()
    assert {broker.host for broker in described.brokers.values()} == {machine_name()}
