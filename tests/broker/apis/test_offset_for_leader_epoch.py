"""OffsetForLeaderEpoch and DescribeProducers: what a partition remembers of leaders and of producers."""

from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.batches import Record, encode_batch, read_header
from kohort.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to

NOW = 1_700_000_000_000


async def store(peer: Peer, count: int, producer_id: int = -1, sequence: int = -1) -> None:
    """Store a batch of that many records."""
    rows = [Record(index, NOW, None, b"x", ()) for index in range(count)]
    epoch = -1 if producer_id < 0 else 3
    records = encode_batch(rows, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])
    answer = await peer.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def end_of(
    peer: Peer, epoch: int, *, topic: str = "orders", partition: int = 0, current: int = -1, version: int = 4
) -> tuple[int, int, int]:
    """Error, epoch and end offset."""
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
    answer = await peer.ask(request, version, OffsetForLeaderEpochResponse)
    (found,) = answer.topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_every_version_returns_the_end_of_the_leaders_own_epoch(peer: Peer, broker: Broker, version: int) -> None:
    broker.topics.create("orders", 1)
    assert await end_of(peer, 0, version=version) == (ErrorCode.NONE, 0, 0)
    await store(peer, 3)
    assert await end_of(peer, 0, version=version) == (ErrorCode.NONE, 0, 3)


async def test_each_start_of_a_broker_is_an_epoch_and_each_epochs_end_is_found(
    start_broker: MakeBroker, tmp_path: Path
) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data")
    for batches in ([1] * 5, [40], [], [2, 2]):  # epochs 0 to 3; nothing was written in epoch 2
        broker = await start_broker(options)
        if broker.topics.named("orders") is None:
            broker.topics.create("orders", 1)
        async with talking_to(broker) as peer:
            for count in batches:
                await store(peer, count)
        await broker.stop()
    broker = await start_broker(options)
    async with talking_to(broker) as peer:
        assert broker.partition("orders", 0) is not None
        assert [await end_of(peer, epoch) for epoch in range(-2, 6)] == [
            (0, -2, 0),  # before all records: they begin at 0
            (0, -1, -1),
            (0, 0, 5),
            (0, 1, 45),
            (0, 1, 45),  # an epoch without records ended where the last one with some did
            (0, 3, 49),
            (0, 4, 49),  # this broker's
            (0, -1, -1),
        ]


@pytest.mark.parametrize(
    ("topic", "partition", "current", "code"),
    [
        ("nobody", 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", -1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0, 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_a_failed_lookup_has_a_reason(
    peer: Peer, broker: Broker, topic: str, partition: int, current: int, code: ErrorCode
) -> None:
    broker.topics.create("orders", 1)
    assert await end_of(peer, 0, topic=topic, partition=partition, current=current) == (code, -1, -1)


async def test_a_client_with_an_older_leader_epoch_is_fenced(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data")
    first = await start_broker(options)
    first.topics.create("orders", 1)
    await first.stop()
    async with talking_to(await start_broker(options)) as peer:
        assert await end_of(peer, 0, current=0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)


async def producers(peer: Peer, topic: str, *partitions: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(partitions))])
    (found,) = (await peer.ask(request, 0, DescribeProducersResponse)).topics
    return found.partitions


async def test_a_partition_names_its_idempotent_producers(peer: Peer, broker: Broker) -> None:
    broker.topics.create("orders", 2)
    await store(peer, 2)
    await store(peer, 2, producer_id=7, sequence=0)
    await store(peer, 3, producer_id=7, sequence=2)
    mine, other = await producers(peer, "orders", 0, 1)
    (state,) = mine.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence, state.last_timestamp) == (7, 3, 4, NOW)
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1), "there are no transactions"
    assert (other.error_code, other.active_producers) == (ErrorCode.NONE, [])


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no good", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_producers_of_missing_partitions_are_errors(
    peer: Peer, broker: Broker, topic: str, code: ErrorCode
) -> None:
    broker.topics.create("orders", 1)
    (found,) = await producers(peer, topic, 9)
    assert (found.error_code, bool(found.error_message), found.active_producers) == (code, True, [])


async def test_a_position_in_a_gap_of_a_compacted_log_is_not_a_loss(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data", settings={"log.cleaner.enable": "false"})
    configs = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01"}
    for epoch in range(3):
        broker = await start_broker(options)
        if epoch == 0:
            broker.topics.create("orders", 1, configs)
        log = broker.partition("orders", 0)
        assert log is not None
        for _ in range(10):
            log.append(encode_batch([Record(0, NOW, b"k", b"x" * 600)]), log.leader_epoch)
        broker.writer.current()
        await broker.writer.drain()
        if epoch == 2:
            assert await broker.cleaner.clean() == 1
            first = log.read(0, 1)[0]
            assert read_header(first).base_offset > 25
            async with talking_to(broker) as peer:
                # Kafka remembers that epoch 1 ended at 20; later is as good, before it none may be told.
                for asked in (0, 1):
                    code, found, end = await end_of(peer, asked)
                    assert (code, found <= asked, end >= 10 * (asked + 1)) == (ErrorCode.NONE, True, True)
                assert await end_of(peer, 2) == (ErrorCode.NONE, 2, 30)
        await broker.stop()
