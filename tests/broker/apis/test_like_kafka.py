"""Answers that a conversation with Apache Kafka taught (tests/interop/conversation), kept without it."""

import time

import pytest

from kohort.broker import Broker
from kohort.errors import ErrorCode
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.conftest import Connect
from tests.broker.peer import Peer, until


@pytest.fixture(autouse=True)
def orders(broker: Broker) -> None:
    broker.topics.create("orders", 1)


async def refusal(peer: Peer, records: bytes) -> int:
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
    answer = await peer.ask(request, 9, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


async def test_a_batch_begins_at_0_belongs_to_no_transaction_and_is_not_of_the_future(peer: Peer) -> None:
    now = int(time.time() * 1_000)
    good = bytes(encode_batch([Record(0, now, None, b"x", ())]))
    # Nobody would ever decide the transaction, so a reader of committed records would never get past it.
    transactional = bytes(encode_batch([Record(0, now, None, b"x", ())], transactional=True))
    tomorrow = bytes(encode_batch([Record(0, now + 86_400_000, None, b"x", ())]))
    assert await refusal(peer, good) == ErrorCode.NONE
    assert await refusal(peer, b"\0\0\0\0\0\0\0\5" + good[8:]) == ErrorCode.INVALID_RECORD
    assert await refusal(peer, transactional) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await refusal(peer, tomorrow) == ErrorCode.INVALID_TIMESTAMP


async def test_a_long_poll_outlives_the_deletion_of_another_topic(peer: Peer, connect: Connect, broker: Broker) -> None:
    broker.topics.create("payments", 1)
    wanted = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
    peer.send(FetchRequest(max_wait_ms=15_000, min_bytes=1, topics=[wanted]), 12)
    await until(lambda: broker.waiting_fetches.count == 1)
    other = await connect()
    await other.ask(DeleteTopicsRequest(topic_names=["payments"]), 5, DeleteTopicsResponse)
    assert broker.waiting_fetches.count == 1
    await other.ask(DeleteTopicsRequest(topic_names=["orders"]), 5, DeleteTopicsResponse)
    answer = await peer.answer(FetchResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_authorized_operations_are_returned_if_requested(peer: Peer) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="orders")] * 2,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = await peer.ask(request, 10, MetadataResponse)
    # The numbers are those of Apache Kafka without access control.
    assert [topic.topic_authorized_operations for topic in answer.topics] == [3576]
    assert answer.cluster_authorized_operations == 8096
    groups = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    described = await peer.ask(groups, 5, DescribeGroupsResponse)
    assert described.groups[0].authorized_operations == 3400


async def test_one_topic_named_both_ways_is_deleted_by_neither(peer: Peer, broker: Broker) -> None:
    topic = broker.topics.named("orders")
    assert topic is not None
    for wanted in (
        [DeleteTopicState(name="orders", topic_id=topic.topic_id)],
        [DeleteTopicState(name="orders"), DeleteTopicState(topic_id=topic.topic_id)],
        [DeleteTopicState()],
    ):
        answer = await peer.ask(DeleteTopicsRequest(topics=wanted), 6, DeleteTopicsResponse)
        assert [response.error_code for response in answer.responses] == [ErrorCode.INVALID_REQUEST]
    assert broker.topics.named("orders") is topic


async def test_a_topic_without_name_and_id_fails_the_whole_request(peer: Peer) -> None:
    wanted = [MetadataRequestTopic(name="orders"), MetadataRequestTopic(name=None)]
    answer = await peer.ask(MetadataRequest(topics=wanted), 12, MetadataResponse)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert answer.brokers == []


async def test_a_partition_asked_for_twice_is_refused_once(peer: Peer) -> None:
    twice = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)] * 2)
    answer = await peer.ask(ListOffsetsRequest(topics=[twice]), 7, ListOffsetsResponse)
    assert [partition.error_code for partition in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST]


async def test_an_epoch_belongs_to_a_producer_id(peer: Peer) -> None:
    for request in (InitProducerIdRequest(producer_epoch=1), InitProducerIdRequest(transactional_id="")):
        answer = await peer.ask(request, 4, InitProducerIdResponse)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("x", ""), ("-x", "1"), ("a b", "1"), ("x", "1.")])
async def test_software_is_named_in_letters_digits_dots_and_dashes(peer: Peer, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert (await peer.ask(request, 3, ApiVersionsResponse)).error_code == ErrorCode.INVALID_REQUEST
