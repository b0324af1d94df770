"""What an admin asks for while the disk takes nothing: the error says so, nothing has changed, later it works."""

import errno
from collections.abc import Callable

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import MemoryStore, Topic
from kohort.model import UUID
from kohort.wire.codec import Message
from kohort.wire.consumer_protocol import Subscription, encode_subscription
from kohort.wire.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from kohort.wire.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kohort.wire.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kohort.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import talking_to


class Disk(MemoryStore):
    """A store whose disk may be full."""

    full = False

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
async def test_a_full_disk_is_told_and_nothing_changes(
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
    assert "journal of rebalances cannot be kept" in caplog.text
