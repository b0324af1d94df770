"""A peer of connections whose answers a test writes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from kohort.client.net.connection import BrokerConnection
from kohort.wire.api import read_request_header, response_header
from kohort.wire.api.header import RequestHeader
from kohort.wire.codec import Message, decode, encode
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

_M = TypeVar("_M", bound=Message)

API_VERSIONS, HEARTBEAT, METADATA = 18, 12, 3


def supports(*keys: int, newest: int = 99) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[ApiVersion(api_key=key, max_version=newest) for key in keys])


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def answer_to(request: RequestHeader, answer: Message, version: int | None = None) -> bytes:
    """The frame that answers a request, with the body in another version if one is given."""
    header = response_header(request.api_key, request.api_version, request.correlation_id)
    return framed(header + bytes(encode(answer, request.api_version if version is None else version)))


@dataclass
class Peer:
    """What a client is connected to. It answers ApiVersions, and what else the test has an answer for."""

    versions: list[tuple[ApiVersionsResponse, int | None]]
    """Answers to ApiVersions, each with the version of its body; the last one is repeated."""
    port: int = 0
    asked: list[RequestHeader] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: dict[int, Message | None] = field(default_factory=dict)
    """By api key: the answer, or None to end the connection."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has closed its side."""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header = read_request_header(frame)
                self.asked.append(header)
                self.bodies.append(frame[header.body :])
                if header.api_key == API_VERSIONS and self.versions:
                    answer, version = self.versions.pop(0) if len(self.versions) > 1 else self.versions[0]
                    writer.write(answer_to(header, answer, version))
                elif header.api_key in self.answers:
                    fixed = self.answers[header.api_key]
                    if fixed is None:
                        break
                    writer.write(answer_to(header, fixed))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended.set()
        finally:
            writer.transport.abort()

    def requests(self, key: int) -> list[RequestHeader]:
        return [header for header in self.asked if header.api_key == key]

    def read(self, kind: type[_M]) -> list[_M]:
        """The requests of that kind, decoded."""
        both = zip(self.asked, self.bodies, strict=True)
        return [decode(kind, header.api_version, body) for header, body in both if header.api_key == kind.KEY]

    async def connect(self, request_timeout_ms: int = 5_000, setup_timeout_ms: int = 5_000) -> BrokerConnection:
        return await BrokerConnection.connect(
            "127.0.0.1",
            self.port,
            client_id="test",
            request_timeout_ms=request_timeout_ms,
            setup_timeout_ms=setup_timeout_ms,
        )


@asynccontextmanager
async def peer(*versions: tuple[ApiVersionsResponse, int | None]) -> AsyncIterator[Peer]:
    made = Peer(list(versions))
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = int(server.sockets[0].getsockname()[1])
    async with server:
        yield made
        for writer in made.writers:
            writer.transport.abort()
