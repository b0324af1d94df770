"""One of the two connections of a `Link`, and the gateway's own requests on the other one."""

from __future__ import annotations

import asyncio

import pytest

from kohort.errors import KafkaError
from kohort.gateway.addresses import Address, Addresses
from kohort.gateway.own_requests import OwnRequests
from kohort.gateway.side import Side
from kohort.gateway.traffic import Traffic
from kohort.wire.messages.api_versions import ApiVersionsRequest


class Both:
    """A `Link` of which only the order of events is of interest."""

    def made(self, side: Side) -> None: ...
    def received(self, side: Side, data: bytes) -> None: ...
    def lost(self, side: Side) -> None: ...
    def other(self, side: Side) -> Side:
        return side


async def test_a_connection_is_read_again_when_the_last_reason_not_to_is_gone() -> None:
    side = Side(Both())
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await asyncio.get_running_loop().create_connection(lambda: side, "127.0.0.1", port)
        side.pause("connecting")
        side.pause("slow reader")
        side.resume("slow reader")
        assert side.is_paused
        assert not side.transport.is_reading()
        side.resume("connecting")
        assert side.transport.is_reading()
        side.abort()


async def test_requests_of_the_gateway_fail_when_the_connection_is_closed() -> None:
    side = Side(Both())
    own = OwnRequests(side, Traffic(Addresses(lambda node_id: Address("gateway", node_id))))
    side.is_open, side._early = True, bytearray()
    side.transport = _Written()
    asked = own.ask(ApiVersionsRequest(), 0)
    assert not asked.done()
    own.end()
    with pytest.raises(KafkaError, match="the broker closed the connection"):
        await asked


class _Written(asyncio.Transport):
    def write(self, data: object) -> None: ...
