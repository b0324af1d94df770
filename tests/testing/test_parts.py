"""Error answers of every request in every version that the broker serves."""

from typing import Any
from uuid import UUID

import pytest

from kohort.broker.apis import SERVED
from kohort.errors import ErrorCode
from kohort.testing.parts import (
    Entity,
    copied,
    mirrored,
    names_all,
    parts,
    shape_of,
    whole_error,
    with_errors,
    without,
)
from kohort.wire.api import APIS
from kohort.wire.codec import Struct, decode, encode
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.testing.samples import sample_request

SERVED_VERSIONS = [
    pytest.param(key, version, id=f"{ApiKey(key).name}-{version}")
    for key, low, high in SERVED
    for version in range(low, high + 1)
]
CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def codes(value: Any) -> list[int]:
    """All error codes of a message, at any level."""
    found: list[int] = []
    if isinstance(value, Struct):
        for field in value.FIELDS:
            each = getattr(value, field.name)
            found += [each] if field.name in ("error_code", "partition_error_code") else codes(each)
    elif isinstance(value, list):
        for each in value:
            found += codes(each)
    return found


@pytest.mark.parametrize(("key", "version"), SERVED_VERSIONS)
def test_every_request_can_fail(key: int, version: int) -> None:
    api = APIS[key]
    request = sample_request(api.request, version)
    shape = shape_of(request, version)
    assert shape.whole or shape.depths
    if shape.whole:
        answer = decode(api.response, version, encode(whole_error(request, version, CODE), version))
        assert codes(answer)[-1:] == [CODE] or codes(answer)[0] == CODE


@pytest.mark.parametrize(("key", "version"), SERVED_VERSIONS)
def test_every_part_of_a_request_can_fail(key: int, version: int) -> None:
    api = APIS[key]
    request = sample_request(api.request, version)
    shape = shape_of(request, version)
    for depth in shape.depths:
        if names_all(shape, depth, request):
            assert key == ApiKey.DESCRIBE_LOG_DIRS
            continue
        places = [path for path, _ in parts(shape, depth, request)]
        assert len(places) == (4 if key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS else 2**depth)
        answer = with_errors(shape, depth, request, None, version, lambda path: CODE)
        wire = decode(api.response, version, encode(answer, version))
        found = [code for code in codes(wire) if code]
        assert found == [CODE] * (2 if key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS else len(places))
        assert without(shape, depth, request, lambda path: True) is None
        assert without(shape, depth, request, lambda path: False) == request


def failing(*paths: tuple[int, ...]) -> Any:
    return lambda path: CODE if path in paths else None


def test_results_keep_the_order_of_the_request_and_those_of_others_come_last() -> None:
    topic = OffsetCommitRequestTopic(
        name="orders", partitions=[OffsetCommitRequestPartition(partition_index=index) for index in (2, 0, 1)]
    )
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    shape = shape_of(request, 8)
    answered = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name="unasked"),
            # The coordinator resolves the ID, which the answer has although the request has the name.
            OffsetCommitResponseTopic(
                name="orders",
                topic_id=UUID(int=1),
                partitions=[OffsetCommitResponsePartition(partition_index=index) for index in (0, 2)],
            ),
        ]
    )
    before = copied(answered)
    found = with_errors(shape, 2, request, answered, 8, failing((0, 2)))
    assert isinstance(found, OffsetCommitResponse)
    assert [topic.name for topic in found.topics] == ["orders", "unasked"]
    assert [(p.partition_index, p.error_code) for p in found.topics[0].partitions] == [(2, 0), (0, 0), (1, CODE)]
    assert answered == before  # an answer is not changed: others may have it, too


def test_several_results_for_one_topic_become_one() -> None:
    # A fetch session answers partitions in the order of their last records, and groups only neighbours.
    wanted = [FetchPartition(partition=index) for index in range(3)]
    request = FetchRequest(topics=[FetchTopic(topic="orders", partitions=wanted)])
    answered = FetchResponse(
        responses=[
            FetchableTopicResponse(topic="orders", partitions=[PartitionData(partition_index=2)]),
            FetchableTopicResponse(topic="payments", partitions=[PartitionData(partition_index=0)]),
            FetchableTopicResponse(topic="orders", partitions=[PartitionData(partition_index=0)]),
        ]
    )
    found = with_errors(shape_of(request, 12), 2, request, answered, 12, failing((0, 1), (0, 2)))
    assert isinstance(found, FetchResponse)
    codes_of = {topic.topic: {p.partition_index: p.error_code for p in topic.partitions} for topic in found.responses}
    assert codes_of == {"orders": {0: 0, 1: CODE, 2: CODE}, "payments": {0: 0}}


@pytest.mark.parametrize("was_done", [True, False])
def test_results_without_names_are_those_of_the_request_in_order(was_done: bool) -> None:
    request = CreateAclsRequest(creations=[AclCreation(resource_name=name) for name in ("a", "b", "c")])
    given = [AclCreationResult(error_message=name) for name in (("a", "b", "c") if was_done else ("a", "c"))]
    found = with_errors(shape_of(request, 2), 1, request, CreateAclsResponse(results=given), 2, failing((1,)))
    assert isinstance(found, CreateAclsResponse)
    assert [(each.error_code, each.error_message) for each in found.results] == [
        (0, "a"),
        (CODE, CODE.sentence),
        (0, "c"),
    ]


def test_a_request_for_all_there_are_is_compared_with_its_response() -> None:
    request = MetadataRequest(topics=None)
    shape = shape_of(request, 12)
    assert names_all(shape, 1, request)
    answered = MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in ("a", "b")])
    seen = mirrored(shape)
    assert [entity.topic for _, entity in parts(seen, 1, answered)] == ["a", "b"]
    found = with_errors(seen, 1, answered, answered, 12, failing((1,)))
    assert isinstance(found, MetadataResponse)
    assert [(topic.name, topic.error_code) for topic in found.topics] == [("a", 0), ("b", CODE)]


def test_a_part_is_about_everything_above_it() -> None:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                member_id="m",
                topics=[OffsetFetchRequestTopics(topic_id=UUID(int=1), partition_indexes=[4])],
            )
        ]
    )
    shape = shape_of(request, 10)
    assert shape.depths == (1, 3)
    assert list(parts(shape, 1, request)) == [((0,), Entity(group="g", member="m"))]
    about = Entity(topic_id=UUID(int=1), partition=4, group="g", member="m")
    assert list(parts(shape, 3, request)) == [((0, 0, 0), about)]


def test_a_copy_shares_no_buffers() -> None:
    buffer = bytearray(b"records")
    data = PartitionProduceData(index=0, records=memoryview(buffer))
    request = ProduceRequest(topic_data=[TopicProduceData(name="orders", partition_data=[data])])
    found = copied(request)
    buffer[:] = b"changed"
    assert found.topic_data[0].partition_data[0].records == b"records"
    assert found.topic_data[0].partition_data is not request.topic_data[0].partition_data
