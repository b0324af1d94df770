"""A partition whose disk did not confirm a write: refused and readable; the others, and the groups of others, go on."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.groups.coordinator import group_partition
from kohort.errors import ErrorCode
from kohort.log import FileStore
from kohort.log.sync_choice import SyncChoice
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to

Fail = Callable[[str], None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Has every sync of a file fail whose path holds the text; none of the empty text."""
    failing = ""
    fdatasync = os.fdatasync

    def sync(descriptor: int) -> None:
        if failing and failing in os.readlink(f"/proc/self/fd/{descriptor}"):  # noqa: PTH115
            raise OSError(errno.EIO, "Input/output error")
        fdatasync(descriptor)

    def choose(text: str) -> None:
        nonlocal failing
        failing = text

    monkeypatch.setattr(os, "fdatasync", sync)
    return choose


@pytest.fixture
async def broker(start_broker: MakeBroker, tmp_path: Path) -> Broker:
    store = FileStore(tmp_path / "data")
    store.files.disk.choice = SyncChoice(can_sync_together=False)
    broker = await start_broker(BrokerOptions(port=0), store)
    broker.topics.create("t", 2)
    return broker


async def produce(peer: Peer, partition: int) -> int:
    batch = bytes(encode_batch([Record(0, 1, b"k", b"v")]))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=batch)])
    answer = await peer.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 7, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


async def end_of(peer: Peer, partition: int) -> tuple[int, int]:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1000)
    answer = await peer.ask(FetchRequest(topics=[FetchTopic(topic="t", partitions=[wanted])]), 4, FetchResponse)
    part = answer.responses[0].partitions[0]
    return part.error_code, part.high_watermark


async def test_it_refuses_appends_and_is_read_while_the_others_go_on(broker: Broker, fail: Fail) -> None:
    async with talking_to(broker) as peer:
        assert [await produce(peer, n) for n in (0, 1)] == [ErrorCode.NONE] * 2
        fail("t-0")
        assert await produce(peer, 0) == ErrorCode.KAFKA_STORAGE_ERROR
        fail("")
        # Not even now, though the disk would say yes.
        assert [await produce(peer, n) for n in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        assert [await end_of(peer, n) for n in (0, 1)] == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 2)]


async def commit(peer: Peer, group: str) -> int:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)])
    answer = await peer.ask(request, 7, OffsetCommitResponse)
    return answer.topics[0].partitions[0].error_code


async def test_groups_of_a_stopped_shard_get_not_coordinator(broker: Broker, fail: Fail) -> None:
    other = next(name for name in map(str, range(100)) if group_partition(name, 50) != group_partition("g", 50))
    async with talking_to(broker) as peer:
        assert await commit(peer, "g") == ErrorCode.NONE
        fail("__consumer_offsets")
        assert await commit(peer, "g") == ErrorCode.NOT_COORDINATOR
        fail("")
        assert await commit(peer, "g") == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await commit(peer, other) == ErrorCode.NONE


async def test_a_restart_finds_what_was_acknowledged(
    broker: Broker, fail: Fail, start_broker: MakeBroker, tmp_path: Path
) -> None:
    async with talking_to(broker) as peer:
        assert await produce(peer, 0) == ErrorCode.NONE
        fail("t-0")
        assert await produce(peer, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    fail("")
    await broker.stop()
    again = await start_broker(BrokerOptions(port=0, data=tmp_path / "data"))
    async with talking_to(again) as peer:
        assert await end_of(peer, 0) == (ErrorCode.NONE, 1)
        assert await produce(peer, 0) == ErrorCode.NONE
