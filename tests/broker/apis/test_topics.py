"""CreateTopics, DeleteTopics, Metadata and ListOffsets, as a client sees them."""

import pytest

from kohort.broker import Broker
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from tests.broker.peer import Peer


async def create(peer: Peer, *topics: CreatableTopic, version: int = 7, **more: bool) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), **more)
    return (await peer.ask(request, version, CreateTopicsResponse)).topics


async def look_up(peer: Peer, name: str, *, create: bool = False) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=create)
    (topic,) = (await peer.ask(request, 12, MetadataResponse)).topics
    return topic


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreatableTopic:
    entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=entries)


async def test_a_created_topic_is_in_the_metadata_under_its_name_and_its_id(peer: Peer, broker: Broker) -> None:
    (made,) = await create(peer, topic("orders", 3))
    found = await look_up(peer, "orders")
    assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 3)
    assert found.topic_id == made.topic_id
    assert [p.leader_id for p in found.partitions] == [broker.node_id] * 3
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=made.topic_id, name=None)])
    assert (await peer.ask(by_id, 12, MetadataResponse)).topics[0].name == "orders"


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates_a_topic(peer: Peer, version: int) -> None:
    (made,) = await create(peer, topic(f"v{version}"), version=version)
    assert made.error_code == ErrorCode.NONE
    assert (await look_up(peer, f"v{version}")).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic("no spaces"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("none", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("three", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("odd", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (topic("odder", retention_msec="1"), ErrorCode.INVALID_CONFIG),
        (topic("__consumer_offsets"), ErrorCode.TOPIC_ALREADY_EXISTS),
    ],
)
async def test_a_topic_that_cannot_be_is_refused_with_its_reason(
    peer: Peer, wanted: CreatableTopic, code: ErrorCode
) -> None:
    (refused, made) = await create(peer, wanted, topic("neighbour"))
    assert refused.error_code == code
    assert refused.error_message
    assert made.error_code == ErrorCode.NONE, "one bad topic must not hurt another"


async def test_a_topic_named_twice_in_one_request_is_made_by_neither(peer: Peer) -> None:
    assert {made.error_code for made in await create(peer, topic("twin"), topic("twin"))} == {ErrorCode.INVALID_REQUEST}
    assert (await look_up(peer, "twin")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_names_that_differ_in_dot_and_underscore_collide(peer: Peer) -> None:
    await create(peer, topic("a.b"))
    (refused,) = await create(peer, topic("a_b"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_validating_creates_nothing(peer: Peer) -> None:
    (checked,) = await create(peer, topic("maybe", 4), validate_only=True)
    assert (checked.error_code, checked.num_partitions) == (ErrorCode.NONE, 4)
    assert (await look_up(peer, "maybe")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_metadata_creates_a_topic_only_for_a_client_that_allows_it(peer: Peer) -> None:
    assert (await look_up(peer, "wish", create=False)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len((await look_up(peer, "wish", create=True)).partitions) == 1
    assert (await look_up(peer, "bad name", create=True)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", range(14))
async def test_every_version_of_metadata_lists_all_topics(peer: Peer, version: int) -> None:
    await create(peer, topic("orders"))
    everything = MetadataRequest(topics=[] if version == 0 else None)
    names = {found.name for found in (await peer.ask(everything, version, MetadataResponse)).topics}
    assert names == {"orders", "__consumer_offsets"}


async def test_a_deleted_topic_is_gone_and_may_be_made_again_under_another_id(peer: Peer) -> None:
    (first,) = await create(peer, topic("orders"))
    gone = await peer.ask(DeleteTopicsRequest(topic_names=["orders"]), 5, DeleteTopicsResponse)
    assert gone.responses[0].error_code == ErrorCode.NONE
    (second,) = await create(peer, topic("orders"))
    assert second.topic_id != first.topic_id
    old = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=first.topic_id)])
    assert (await peer.ask(old, 6, DeleteTopicsResponse)).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (DeleteTopicState(name="nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopicState(name=None, topic_id=UUID(int=7)), ErrorCode.UNKNOWN_TOPIC_ID),
        (DeleteTopicState(name="__consumer_offsets"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_rejected_deletion_has_a_reason(peer: Peer, wanted: DeleteTopicState, code: ErrorCode) -> None:
    answer = await peer.ask(DeleteTopicsRequest(topics=[wanted]), 6, DeleteTopicsResponse)
    assert [(found.error_code, bool(found.error_message)) for found in answer.responses] == [(code, True)]
