"""Records that go from files to sockets past the transport: whole, in order with other answers, to slow readers too."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.net.file_sending import FileSending
from kohort.errors import ErrorCode
from kohort.log import FileSlice, FileStore, PartitionLog
from kohort.wire.batches import Record, batches, decode_records, encode_batch
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to, until
from tests.log.logs import append, flush, open_below, topic_in

PARTITIONS = 3
BATCHES = 40


@pytest.fixture
async def broker(start_broker: MakeBroker, tmp_path: Path) -> Broker:
    """Three partitions of four megabytes in several segments."""
    broker = await start_broker(BrokerOptions(port=0, data=tmp_path / "data"))
    topic = broker.topics.create("t", PARTITIONS, {"segment.bytes": "1500000"})
    for partition in range(PARTITIONS):
        log = broker.topics.log(topic, partition)
        assert log is not None
        for number in range(BATCHES):
            records = [Record(0, 1, None, b"%d %d " % (partition, number) * 25_000)]
            log.append(encode_batch(records), log.leader_epoch)
    broker.writer.current()
    await broker.writer.drain()
    return broker


def fetch(offset: int, max_bytes: int = 1 << 20, partitions: int = PARTITIONS) -> FetchRequest:
    wanted = [
        FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=max_bytes) for n in range(partitions)
    ]
    return FetchRequest(topics=[FetchTopic(topic="t", partitions=wanted)])


def values(answer: FetchResponse, partition: int) -> list[bytes | None]:
    part = answer.responses[0].partitions[partition]
    assert part.error_code == ErrorCode.NONE
    assert isinstance(part.records, bytes | bytearray | memoryview)
    return [record.value for at, _ in batches(part.records) for record in decode_records(part.records, at)]


async def test_all_arrives_as_it_was_written(broker: Broker) -> None:
    async with talking_to(broker) as peer:
        found: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
        while len(found[0]) < BATCHES:
            answer = await peer.ask(fetch(len(found[0])), 4, FetchResponse)
            for partition in range(PARTITIONS):
                found[partition] += values(answer, partition)
        assert found == [[b"%d %d " % (p, n) * 25_000 for n in range(BATCHES)] for p in range(PARTITIONS)]


async def test_parts_without_bytes_are_passed_over(broker: Broker) -> None:
    log, loop = broker.partition("t", 0), asyncio.get_running_loop()
    assert log is not None
    (part,) = log.send(0, 1000)
    assert isinstance(part, FileSlice)
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        sending = FileSending(loop, writer, lambda error: None)
        sending.send([b"", b"a", b"", b"", part, b"", b"z", b""])
        found = b""
        while len(found) < len(part) + 2:
            found += await loop.sock_recv(reader, 1 << 20)
        assert found == b"a" + part.read() + b"z"
        sending.send([b"", b""])
        assert not sending.waiting
        sending.close()


def test_large_parts_of_a_log_are_places_in_its_files(tmp_path: Path) -> None:
    store = FileStore(tmp_path, max_open_files=2)
    topic_id = topic_in(store, partitions=6)
    logs: list[PartitionLog] = [store.partition(topic_id, number) for number in range(6)]
    for number, log in enumerate(logs):
        append(log, b"%d" % number * 50_000)
        append(log, b"small")
    flush(store)
    parts = [list(log.send(0, 1 << 20)) for log in logs]
    held = [part for part in parts if isinstance(part[0], FileSlice)]
    # Never more descriptors than twice the limit; later requests get bytes.
    assert 2 <= len(held) <= 4
    assert len(store.files.readers) <= 2
    expected = [b"".join(map(bytes, log.read(0, 1 << 20))) for log in logs]
    found = [
        b"".join(piece.read() if isinstance(piece, FileSlice) else bytes(piece) for piece in part) for part in parts
    ]
    assert found == expected
    assert not isinstance(logs[0].send(1, 1 << 20)[0], FileSlice)
    # A reader that has a slice continues, even if its records were deleted meanwhile.
    store.delete_topic(topic_id)
    flush(store)
    assert b"".join(piece.read() for piece in held[0] if isinstance(piece, FileSlice)) in expected
    del parts, held
    store.close()
    assert open_below(tmp_path) == 0


async def test_a_slow_reader_gets_everything_in_the_order_of_its_requests(broker: Broker) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, limit=1 << 14)
    peer = Peer(reader, writer)
    for number in range(6):
        peer.send(fetch(number * 5), 4)
        peer.send(ApiVersionsRequest(), 0)
    await until(lambda: any(connection.sending_files for connection in broker.sockets))
    for number in range(6):
        answer = await peer.answer(FetchResponse)
        assert values(answer, 2)[:1] == [b"2 %d " % (number * 5) * 25_000]
        assert (await peer.answer(ApiVersionsResponse)).error_code == ErrorCode.NONE
    await peer.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert not any(connection.sending_files for connection in broker.sockets)
    writer.close()


async def test_a_reader_that_disconnects_leaves_no_file_open(broker: Broker, tmp_path: Path) -> None:
    for _ in range(5):
        _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        peer = Peer(asyncio.StreamReader(), writer)
        for number in range(4):
            peer.send(fetch(number), 4)
        await until(lambda: any(connection.sending_files for connection in broker.sockets))
        writer.transport.abort()
        await until(lambda: not any(connection.sending_files for connection in broker.sockets))
    async with talking_to(broker) as peer:
        await peer.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert open_below(tmp_path) > 10
    topic = broker.topics.named("t")
    assert topic is not None
    broker.delete_topic(topic)  # closes what no answer refers to any more
    await until(lambda: open_below(tmp_path) <= 2)  # the directory and its lock


async def test_a_file_that_somebody_cut_ends_the_connection_and_no_more(broker: Broker, tmp_path: Path) -> None:
    path = min((tmp_path / "data" / "t-0").glob("*.log"))
    os.truncate(path, 300_000)
    async with talking_to(broker) as peer:
        peer.send(fetch(0, 1 << 24, partitions=1), 4)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await peer.answer(FetchResponse)
    async with talking_to(broker) as peer:
        answer = await peer.ask(fetch(BATCHES - 1), 4, FetchResponse)
        assert values(answer, 0) == [b"0 %d " % (BATCHES - 1) * 25_000]


async def test_a_file_that_is_cut_while_its_reader_is_slow_ends_the_connection(broker: Broker, tmp_path: Path) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, limit=1 << 14)
    peer = Peer(reader, writer)
    peer.send(fetch(0, 1 << 24, partitions=1), 4)
    await until(lambda: any(connection.sending_files for connection in broker.sockets))
    for path in (tmp_path / "data" / "t-0").glob("*.log"):
        os.truncate(path, 0)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await peer.answer(FetchResponse)
    writer.close()


async def test_nothing_is_read_from_a_slow_reader_of_files_and_it_is_not_idle_while_it_reads(broker: Broker) -> None:
    # Each request that was read could keep another large answer waiting.
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, limit=1 << 14)
    peer, now = Peer(reader, writer), asyncio.get_running_loop().time()
    peer.send(fetch(0, 1 << 24), 4)
    await until(lambda: any(connection.sending_files for connection in broker.sockets))
    (connection,) = broker.sockets
    transport = connection.transport
    assert transport is not None and not transport.is_reading()
    assert not connection.is_idle(10, now + 100), "its request has just arrived"
    await peer.answer(FetchResponse)
    await until(transport.is_reading)
    assert not connection.is_idle(10, now + 200), "it has just read the rest"
    assert connection.is_idle(10, now + 300)
    writer.close()


async def test_a_broker_that_stops_waits_for_no_slow_reader(broker: Broker) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    peer = Peer(asyncio.StreamReader(), writer)
    for number in range(4):
        peer.send(fetch(number), 4)
    await until(lambda: any(connection.sending_files for connection in broker.sockets))
    async with asyncio.timeout(10):
        await broker.stop()
    writer.close()
