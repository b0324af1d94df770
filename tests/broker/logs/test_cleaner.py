"""Compaction by the broker: `__consumer_offsets` and tables shrink while it serves, and readers notice nothing."""

import logging
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import PartitionLog
from kohort.wire.batches import Record, batches, decode_records, encode_batch
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to, until

SOON = {"log.cleaner.backoff.ms": "20", "offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "2000"}
TABLE = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01"}


async def commit(peer: Peer, group: str, offset: int) -> None:
    partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=offset + n) for n in range(4)]
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)])
    answer = await peer.ask(request, 7, OffsetCommitResponse)
    assert {partition.error_code for partition in answer.topics[0].partitions} == {ErrorCode.NONE}


async def committed(peer: Peer, group: str) -> list[int]:
    answer = await peer.ask(OffsetFetchRequest(group_id=group, topics=None), 5, OffsetFetchResponse)
    return [partition.committed_offset for topic in answer.topics for partition in topic.partitions]


def offsets_log(broker: Broker) -> PartitionLog:
    found = broker.partition("__consumer_offsets", 0)
    assert found is not None
    return found


@pytest.mark.parametrize("on_disk", [True, False])
async def test_a_million_commits_would_not_fill_the_disk(
    start_broker: MakeBroker, tmp_path: Path, on_disk: bool
) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data" if on_disk else None, settings=SOON)
    broker = await start_broker(options)
    broker.topics.create("t", 4)
    async with talking_to(broker) as peer:
        for number in range(150):
            await commit(peer, f"g{number % 3}", number)
        await until(lambda: offsets_log(broker).size < 9_000)
        assert await committed(peer, "g2") == [149, 150, 151, 152]
    if on_disk:
        await broker.stop()
        again = await start_broker(options)
        async with talking_to(again) as peer:
            assert [await committed(peer, f"g{n}") for n in range(3)] == [
                [n, n + 1, n + 2, n + 3] for n in (147, 148, 149)
            ]


async def fill(broker: Broker, name: str = "table") -> PartitionLog:
    broker.topics.create(name, 1, TABLE)
    log = broker.partition(name, 0)
    assert log is not None
    for number in range(60):
        log.append(encode_batch([Record(0, 1_000 + number, b"k%d" % (number % 3), b"v" * 100)]), log.leader_epoch)
    broker.writer.current()
    await broker.writer.drain()
    return log


async def test_a_consumer_in_a_gap_reads_on_behind_it(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings=SOON))
    log = await fill(broker)
    size = log.size
    await until(lambda: log.size < size / 3)
    async with talking_to(broker) as peer:
        wanted = FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=1 << 20)
        answer = await peer.ask(FetchRequest(topics=[FetchTopic(topic="table", partitions=[wanted])]), 4, FetchResponse)
        part = answer.responses[0].partitions[0]
        assert (part.error_code, part.high_watermark) == (ErrorCode.NONE, 60)
        assert isinstance(part.records, bytes | bytearray | memoryview)
        found = [record for at, _ in batches(part.records) for record in decode_records(part.records, at)]
        assert found[0].offset > 5
        assert {record.key for record in found} == {b"k0", b"k1", b"k2"}
        # The log still starts at 0, as in Kafka: compaction makes gaps, it deletes no range.
        assert [await listed(peer, time) for time in (-2, -1, 1_000)] == [0, 60, found[0].offset]


async def listed(peer: Peer, timestamp: int) -> int:
    topics = [ListOffsetsTopic(name="table", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])]
    answer = await peer.ask(ListOffsetsRequest(topics=topics), 4, ListOffsetsResponse)
    return answer.topics[0].partitions[0].offset


async def test_a_stopping_broker_gives_compaction_up(start_broker: MakeBroker, tmp_path: Path) -> None:
    broker = await start_broker(BrokerOptions(port=0, data=tmp_path / "data", settings=SOON))
    logs = [await fill(broker, f"table-{n}") for n in range(5)]
    await until(lambda: any(log.cleanable_ratio(2_000) == 0 for log in logs))
    await broker.stop()
    left = [path.name for path in (tmp_path / "data").glob("table-*/*")]
    assert left and not [name for name in left if name.endswith((".cleaned", ".swap"))]


async def test_a_damaged_partition_is_left_alone_and_the_others_are_compacted(
    start_broker: MakeBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker(
        BrokerOptions(port=0, data=tmp_path / "data", settings=SOON | {"log.cleaner.enable": "false"})
    )
    damaged, sound = await fill(broker, "damaged"), await fill(broker, "sound")
    first = min((tmp_path / "data" / "damaged-0").glob("*.log"))
    content = bytearray(first.read_bytes())
    content[-3] ^= 1
    first.write_bytes(content)
    size = damaged.size
    with caplog.at_level(logging.INFO):
        assert await broker.cleaner.clean() == 1
        assert await broker.cleaner.clean() == 0
    assert (damaged.size, bytearray(first.read_bytes())) == (size, content)
    assert sound.size < size / 3
    assert caplog.text.count("damaged-0 cannot be compacted: CORRUPT_MESSAGE: the checksum of the batch at offset") == 1


async def test_a_partition_that_cannot_be_compacted_further_is_left_until_the_next_round(
    start_broker: MakeBroker,
) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={"log.cleaner.enable": "false"}))
    broker.topics.create("table", 1, TABLE)
    log = broker.partition("table", 0)
    assert log is not None
    first = encode_batch(
        [Record(0, 1, b"k", b"v")], transactional=True, producer_id=1, producer_epoch=0, base_sequence=0
    )
    log.append(first, log.leader_epoch)
    for _ in range(3):
        log.append(encode_batch([Record(0, 1, b"k", b"v" * 1000)]), log.leader_epoch)
    broker.writer.current()
    await broker.writer.drain()
    assert log.cleanable_ratio(1) == 1
    assert await broker.cleaner.clean() == 0
