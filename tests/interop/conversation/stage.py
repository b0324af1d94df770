"""Where a scene plays: connections to one broker, members that remember what they were told, and the transcript.

    @scene
    async def a_late_sync(s: Stage) -> None:
        a = s.member("a")
        await a.enters()
        await a.sync("the leader's", {a: "x"})
        await a.sync("again, late")

Each call with a name in it is one exchange: it is sent to either broker, and the two answers are compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.api import APIS
from kohort.wire.codec import DecodeError, Message, Struct, decode, encode
from kohort.wire.consumer_protocol import Subscription, encode_subscription
from kohort.wire.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.delete_topics import DeleteTopicsRequest
from kohort.wire.header import read_response_header, request_header
from kohort.wire.heartbeat import HeartbeatRequest
from kohort.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.list_groups import ListGroupsResponse
from kohort.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kohort.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.interop.conversation.plain import Names, Plain

PATIENCE = 30.0
"""Seconds that any answer may take; nothing waits so long when all is well."""
PARKED_AFTER = 0.15
"""Seconds without an answer after which a request counts as one that waits."""

CLOSED: dict[str, Plain] = {"": "closes the connection"}
WAITS: dict[str, Plain] = {"": "waits"}
NOTHING: dict[str, Plain] = {"": "no answer"}

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what was answered."""

    name: str
    said: str
    answer: dict[str, Plain]


class Connection:
    """One connection: answers come in the order of the requests."""

    def __init__(self, stage: Stage, client_id: str) -> None:
        self.stage = stage
        self.client_id = client_id
        self.parked: list[tuple[type[Message], int]] = []
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._reading: asyncio.Task[bytes | None] | None = None

    async def send(self, key: int, version: int, body: bytes) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self.stage.address)
            self.stage.open.append(self)
        frame = request_header(key, version, 7, self.client_id) + body
        self._streams[1].write(struct.pack(">i", len(frame)) + frame)

    async def receive(self, timeout: float) -> bytes | None:
        """The next frame, None when the connection is closed; TimeoutError leaves it readable."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._frame())
        async with asyncio.timeout(timeout):
            frame = await asyncio.shield(self._reading)
        self._reading = None
        return frame

    async def _frame(self) -> bytes | None:
        assert self._streams is not None
        reader = self._streams[0]
        try:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            return await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._streams = None
            return None

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Client:
    """Somebody who asks; it takes another connection while a request of its waits on the first."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self._connections = [Connection(stage, name)]
        self._waiting: list[tuple[Connection, type[Message], int]] = []

    async def ask(self, name: str, request: Message, v: int) -> Any:
        """One exchange; returns the answer, or None if the connection was closed."""
        connection = await self._send(request, v)
        return await self._answer(name, repr(type(request).__name__), connection, APIS[request.KEY].response, v)

    async def ask_in_vain(self, name: str, request: Message, v: int) -> None:
        """One exchange in which nothing should be heard for a while."""
        await self._parked(name, request, v)

    async def waits(self, name: str, request: Message, v: int) -> None:
        """One exchange that waits; `hears` gets its answer."""
        connection = await self._parked(name, request, v)
        self._waiting.append((connection, APIS[request.KEY].response, v))

    async def hears(self, name: str) -> Any:
        """The answer to the oldest request that waits: an exchange of its own."""
        connection, kind, version = self._waiting.pop(0)
        return await self._answer(name, "(the answer)", connection, kind, version)

    async def raw(self, name: str, key: int, v: int, body: bytes, *, answered_in: int | None = None) -> Any:
        """One exchange of a request whose body is made by hand; `answered_in` another version than asked."""
        connection = self._free()
        await connection.send(key, v, body)
        answer_version = v if answered_in is None else answered_in
        return await self._answer(name, f"{APIS[key].name} v{v} {body!r}", connection, APIS[key].response, answer_version)

    def hangs_up(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()
        self._connections = [Connection(self.stage, self.name)]
        self._waiting = []

    async def _send(self, request: Message, v: int) -> Connection:
        connection = self._free()
        await connection.send(request.KEY, v, encode(request, v))
        return connection

    def _free(self) -> Connection:
        busy = {id(connection) for connection, _, _ in self._waiting}
        for connection in self._connections:
            if id(connection) not in busy:
                return connection
        self._connections.append(Connection(self.stage, self.name))
        return self._connections[-1]

    async def _parked(self, name: str, request: Message, v: int) -> Connection:
        connection = await self._send(request, v)
        try:
            await connection.receive_ahead(PARKED_AFTER)
            answer = {"": "answers at once"}
        except TimeoutError:
            answer = WAITS
        self.stage.write(name, type(request).__name__, answer)
        return connection

    async def _answer(self, name: str, said: str, connection: Connection, kind: type[M], v: int) -> M | None:
        try:
            frame = await connection.receive(PATIENCE)
        except TimeoutError:
            self.stage.write(name, said, NOTHING)
            return None
        if frame is None:
            self.stage.write(name, said, CLOSED)
            return None
        _, position = read_response_header(frame, kind.KEY, v)
        answer = decode(kind, v, frame[position:])
        self.stage.write(name, said, self.stage.plain(answer))
        return answer
