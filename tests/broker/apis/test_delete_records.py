"""DeleteRecords, as an admin and a consumer see it."""

import asyncio
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.conftest import Connect, MakeBroker
from tests.broker.peer import Peer, talking_to

TEN = 10
END = -1


async def fill(peer: Peer, broker: Broker) -> None:
    """A topic with ten records, a compacted one without."""
    broker.topics.create("orders", 1)
    broker.topics.create("table", 1, {"cleanup.policy": "compact"})
    for number in range(TEN):
        records = encode_batch([Record(0, 1_700_000_000_000, None, b"%d" % number, ())])
        data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])
        answer = await peer.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def delete(
    peer: Peer, offset: int, topic: str = "orders", partition: int = 0, version: int = 2
) -> tuple[ErrorCode, int]:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=1000)
    (found,) = (await peer.ask(request, version, DeleteRecordsResponse)).topics
    (result,) = found.partitions
    assert isinstance(result, DeleteRecordsPartitionResult)
    return ErrorCode(result.error_code), result.low_watermark


async def read(peer: Peer, offset: int) -> int:
    """The error of a fetch from there."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    request = FetchRequest(max_bytes=1000, topics=[FetchTopic(topic="orders", partitions=[wanted])])
    return (await peer.ask(request, 11, FetchResponse)).responses[0].partitions[0].error_code


@pytest.mark.parametrize("version", range(3))
async def test_every_version_moves_the_start_and_what_lies_before_is_gone(
    peer: Peer, broker: Broker, version: int
) -> None:
    await fill(peer, broker)
    assert await delete(peer, 4, version=version) == (ErrorCode.NONE, 4)
    assert await read(peer, 3) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert await read(peer, 4) == ErrorCode.NONE


async def test_the_start_offset_never_decreases_and_minus_one_is_the_end(peer: Peer, broker: Broker) -> None:
    await fill(peer, broker)
    assert await delete(peer, 6) == (ErrorCode.NONE, 6)
    assert await delete(peer, 2) == (ErrorCode.NONE, 6)
    assert await delete(peer, END) == (ErrorCode.NONE, TEN)
    assert await delete(peer, TEN) == (ErrorCode.NONE, TEN)


@pytest.mark.parametrize(
    ("offset", "topic", "partition", "code"),
    [
        (TEN + 1, "orders", 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, "orders", 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, "orders", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, "orders", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, "nobody", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (END, "table", 0, ErrorCode.POLICY_VIOLATION),
        (END, "__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_a_rejected_deletion_of_records_deletes_nothing(
    peer: Peer, broker: Broker, offset: int, topic: str, partition: int, code: ErrorCode
) -> None:
    await fill(peer, broker)
    assert await delete(peer, offset, topic, partition) == (code, -1)
    assert await read(peer, 0) == ErrorCode.NONE


async def test_records_are_deleted_by_hand_where_no_policy_deletes_them(peer: Peer, broker: Broker) -> None:
    await fill(peer, broker)
    topic = broker.topics.named("orders")
    assert topic is not None
    for policy, code in {
        "": ErrorCode.NONE,
        "compact, delete": ErrorCode.NONE,
        "compact": ErrorCode.POLICY_VIOLATION,
    }.items():
        topic = broker.topics.configure(topic, {"cleanup.policy": policy})
        assert (await delete(peer, 4))[0] == code


async def test_many_partitions_are_deleted_and_others_are_answered_meanwhile(
    peer: Peer, connect: Connect, broker: Broker
) -> None:
    broker.topics.create("wide", 2_000)
    starts = [DeleteRecordsPartition(partition_index=index, offset=END) for index in range(2_000)]
    topics = [
        DeleteRecordsTopic(name="wide", partitions=starts),
        DeleteRecordsTopic(name="wide", partitions=starts[:1]),
    ]
    other = await connect()
    peer.send(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
    await peer.writer.drain()
    answer = asyncio.ensure_future(peer.answer(DeleteRecordsResponse))
    await other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    await other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert not answer.done()
    (found,) = (await answer).topics
    assert [partition.partition_index for partition in found.partitions] == list(range(2_000))
    assert {(partition.error_code, partition.low_watermark) for partition in found.partitions} == {(ErrorCode.NONE, 0)}


async def test_a_client_that_disconnects_leaves_the_rest_undeleted(
    peer: Peer, connect: Connect, broker: Broker
) -> None:
    await fill(peer, broker)
    broker.topics.create("wide", 2_000)
    starts = [DeleteRecordsPartition(partition_index=index, offset=END) for index in range(2_000)]
    hasty = await connect()
    hasty.send(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="wide", partitions=starts)], timeout_ms=1000), 2)
    await hasty.writer.drain()
    hasty.writer.close()
    assert await delete(peer, 4) == (ErrorCode.NONE, 4)


async def test_the_new_start_holds_after_a_restart(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data")
    first = await start_broker(options)
    async with talking_to(first) as peer:
        await fill(peer, first)
        assert await delete(peer, 7) == (ErrorCode.NONE, 7)
    await first.stop()
    async with talking_to(await start_broker(options)) as peer:
        assert await read(peer, 6) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await read(peer, 7) == ErrorCode.NONE
