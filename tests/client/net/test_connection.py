"""A connection, and the error for an address that belongs to another kind of server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kohort import Cluster, ErrorCode, KafkaError
from kohort.client.net.connection import BrokerConnection
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.interop.broker import Broker

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler], Awaitable[int]]]:
    """Serve on a free port until the test ends."""
    servers: list[asyncio.Server] = []

    async def start(handler: Handler) -> int:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await handler(reader, writer)
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


async def connect(port: int, request_timeout_ms: int = 5_000) -> BrokerConnection:
    return await BrokerConnection.connect(
        "127.0.0.1", port, client_id="test", request_timeout_ms=request_timeout_ms, setup_timeout_ms=1_000
    )


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap.rpartition(":")[2])


async def test_requests_are_answered_in_their_order(any_broker: Broker) -> None:
    connection = await connect(port_of(any_broker))
    answers = [connection.send(MetadataRequest(topics=[])) for _ in range(20)]
    assert connection.in_flight == 20
    for answer in answers:
        assert isinstance(await answer, MetadataResponse)
    await connection.close()
    await connection.close()
    assert not connection.open


async def test_waiting_requests_fail_when_the_connection_ends(any_broker: Broker) -> None:
    connection = await connect(port_of(any_broker))
    answer = connection.send(MetadataRequest(topics=[]))
    await connection.close()
    with pytest.raises(KafkaError) as raised:
        await answer
    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
    with pytest.raises(KafkaError):
        await connection.request(MetadataRequest(topics=[]), MetadataResponse)


async def test_a_port_without_a_listener(serve: Callable[[Handler], Awaitable[int]]) -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    port = await serve(end)
    with pytest.raises(KafkaError, match="closed the connection"):
        await connect(port)
    with pytest.raises(KafkaError, match=r"cannot connect to 127\.0\.0\.1:1"):
        await connect(1)


@pytest.mark.parametrize("host", ["broker..example.com", "b" * 64 + ".example.com"])
async def test_a_host_that_no_resolver_takes(host: str) -> None:
    # A resolver raises UnicodeError, not OSError, for a label that is empty or has more than 63 characters.
    with pytest.raises(KafkaError, match=f"cannot connect to {host}:9092: the host has no valid name") as raised:
        await BrokerConnection.connect(host, 9092, client_id="test", request_timeout_ms=5_000, setup_timeout_ms=5_000)
    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION


async def test_a_web_server_is_not_a_broker(serve: Callable[[Handler], Awaitable[int]]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    port = await serve(answer)
    with pytest.raises(KafkaError, match="is a web server"):
        await connect(port)


async def test_an_answer_that_no_broker_sends_is_rejected(serve: Callable[[Handler], Awaitable[int]]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"SSH-2.0-OpenSSH_9.2p1\r\n")
        await writer.drain()

    port = await serve(answer)
    with pytest.raises(KafkaError, match="does not speak Kafka's protocol"):
        await connect(port)


async def test_a_server_that_does_not_answer_is_given_up(serve: Callable[[Handler], Awaitable[int]]) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    port = await serve(silent)
    with pytest.raises(KafkaError, match="did not answer within 1000 ms"):
        await connect(port)
    with pytest.raises(KafkaError, match="did not answer ApiVersions in time") as raised:
        await connect(port, request_timeout_ms=50)
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_garbage_instead_of_an_answer_ends_the_connection(serve: Callable[[Handler], Awaitable[int]]) -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"\0\0\0\4\0\0\0\1")
        await writer.drain()
        await reader.read()

    port = await serve(garbage)
    with pytest.raises(KafkaError, match="malformed answer to ApiVersions"):
        await connect(port)


async def test_a_cluster_asks_its_other_addresses(any_broker: Broker) -> None:
    async with Cluster.of(f"127.0.0.1:1,{any_broker.bootstrap}") as cluster:
        found = await cluster.refresh()
        assert found.brokers
        connection = await cluster.connection(next(iter(found.brokers)))
        assert connection.open
    assert not connection.open


async def test_an_unreachable_cluster_is_reported() -> None:
    async with Cluster.of("127.0.0.1:1") as cluster:
        with pytest.raises(KafkaError, match=r"cannot connect to 127\.0\.0\.1:1"):
            await cluster.refresh()


async def test_a_cluster_that_is_closed_while_it_connects_leaves_nothing(
    serve: Callable[[Handler], Awaitable[int]],
) -> None:
    connecting = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connecting.set()
        await reader.read()

    cluster = Cluster.of(f"127.0.0.1:{await serve(silent)}")
    refresh = asyncio.ensure_future(cluster.refresh())
    await connecting.wait()
    await cluster.close()
    await cluster.close()
    with pytest.raises(KafkaError):
        await refresh
