"""Requests of an admin while the disk is full: an error, no change, and success later."""

import asyncio
import errno
import threading
from collections.abc import Callable

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import MemoryStore, Topic
from kohort.log.api import Pending
from kohort.model import UUID
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import talking_to


class Disk(MemoryStore):
    """A store whose disk may be full: of files, or even of bytes."""

    full = False
    takes_no_bytes = False

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        """Syncs wait for it; it is set but where a test clears it."""
        self.go.set()
        self.syncing = threading.Event()

    def sync(self, pending: Pending) -> None:
        self.syncing.set()
        assert self.go.wait(20)
        if self.takes_no_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().sync(pending)

    def _check(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def create_topic(self, topic: Topic) -> None:
        self._check()
        super().create_topic(topic)

    def alter_topic(self, topic: Topic) -> None:
        self._check()
        super().alter_topic(topic)

    def delete_topic(self, topic_id: UUID) -> None:
        self._check()
        super().delete_topic(topic_id)


NEW = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
AUTO = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
GROW = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=3, assignments=None)])
SET = AlterableConfig(name="retention.ms", config_operation=0, value="1")
ALTER = IncrementalAlterConfigsRequest(
    resources=[AlterConfigsResource(resource_type=2, resource_name="orders", configs=[SET])]
)
DELETE = DeleteTopicsRequest(topic_names=["orders"])


def state(broker: Broker) -> dict[str, tuple[int, dict[str, str]]]:
    return {name: (topic.partitions, dict(topic.configs)) for name, topic in broker.topics.all().items()}


@pytest.mark.parametrize(
    ("request_", "version", "kind", "code"),
    [
        (NEW, 7, CreateTopicsResponse, lambda answer: answer.topics[0].error_code),
        (AUTO, 9, MetadataResponse, lambda answer: answer.topics[0].error_code),
        (GROW, 3, CreatePartitionsResponse, lambda answer: answer.results[0].error_code),
        (ALTER, 1, IncrementalAlterConfigsResponse, lambda answer: answer.responses[0].error_code),
        (DELETE, 5, DeleteTopicsResponse, lambda answer: answer.responses[0].error_code),
    ],
    ids=["create", "auto-create", "partitions", "configs", "delete"],
)
async def test_a_full_disk_is_an_error_and_nothing_changes(
    start_broker: MakeBroker, request_: Message, version: int, kind: type[Message], code: Callable[[Message], int]
) -> None:
    store = Disk()
    broker = await start_broker(BrokerOptions(port=0), store)
    broker.topics.create("orders", 1)
    before = state(broker)
    store.full = True
    async with talking_to(broker) as peer:
        assert code(await peer.ask(request_, version, kind)) == ErrorCode.KAFKA_STORAGE_ERROR
        assert state(broker) == before
        assert broker.partition("orders", 0) is not None
        store.full = False
        assert code(await peer.ask(request_, version, kind)) == ErrorCode.NONE
    assert state(broker) != before


async def test_a_group_that_is_handed_over_while_the_disk_is_full_stays_with_the_new_broker(
    start_broker: MakeBroker,
) -> None:
    store = Disk()
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)
    broker.topics.create("t", 1)
    async with talking_to(broker) as peer:
        at = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[at])])
        store.syncing.clear()
        store.go.clear()
        peer.send(commit, 5)
        assert await asyncio.to_thread(store.syncing.wait, 20)
        store.takes_no_bytes = True
        broker.groups.give_up([broker.groups.shard("g").partition])
        store.go.set()
        await broker.writer.drain()
        answer = await peer.answer(OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="any")
        assert (await peer.ask(beat, 2, HeartbeatResponse)).error_code == ErrorCode.NOT_COORDINATOR
        store.takes_no_bytes = False


async def test_a_journal_that_cannot_be_kept_stops_no_group(
    start_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    store = Disk()
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)
    store.full = True
    async with talking_to(broker) as peer:
        protocol = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(topics=["t"]), 1))
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = await peer.ask(request, 3, JoinGroupResponse)
        assert joined.error_code == ErrorCode.NONE
        alone = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await peer.ask(alone, 2, SyncGroupResponse)).error_code == ErrorCode.NONE
    await broker.stop()
    assert "the journal of rebalances cannot be written" in caplog.text
