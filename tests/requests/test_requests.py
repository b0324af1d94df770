"""Requests name each topic once, and an error of one partition leaves the others' results."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.requests import (
    ActiveProducer,
    FetchRequestPartition,
    FoundOffset,
    ProduceOutcome,
    ProducerId,
    check,
    describe_producers_request,
    error_of,
    fetch_topics,
    forgotten_topics,
    list_offsets_request,
    metadata_request,
    produce_request,
    producer_id_request,
    read_offsets,
    read_outcomes,
    read_producer_id,
    read_producers,
)
from kohort.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kohort.wire.messages.init_producer_id import InitProducerIdResponse
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

ID = UUID(int=7)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_an_error_names_its_subject_and_prefers_the_brokers_words() -> None:
    assert error_of(0) is None
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert str(error_of(code)) == str(KafkaError(code))
    assert str(error_of(code, "a-0")) == str(KafkaError(code, f"a-0: {code.sentence}"))
    assert str(error_of(code, "a-0", "moved")) == str(KafkaError(code, "a-0: moved"))
    check(0, "a-0")
    with pytest.raises(KafkaError, match="a-0: moved"):
        check(code, "a-0", "moved")


def test_metadata_is_requested_for_some_topics_for_none_or_for_all() -> None:
    some = metadata_request(["a", "b"], create=True)
    assert ([topic.name for topic in some.topics or ()], some.allow_auto_topic_creation) == (["a", "b"], True)
    assert metadata_request([]).topics == []
    every = metadata_request(None)
    assert (every.topics, every.allow_auto_topic_creation) == (None, False)


def test_offsets_are_requested_by_topic_with_the_known_leader_epochs() -> None:
    epochs = {A0: 4, A1: 5, B0: -1}
    request = list_offsets_request(
        {A0: -1, B0: 1000, A1: -2}, read_committed=True, timeout_ms=30, leader_epoch=epochs.__getitem__
    )
    assert (request.replica_id, request.isolation_level, request.timeout_ms) == (-1, 1, 30)
    entries = [
        (topic.name, entry.partition_index, entry.timestamp, entry.current_leader_epoch)
        for topic in request.topics
        for entry in topic.partitions
    ]
    assert entries == [("a", 0, -1, 4), ("a", 1, -2, 5), ("b", 0, 1000, -1)]
    plain = list_offsets_request({A0: -1}, read_committed=False, timeout_ms=30)
    assert (plain.isolation_level, plain.topics[0].partitions[0].current_leader_epoch) == (0, -1)


def test_each_partition_has_an_offset_or_an_error() -> None:
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name="a",
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=0, offset=0, timestamp=0, leader_epoch=0),
                    ListOffsetsPartitionResponse(partition_index=1, error_code=moved),
                ],
            ),
            ListOffsetsTopicResponse(
                name="b",
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=0, offset=-1),
                    ListOffsetsPartitionResponse(partition_index=1, offset=8, timestamp=-1, leader_epoch=-1),
                ],
            ),
        ]
    )
    found, refused = read_offsets(response)
    assert found == {A0: FoundOffset(0, 0, 0), B0: None, TopicPartition("b", 1): FoundOffset(8)}
    assert {partition: str(error) for partition, error in refused.items()} == {A1: str(error_of(moved, "a-1"))}


def test_fetched_and_forgotten_partitions_are_listed_by_topic() -> None:
    wanted = {
        A0: FetchRequestPartition(ID, 5, 100, 3),
        B0: FetchRequestPartition(NO_TOPIC_ID, 0, 200),
        A1: FetchRequestPartition(ID, 6, 300, 2),
    }
    entries = [
        (
            topic.topic,
            topic.topic_id,
            entry.partition,
            entry.fetch_offset,
            entry.partition_max_bytes,
            entry.current_leader_epoch,
        )
        for topic in fetch_topics(wanted)
        for entry in topic.partitions
    ]
    assert entries == [("a", ID, 0, 5, 100, 3), ("a", ID, 1, 6, 300, 2), ("b", NO_TOPIC_ID, 0, 0, 200, -1)]
    forgotten = [(topic.topic, topic.topic_id, topic.partitions) for topic in forgotten_topics(wanted)]
    assert forgotten == [("a", ID, [0, 1]), ("b", NO_TOPIC_ID, [0])]


def test_batches_are_written_by_topic_with_or_without_topic_ids() -> None:
    request = produce_request([(A0, b"x"), (B0, b"y"), (A1, b"z")], acks=-1, timeout_ms=30)
    assert (request.acks, request.timeout_ms) == (-1, 30)
    entries = [
        (topic.name, topic.topic_id, entry.index, entry.records)
        for topic in request.topic_data
        for entry in topic.partition_data
    ]
    assert entries == [("a", NO_TOPIC_ID, 0, b"x"), ("a", NO_TOPIC_ID, 1, b"z"), ("b", NO_TOPIC_ID, 0, b"y")]
    identified = produce_request([(A0, b"x")], acks=1, timeout_ms=30, topic_id={"a": ID}.__getitem__)
    assert identified.topic_data[0].topic_id == ID


def test_each_batch_has_an_outcome_also_where_the_broker_names_only_ids() -> None:
    full = ErrorCode.KAFKA_STORAGE_ERROR
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="",
                topic_id=ID,
                partition_responses=[
                    PartitionProduceResponse(index=0, base_offset=4, log_append_time_ms=0),
                    PartitionProduceResponse(index=1, error_code=full, error_message="the disk is full"),
                ],
            ),
            TopicProduceResponse(name="b", partition_responses=[PartitionProduceResponse(index=0, error_code=full)]),
        ]
    )
    outcomes = read_outcomes(response, {ID: "a"})
    assert outcomes[A0] == ProduceOutcome(ErrorCode.NONE, ErrorCode.NONE.sentence, 4, 0)
    assert (outcomes[A1].code, outcomes[A1].detail) == (full, "the disk is full")
    assert (outcomes[B0].detail, outcomes[B0].log_append_time) == (full.sentence, None)
    assert B0 in read_outcomes(response)


def test_a_producer_id_is_new_and_without_transactions() -> None:
    request = producer_id_request()
    assert request.transactional_id is None
    assert read_producer_id(InitProducerIdResponse(producer_id=3, producer_epoch=1)) == ProducerId(3, 1)
    with pytest.raises(KafkaError):
        read_producer_id(InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    with pytest.raises(KafkaError, match="this client may write to no topic"):
        read_producer_id(InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def test_the_producers_of_each_partition_are_values() -> None:
    request = describe_producers_request([A0, B0, A1])
    assert [(topic.name, topic.partition_indexes) for topic in request.topics] == [("a", [0, 1]), ("b", [0])]
    active = ProducerState(
        producer_id=3, producer_epoch=1, last_sequence=9, last_timestamp=-1, current_txn_start_offset=0
    )
    response = DescribeProducersResponse(
        topics=[
            TopicResponse(
                name="a",
                partitions=[
                    PartitionResponse(partition_index=0, active_producers=[active]),
                    PartitionResponse(partition_index=1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
                ],
            )
        ]
    )
    found, refused = read_producers(response)
    assert found == {A0: [ActiveProducer(3, 1, 9, None, 0, 0)]}
    assert list(refused) == [A1]
