"""The page's server with groups that a test makes up, and a client that sends exactly what a test writes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort.group_events import MemberFacts
from kohort.model import Millis, TopicPartition
from kohort.watch import Live, SourceKind
from kohort.watch.changes import Committed, GenerationMember, GenerationWritten
from kohort.watch.web import ClusterName, WebOptions, WebServer

WITHIN_S = 30.0
TOKEN = "a token that is long enough"


def now() -> Millis:
    return time.time_ns() // 1_000_000


def generation(
    group_id: str, at: Millis, number: int, topic: str = "orders", **members: tuple[int, ...]
) -> GenerationWritten:
    """A generation of a classic group; each member with the partitions that it has."""
    return GenerationWritten(
        group_id,
        at,
        number,
        "consumer",
        "range" if members else None,
        next(iter(members), None),
        tuple(
            GenerationMember(
                MemberFacts(name, f"client-{name}", f"/10.0.0.{index}"),
                frozenset([topic]),
                frozenset(TopicPartition(topic, number) for number in partitions),
            )
            for index, (name, partitions) in enumerate(members.items())
        ),
    )


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.value["error"])


@dataclass
class Site:
    live: Live
    server: WebServer

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    def apply(self, *changes: Any, at: Millis | None = None) -> None:
        self.live.apply(changes, now() if at is None else at)

    def commit(self, group_id: str, offset: int, partition: int = 0, topic: str = "orders") -> None:
        self.apply(Committed(group_id, now(), TopicPartition(topic, partition), offset))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)

    async def raw(self, request: bytes) -> Answer:
        """Send these bytes, and return the answer of a server that then closes, or keeps the connection open."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            async with asyncio.timeout(WITHIN_S):
                return await read_answer(reader, is_head=request.startswith(b"HEAD"))
        finally:
            writer.close()

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        lines = {"Host": f"127.0.0.1:{self.port}"} | {name.replace("_", "-"): text for name, text in headers.items()}
        head = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
        return await self.raw(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())

    @asynccontextmanager
    async def events(self, query: str = "") -> AsyncIterator[EventStream]:
        reader, writer = await self.connect()
        writer.write(f"GET /events{query} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        try:
            async with asyncio.timeout(WITHIN_S):
                status, _ = await read_head(reader)
            assert status == 200
            yield EventStream(reader)
        finally:
            writer.close()


@dataclass
class EventStream:
    reader: asyncio.StreamReader

    async def next(self, *names: str) -> tuple[str, Any]:
        """Return the name and the data of the next event, or of the next with one of these names."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                fields: dict[str, str] = {}
                while line := (await self._line()):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                if "data" in fields and (not names or fields["event"] in names):
                    return fields["event"], json.loads(fields["data"])

    async def _line(self) -> str:
        """Return a line of the body, which is sent in chunks."""
        while b"\n" not in self._text:
            size = int((await self.reader.readline()).strip() or b"0", 16)
            if not size:
                raise EOFError
            self._text += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        line, _, self._text = self._text.partition(b"\n")
        return line.decode()

    _text: bytes = b""


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in head[1:] if line)
    return int(head[0].split()[1]), {name.lower(): value for name, _, value in pairs}


async def read_answer(reader: asyncio.StreamReader, *, is_head: bool = False) -> Answer:
    status, headers = await read_head(reader)
    if is_head or status == 204:
        return Answer(status, headers, b"")
    if "content-length" in headers:
        return Answer(status, headers, await reader.readexactly(int(headers["content-length"])))
    return Answer(status, headers, await reader.read())


@asynccontextmanager
async def site(token: str | None = None, **options: Any) -> AsyncIterator[Site]:
    live = Live(history_from=now() - 3_600_000)
    web = WebOptions(port=0, token=token, **options)
    async with WebServer(live, web, cluster=ClusterName("kafka:9092", "shop")) as server:
        live.source(SourceKind.LOG, "following", now())
        yield Site(live, server)
