"""Answers of one connection on their way to its socket: in order, and counted until they have left."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest

from kohort.broker.net.outbox import Outbox
from kohort.log import FileSlice, FileStore
from kohort.wire.codec import Buffer
from tests.log.logs import append, flush, topic_in


class Transport(asyncio.Transport):
    """Socket that records what is written and sends it at once, unless the test holds it back."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__({"socket": end})
        self.written: list[bytes] = []
        self.kept = 0
        """Bytes that it says it has not sent yet."""
        self._end = end

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))
        self._end.sendall(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.kept


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The broker's end of a connection, and its peer's."""
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        yield here, there


@pytest.fixture
def records(tmp_path: Path) -> Iterator[FileSlice]:
    """Four megabytes in a file: more than a socket takes at once."""
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store), 0)
    append(log, b"records " * 500_000)
    flush(store)
    (part,) = log.send(0, 1 << 30)
    assert isinstance(part, FileSlice)
    yield part
    store.close()


def in_file(records: FileSlice) -> list[Buffer]:
    """An answer with these records, as the codec hands it on."""
    return cast("list[Buffer]", [b"head", records])


def outbox() -> tuple[Outbox, asyncio.Future[OSError | None]]:
    """An outbox, and what it says when a full socket has taken all."""
    loop = asyncio.get_running_loop()
    unblocked: asyncio.Future[OSError | None] = loop.create_future()
    return Outbox(loop, unblocked.set_result), unblocked


async def received(there: socket.socket, size: int) -> bytes:
    found = bytearray()
    async with asyncio.timeout(20):
        while len(found) < size:
            found += await asyncio.get_running_loop().sock_recv(there, 1 << 20)
    return bytes(found)


async def test_small_answers_leave_together_and_hold_nothing(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    box, _ = outbox()
    transport = Transport(here)
    box.add([b"one"])
    box.send(transport)
    box.add([b"two"])
    box.add([b"three"])
    box.send(transport)
    box.send(transport)
    assert transport.written == [b"one", b"twothree"]
    assert (box.held, box.blocked, box.ready) == (0, False, [])
    assert await received(there, 11) == b"onetwothree"


async def test_large_answers_count_from_when_they_are_made_until_they_have_left(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    here, _ = ends
    box, _ = outbox()
    transport = Transport(here)
    for parts in ([b"head", b"body"], [b"a", b"b", b"c"]):
        box.hold(sum(map(len, parts)))
        assert box.held == sum(map(len, parts))
        box.add(list[Buffer](parts))
        box.add([b"small"])
        assert box.held == sum(map(len, parts))
        box.send(transport)
        assert box.held == 0


async def test_answers_of_a_closed_connection_are_not_counted() -> None:
    box, _ = outbox()
    box.hold(8)
    box.add([b"head", b"body"])
    box.send(None)
    assert (box.held, box.ready) == (0, [])


async def test_small_answers_leave_behind_the_file_that_a_full_socket_has_not_taken(
    ends: tuple[socket.socket, socket.socket], records: FileSlice
) -> None:
    here, there = ends
    box, unblocked = outbox()
    transport = Transport(here)
    box.add(in_file(records))
    box.send(transport)
    assert box.blocked
    box.add([b"behind it"])
    box.send(transport)
    box.add([b"and ", b"last"])
    box.send(transport)
    assert transport.written == []
    whole = b"head" + records.read() + b"behind itand last"
    assert await received(there, len(whole)) == whole
    assert await unblocked is None
    assert not box.blocked
    box.add([b"later"])
    box.send(transport)
    assert transport.written == [b"later"], "the transport's own turn again"
    box.close()


async def test_a_file_does_not_overtake_what_the_transport_has_not_sent(
    ends: tuple[socket.socket, socket.socket], records: FileSlice
) -> None:
    here, _ = ends
    here.setblocking(False)
    box, _ = outbox()

    class Slow(Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            self.written.append(bytes(data))

    transport = Slow(here)
    transport.kept = 1
    box.add(in_file(records))
    box.send(transport)
    assert transport.written == [b"head" + records.read()]
    assert not box.blocked


async def test_a_second_file_takes_the_way_of_the_first(
    ends: tuple[socket.socket, socket.socket], records: FileSlice
) -> None:
    here, there = ends
    box, unblocked = outbox()
    transport = Transport(here)
    whole = b"head" + records.read()
    box.add(in_file(records))
    box.send(transport)
    assert await received(there, len(whole)) == whole
    await unblocked
    small = FileSlice(records.file, records.position, 1_000)
    box.add(in_file(small))
    box.send(transport)
    assert await received(there, 1_004) == b"head" + small.read()
    assert transport.written == []
    box.close()
    box.send(transport)
    assert not box.blocked


async def test_a_connection_that_closes_drops_what_is_ready_and_what_waits(
    ends: tuple[socket.socket, socket.socket], records: FileSlice
) -> None:
    here, _ = ends
    box, unblocked = outbox()
    box.add(in_file(records))
    box.send(Transport(here))
    box.add([b"more"])
    box.close()
    assert (box.ready, box.blocked) == ([], False)
    await asyncio.sleep(0)
    assert not unblocked.done()
