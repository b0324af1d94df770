"""A broker on a disk of four megabytes: full, it refuses and is read from; with room again, it takes appends again."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kohort.errors import ErrorCode
from kohort.wire.batches import Record, batches, decode_records, encode_batch
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import Peer

_MOUNTED = """
set -e
mount -t tmpfs -o size=4m none "$1"
dd if=/dev/zero of="$1/ballast" bs=1M count=2 2>/dev/null
mkdir "$1/data"
exec "$2" -m kohort broker --listen 127.0.0.1:0 --data "$1/data" --set group.initial.rebalance.delay.ms=0
"""


def _can_mount() -> bool:
    """Whether an unprivileged mount namespace is allowed here."""
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _can_mount(), reason="needs a mount namespace of its own (unshare -Urm)")


class Running:
    """A broker process on its own little disk."""

    def __init__(self, process: subprocess.Popen[str], root: Path) -> None:
        assert process.stdout is not None
        self.process = process
        ready = process.stdout.readline().split()
        assert ready[:1] == ["ready"]
        self.host, _, port = ready[1].rpartition(":")
        self.port = int(port)
        self.ballast = Path(f"/proc/{process.pid}/root{root}/ballast")
        """As the broker sees it; nobody else does."""


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Running]:
    command = ["unshare", "-Urm", "sh", "-c", _MOUNTED, "sh", str(tmp_path), sys.executable]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Running(process, tmp_path)
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def talking(tiny: Running) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection(tiny.host, tiny.port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


async def produce(peer: Peer, value: bytes) -> int:
    batch = bytes(encode_batch([Record(0, 1, b"k", value)]))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = await peer.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 7, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


async def consume(peer: Peer) -> list[bytes | None]:
    found: list[bytes | None] = []
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=len(found), partition_max_bytes=1 << 20)
        answer = await peer.ask(FetchRequest(topics=[FetchTopic(topic="t", partitions=[wanted])]), 4, FetchResponse)
        part = answer.responses[0].partitions[0]
        assert part.error_code == ErrorCode.NONE
        records = part.records
        if not records:
            return found
        assert isinstance(records, bytes | bytearray | memoryview)
        found += [record.value for at, _ in batches(records) for record in decode_records(records, at)]


async def commit(peer: Peer, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m" * 4000)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    answer = await peer.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 7, OffsetCommitResponse)
    return answer.topics[0].partitions[0].error_code


async def committed(peer: Peer) -> int:
    while True:
        answer = await peer.ask(OffsetFetchRequest(group_id="g", topics=None), 5, OffsetFetchResponse)
        if answer.error_code == ErrorCode.NONE:
            return answer.topics[0].partitions[0].committed_offset
        await asyncio.sleep(0.02)  # it loads


async def test_full_it_refuses_and_with_room_again_it_takes_appends_again(tiny: Running) -> None:
    async with talking(tiny) as peer:
        new = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
        await peer.ask(new, 5, CreateTopicsResponse)
        assert await commit(peer, 1) == ErrorCode.NONE
        kept = []
        for number in range(100):
            value = b"%d" % number * 50_000
            code = await produce(peer, value)
            if code != ErrorCode.NONE:
                assert code == ErrorCode.KAFKA_STORAGE_ERROR
                break
            kept.append(value)
        assert 5 < len(kept) < 50
        for _ in range(5):
            assert await produce(peer, b"x" * 500_000) == ErrorCode.KAFKA_STORAGE_ERROR
        # The rest of the last page may hold a commit or two; then groups are rejected, too, and nothing else.
        good = 1
        for offset in range(2, 200):
            code = await commit(peer, offset)
            if code != ErrorCode.NONE:
                assert code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                break
            good = offset
        assert await consume(peer) == kept
        assert await committed(peer) == good
        tiny.ballast.unlink()
        assert await produce(peer, b"after") == ErrorCode.NONE
        while await commit(peer, 1000) != ErrorCode.NONE:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert await consume(peer) == [*kept, b"after"]
        assert await committed(peer) == 1000
    os.kill(tiny.process.pid, signal.SIGTERM)
    assert tiny.process.wait(20) == 0
