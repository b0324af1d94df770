"""Markers of transactions in a compacted topic: our cleaner keeps and removes the same ones as Apache Kafka's."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from kohort.errors import ErrorCode
from kohort.wire.batches import Record, batches, encode_batch
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.peer import Peer, connected
from tests.interop.kafka import running_kafka
from tests.interop.kohort import running_kohort
from tests.interop.test_compaction import NOW, SOON, TABLE, produce

SETTINGS = {**SOON, "transaction.partition.verification.enable": "false"}
ROUNDS = 60
"""Each gives the cleaner a reason for a pass. Eight are enough; a busy machine may need more."""
NEEDED = [6, 10, 12]
"""Markers of transactions with a batch, which may be the empty last one of its producer, and the last one of 1,002."""


class Left(NamedTuple):
    """A batch as compaction left it."""

    offset: int
    producer_id: int
    epoch: int
    is_control: bool
    has_records: bool
    """False for a marker: of the last one of a producer, Kafka keeps the header, and we the whole."""


async def written(peer: Peer, topic: str) -> None:
    """Write transactions: of one producer, of one with an epoch per transaction, and one that is aborted last."""

    async def put(key: bytes, value: bytes, producer: int, epoch: int, at: int) -> None:
        batch = encode_batch(
            [Record(0, NOW, key, value)],
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=at,
            transactional=True,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id="t", acks=-1, timeout_ms=10_000, topic_data=[data])
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        while code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            answer = await peer.ask(request, 11, ProduceResponse)
            code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        assert code is ErrorCode.NONE

    async def end(producer: int, epoch: int, *, commit: bool) -> None:
        marker = WritableTxnMarker(
            producer_id=producer,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            coordinator_epoch=0,
        )
        answer = await peer.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE

    await put(b"a", b"1", 1_001, 0, 0)
    await end(1_001, 0, commit=True)
    await put(b"b", b"1", 1_001, 0, 1)
    await end(1_001, 0, commit=False)
    await put(b"a", b"2", 1_001, 0, 2)
    await end(1_001, 0, commit=True)
    await put(b"c", b"1", 1_002, 0, 0)
    await end(1_002, 1, commit=True)
    await put(b"c", b"2", 1_002, 1, 0)
    await end(1_002, 2, commit=True)
    await put(b"d", b"1", 1_003, 0, 0)
    await end(1_003, 0, commit=False)
    await produce(peer, topic, bytes(encode_batch([Record(0, NOW, b"c", b"3")])))


async def contents(peer: Peer, topic: str) -> list[Left]:
    """Return the batches that `written` wrote."""
    found: list[Left] = []
    offset = 0
    while offset <= 12:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 22)
        request = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])])
        part = (await peer.ask(request, 4, FetchResponse)).responses[0].partitions[0]
        assert part.error_code == ErrorCode.NONE
        assert isinstance(part.records, bytes | bytearray | memoryview)
        for _, header in batches(part.records):
            offset = header.next_offset
            if offset <= 13:
                has_records = header.record_count > 0 and not header.is_control
                who = header.producer_id, header.producer_epoch
                found.append(Left(header.base_offset, *who, header.is_control, has_records))
    return found


async def compacted(bootstrap: str, topic: str) -> list[Left]:
    """Write the transactions, and return what is left when the cleaner is done."""
    async with connected(bootstrap) as peer:
        configs = TABLE | {"delete.retention.ms": "1"}
        new = CreatableTopic(
            name=topic,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        created = await peer.ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 5, CreateTopicsResponse)
        assert created.topics[0].error_code == ErrorCode.NONE
        await produce(peer, topic, bytes(encode_batch([Record(0, NOW, b"filler", b"")])))
        await written(peer, topic)
        found: list[Left] = []
        settled = 0
        for _ in range(ROUNDS):
            for _ in range(2):
                await produce(peer, topic, bytes(encode_batch([Record(0, NOW, b"filler", bytes(600_000))])))
            await asyncio.sleep(1)
            found = [one for one in await contents(peer, topic) if one.offset > 0]
            settled = settled + 1 if [one.offset for one in found if one.is_control] == NEEDED else 0
            if settled == 5:  # so many passes more change nothing
                break
        return found


@pytest.mark.interop
@pytest.mark.kafka
@pytest.mark.long("needs many passes of both cleaners")
async def test_the_same_markers_stay_as_with_kafkas_cleaner(fresh: str) -> None:
    with running_kohort(**{name.replace(".", "_"): value for name, value in SETTINGS.items()}) as ours:
        left = await compacted(ours.bootstrap, fresh)
    with running_kafka(SETTINGS) as apache:
        expected = await compacted(apache.bootstrap, fresh)
    assert left == expected
    assert [one.offset for one in left if one.is_control] == NEEDED
