"""A group's commit waits for one part of a topic's many new files, and not for all of them."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import FileStore
from kohort.log.api import Pending
from kohort.log.queue import NEW_FILES, PendingAppends
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, talking_to, until

WIDE = 3 * NEW_FILES


class Held(FileStore):
    """Each sync with files of the wide topic waits until the test lets it go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.parts = 0
        """Syncs of the wide topic that have begun."""
        self.go = threading.Semaphore(0)
        self.error: OSError | None = None
        """What the next of them fails with."""

    def sync(self, pending: Pending) -> None:
        assert isinstance(pending, PendingAppends)
        if any(log.name.topic == "wide" for log, _ in pending.logs):
            self.parts += 1
            assert self.go.acquire(timeout=60)
            if self.error is not None:
                raise self.error
        super().sync(pending)

    def let_all_go(self) -> None:
        self.go.release(1_000)


@pytest.fixture
def store(tmp_path: Path) -> Held:
    return Held(tmp_path)


@pytest.fixture
async def broker(start_broker: MakeBroker, store: Held) -> AsyncIterator[Broker]:
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)
    broker.topics.create("wide", WIDE)
    yield broker
    store.let_all_go()


def commit(offset: int) -> OffsetCommitRequest:
    at = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="wide", partitions=[at])])


def code_of(answer: OffsetCommitResponse) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def produce_to_all() -> ProduceRequest:
    value = bytes(encode_batch([Record(0, 0, None, b"x")]))
    data = [PartitionProduceData(index=number, records=value) for number in range(WIDE)]
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="wide", partition_data=data)])


def produced(answer: ProduceResponse) -> set[ErrorCode]:
    return {ErrorCode(partition.error_code) for partition in answer.responses[0].partition_responses}


async def committed(peer: Peer) -> int:
    request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="wide", partition_indexes=[0])])
    answer = await peer.ask(request, 5, OffsetFetchResponse)
    return answer.topics[0].partitions[0].committed_offset


async def test_a_commit_is_acknowledged_while_new_files_are_still_synced(broker: Broker, store: Held) -> None:
    async with talking_to(broker) as producer, talking_to(broker) as group:
        producer.send(produce_to_all(), 9)
        await until(lambda: store.parts == 1)
        group.send(commit(7), 5)
        shard = broker.groups.shard("g")
        await until(lambda: shard._commit is not None)  # the commit is appended before the next part is taken
        store.go.release()
        await until(lambda: store.parts == 2)
        store.go.release()
        assert code_of(await group.answer(OffsetCommitResponse)) == ErrorCode.NONE
        await until(lambda: store.parts == 3)
        wide = [broker.partition("wide", number) for number in range(WIDE)]
        assert sum(log is not None and log.stable_offset == 0 for log in wide) == NEW_FILES
        assert not producer.reader._buffer  # type: ignore[attr-defined]
        store.go.release()
        assert produced(await producer.answer(ProduceResponse)) == {ErrorCode.NONE}


async def test_a_part_that_fails_refuses_its_producers_and_not_the_group_that_was_answered(
    broker: Broker, store: Held
) -> None:
    async with talking_to(broker) as producer, talking_to(broker) as group:
        producer.send(produce_to_all(), 9)
        await until(lambda: store.parts == 1)
        group.send(commit(7), 5)
        shard = broker.groups.shard("g")
        await until(lambda: shard._commit is not None)
        store.go.release(2)
        assert code_of(await group.answer(OffsetCommitResponse)) == ErrorCode.NONE
        await until(lambda: store.parts == 3)
        machine = shard._machine
        store.error = OSError(28, "No space left on device")
        store.go.release()
        assert produced(await producer.answer(ProduceResponse)) == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert shard.ready and shard._machine is machine, "the group lost nothing, so there is nothing to load again"
        assert await committed(group) == 7
        store.error = None
        store.let_all_go()
        assert produced(await producer.ask(produce_to_all(), 9, ProduceResponse)) == {ErrorCode.NONE}


async def test_a_commit_in_a_part_that_fails_is_refused_and_forgotten(broker: Broker, store: Held) -> None:
    async with talking_to(broker) as producer, talking_to(broker) as group:
        assert code_of(await group.ask(commit(3), 5, OffsetCommitResponse)) == ErrorCode.NONE
        producer.send(produce_to_all(), 9)
        await until(lambda: store.parts == 1)
        group.send(commit(7), 5)
        shard = broker.groups.shard("g")
        await until(lambda: shard._commit is not None)
        store.error = OSError(28, "No space left on device")
        store.go.release()
        assert code_of(await group.answer(OffsetCommitResponse)) == ErrorCode.NOT_COORDINATOR
        assert produced(await producer.answer(ProduceResponse)) == {ErrorCode.KAFKA_STORAGE_ERROR}
        store.error = None
        store.let_all_go()
        await until(lambda: shard.ready)
        assert await committed(group) == 3
