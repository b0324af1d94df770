"""Brokers that answer what no broker should: the client's connection ends, with a line in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from struct import pack

import pytest

from kohort.errors import ErrorCode
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.wire.api import RequestHeader, read_request_header, request_header, response_header
from kohort.wire.codec import decode, encode
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.broker.peer import Peer, until

pytestmark = pytest.mark.timeout(60)

Answer = Callable[[RequestHeader], bytes]
"""Returns all bytes with which a broker answers a request; the connection ends if there are none."""


@asynccontextmanager
async def gateway_to(answer: Answer) -> AsyncIterator[Gateway]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                answered = answer(read_request_header(await reader.readexactly(size)))
                if not answered:
                    break
                writer.write(answered)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        upstream = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        async with Gateway(GatewayOptions([upstream], Address("127.0.0.1", 0), refresh_s=600)) as gateway:
            yield gateway


async def connected(address: Address) -> Peer:
    return Peer(*await asyncio.open_connection(address.host, address.port))


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def naming(host: str, port: int) -> Answer:
    """A broker that is at that address, as it says."""

    def answer(header: RequestHeader) -> bytes:
        if header.api_key != ApiKey.METADATA:
            return b""
        named = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host=host, port=port)])
        version = header.api_version
        return framed(response_header(ApiKey.METADATA, version, header.correlation_id) + encode(named, version))

    return answer


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        ("broker..example.com", 9092, "the host has no valid name"),
        ("b" * 64 + ".example.com", 9092, "the host has no valid name"),
        ("127.0.0.1", 0, "0 is not a port"),
        ("127.0.0.1", 65_536 + 9092, "74628 is not a port"),
        ("127.0.0.1", -1, "-1 is not a port"),
    ],
)
async def test_a_broker_at_an_impossible_address_is_reported(
    host: str, port: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_to(naming(host, port)) as gateway:
        bootstrap = await connected(gateway.address)
        (named,) = (await bootstrap.ask(MetadataRequest(topics=[]), 12, MetadataResponse)).brokers
        to_broker = await connected(Address(named.host, named.port))
        assert await to_broker.closed()
        to_broker.writer.close()
        bootstrap.writer.close()
    assert f"upstream broker {host}:{port} cannot be reached: {why}" in caplog.text


async def test_a_broker_without_tls_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    # It closes the connection when it gets the first bytes of TLS, which are no request.
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        broker = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        tls = {"security_protocol": "SSL"}
        async with Gateway(GatewayOptions([broker], Address("127.0.0.1", 0), upstream_options=tls)) as gateway:
            client = await connected(gateway.address)
            assert await client.closed()
            client.writer.close()
    assert f"cannot be reached: {broker} closed the connection during the TLS handshake" in caplog.text


async def test_a_broker_that_closes_connections_without_a_response_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = False

    def closing(header: RequestHeader) -> bytes:
        return framed(head_of(header)) if answers else b""

    async def ask(gateway: Gateway) -> None:
        client = await connected(gateway.address)
        client.send_frame(request_header(ApiKey.OFFSET_FETCH, 1, 1, "client"))
        if answers:
            await client.receive_frame()
        else:
            assert await client.closed()
        client.writer.close()

    async with gateway_to(closing) as gateway:
        without_request = await connected(gateway.address)
        without_request.writer.close()
        for expected in (1, 2):
            answers = False
            for _ in range(3):
                await ask(gateway)
            assert caplog.text.count("closes connections before its first response") == expected
            answers = True
            await ask(gateway)
            await until(lambda: not gateway._reached)


async def test_a_client_and_a_broker_that_are_newer_than_the_gateway_use_what_it_knows() -> None:
    def newer(header: RequestHeader) -> bytes:
        """A broker whose ApiVersions has a version that the gateway cannot read."""
        if header.api_key != ApiKey.API_VERSIONS:
            return b""
        version = header.api_version
        known = ApiVersionsResponse(api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=5)])
        if version == 5:
            return framed(response_header(ApiKey.API_VERSIONS, 5, header.correlation_id) + b"\0\0 of version 5")
        if version > 5:
            known.error_code, version = ErrorCode.UNSUPPORTED_VERSION, 0
        return framed(response_header(ApiKey.API_VERSIONS, version, header.correlation_id) + encode(known, version))

    async with gateway_to(newer) as gateway:
        client = await connected(gateway.address)
        client.send_frame(request_header(ApiKey.API_VERSIONS, 5, 1, "client") + b"\2a\0021\0" + bytes(8))
        refused = decode(ApiVersionsResponse, 0, (await client.receive_frame())[4:])
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert refused.api_keys == [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4)]
        assert (await client.ask(ApiVersionsRequest(), 4, ApiVersionsResponse)).api_keys == refused.api_keys
        client.writer.close()


def head_of(header: RequestHeader) -> bytes:
    return response_header(header.api_key, header.api_version, header.correlation_id)


BROKEN: dict[str, tuple[Answer, str]] = {
    "a response to Metadata that is no such response": (
        lambda header: framed(head_of(header) + b"\xff" * 20),
        "the response to Metadata 12 cannot be read",
    ),
    "an empty response": (lambda header: framed(head_of(header)), "the response to Metadata 12 cannot be read"),
    "a response without a header": (lambda header: framed(b"\0\0"), "a response is too short for its header"),
    "a negative size": (lambda header: pack(">i", -1) + head_of(header), "a frame of -1 bytes is outside"),
    "a response that is too large to be read": (
        lambda header: pack(">i", (1 << 31) - 1) + head_of(header),
        "a frame of 2147483647 bytes has more than",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_response_ends_its_connection(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    answer, why = BROKEN[broken]

    def breaking(header: RequestHeader) -> bytes:
        return answer(header) if header.api_key == ApiKey.METADATA else framed(head_of(header))

    async with gateway_to(breaking) as gateway:
        other, client = await connected(gateway.address), await connected(gateway.address)
        client.send(MetadataRequest(topics=[]), 12)
        assert await client.closed()
        client.writer.close()
        other.send_frame(request_header(ApiKey.OFFSET_FETCH, 1, 1, "other"))
        assert await other.receive_frame()  # others are not affected
        other.writer.close()
        assert gateway.figures.ended["protocol"] == 1
    (line,) = (message for message in caplog.messages if "(from the upstream broker)" in message)
    assert f"reason={why}" in line


async def test_a_part_of_a_response_passes_and_its_end_ends_the_connection() -> None:
    def cut(header: RequestHeader) -> bytes:
        if header.api_key == ApiKey.OFFSET_FETCH and header.correlation_id == 1:
            return pack(">i", 100) + head_of(header)
        return b""

    async with gateway_to(cut) as gateway:
        client = await connected(gateway.address)
        client.send_frame(request_header(ApiKey.OFFSET_FETCH, 1, 1, "client"))
        assert await client.reader.readexactly(8) == pack(">ii", 100, 1)
        client.send_frame(request_header(ApiKey.OFFSET_FETCH, 1, 2, "client"))
        assert await client.closed()
        client.writer.close()


async def test_a_response_that_nobody_asked_for_passes() -> None:
    # Clients check the correlation ID, as they do without a gateway.
    async with gateway_to(lambda header: framed(pack(">i", header.correlation_id + 1))) as gateway:
        client = await connected(gateway.address)
        client.send_frame(request_header(ApiKey.METADATA, 12, 1, "client") + encode(MetadataRequest(topics=[]), 12))
        assert await client.receive_frame() == pack(">i", 2)
        client.writer.close()
