"""The journal of rebalances is an internal topic, as `__consumer_offsets` is: clients read it and nothing else."""

from typing import Any

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.recorder import JOURNAL_TOPIC
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.apis.test_topics import create, topic
from tests.broker.conftest import MakeBroker
from tests.broker.groups.test_consumer_groups import AT_ONCE, assigned_topics, beat
from tests.broker.peer import Peer, talking_to

INTERNAL = ["__consumer_offsets", JOURNAL_TOPIC]


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    """One that has the journal, as after its first rebalance, and one topic of a user."""
    broker = await start_broker(BrokerOptions(port=0, settings=AT_ONCE))
    broker.topics.create("orders", 1)
    broker.topics.create(JOURNAL_TOPIC, 1)
    return broker


async def alter(peer: Peer, name: str, config: str, value: str) -> int:
    operations = [AlterableConfig(name=config, config_operation=0, value=value)]
    resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=operations)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = (await peer.ask(request, 1, IncrementalAlterConfigsResponse)).responses
    return answer.error_code


async def assigned(peer: Peer, group: str, response: ConsumerGroupHeartbeatResponse) -> list[UUID]:
    """The topics of the only member of a group, as soon as it has any."""
    while not (found := assigned_topics(response)):
        response = await beat(peer, group, "a", response.member_epoch)
    return [topic.topic_id for topic in found]


async def test_metadata_marks_internal_topics(peer: Peer) -> None:
    metadata = await peer.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    assert sorted(topic.name or "" for topic in metadata.topics if topic.is_internal) == INTERNAL
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in [*INTERNAL, "orders"]])
    pages = await peer.ask(request, 0, DescribeTopicPartitionsResponse)
    assert sorted(topic.name or "" for topic in pages.topics if topic.is_internal) == INTERNAL


@pytest.mark.parametrize("name", INTERNAL)
async def test_clients_cannot_write_to_an_internal_topic(broker: Broker, peer: Peer, name: str) -> None:
    data = PartitionProduceData(index=0, records=bytes(encode_batch([Record(0, 0, b"k", b"v", ())])))
    request = ProduceRequest(acks=-1, timeout_ms=0, topic_data=[TopicProduceData(name=name, partition_data=[data])])
    (answer,) = (await peer.ask(request, 9, ProduceResponse)).responses
    (refused,) = answer.partition_responses
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Only brokers write to the internal topic {name}.",
    )
    log = broker.partition(name, 0)
    assert log is not None and log.end_offset == 0


@pytest.mark.parametrize("name", INTERNAL)
async def test_clients_cannot_delete_an_internal_topic_or_its_records(broker: Broker, peer: Peer, name: str) -> None:
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
    (refused,) = (await peer.ask(delete, 6, DeleteTopicsResponse)).responses
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert broker.topics.named(name) is not None
    partition = DeleteRecordsPartition(partition_index=0, offset=-1)
    empty = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[partition])])
    (answer,) = (await peer.ask(empty, 2, DeleteRecordsResponse)).topics
    assert answer.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", INTERNAL)
async def test_clients_cannot_add_partitions_to_an_internal_topic(peer: Peer, name: str) -> None:
    wish = CreatePartitionsTopic(name=name, count=99, assignments=None)
    (refused,) = (await peer.ask(CreatePartitionsRequest(topics=[wish]), 3, CreatePartitionsResponse)).results
    assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_an_internal_topic_keeps_its_cleanup_policy(peer: Peer) -> None:
    # Compacted, the journal would keep one rebalance of each group.
    for policy in ("compact", "compact,delete"):
        assert await alter(peer, JOURNAL_TOPIC, "cleanup.policy", policy) == ErrorCode.INVALID_CONFIG
    assert await alter(peer, "__consumer_offsets", "cleanup.policy", "delete") == ErrorCode.INVALID_CONFIG
    for name in INTERNAL:
        assert await alter(peer, name, "retention.ms", "1000") == ErrorCode.NONE


async def test_the_journal_is_never_made_with_another_cleanup_policy(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={"log.cleanup.policy": "compact"}))
    async with talking_to(broker) as peer:
        (refused,) = await create(peer, topic(JOURNAL_TOPIC, cleanup_policy="compact"))
        assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert broker.topics.create(JOURNAL_TOPIC, 1).configs == {"cleanup.policy": "delete"}


async def test_an_expression_does_not_match_the_journal(start_broker: MakeBroker) -> None:
    # Kafka's coordinator does match __consumer_offsets, and has no journal.
    broker = await start_broker(BrokerOptions(port=0, settings=AT_ONCE))
    subscription: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "orders|__kohort.*"}
    async with talking_to(broker) as peer:
        joined = await beat(peer, "the journal is new", **subscription)
        assert broker.topics.named(JOURNAL_TOPIC) is not None, "the member's arrival is a rebalance"
        orders = broker.topics.create("orders", 1)
        assert await assigned(peer, "the journal is new", joined) == [orders.topic_id]
        joined = await beat(peer, "the journal is there", **subscription)
        assert await assigned(peer, "the journal is there", joined) == [orders.topic_id]


async def test_a_member_that_names_the_journal_reads_it(broker: Broker, peer: Peer) -> None:
    journal = broker.topics.named(JOURNAL_TOPIC)
    assert journal is not None
    joined = await beat(peer, "g", subscribed_topic_names=[JOURNAL_TOPIC])
    assert await assigned(peer, "g", joined) == [journal.topic_id]
