"""A commit that is read with the shape of an earlier one is the request that the codec decodes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from copy import copy
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.model import UUID
from kohort.wire.api import read_request_header, request_header
from kohort.wire.codec import decode, encode
from kohort.wire.commits import CommitShape, shape_of
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSIONS = range(2, 11)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
OFFSETS = st.integers(-(2**63), 2**63 - 1)
EPOCHS = st.integers(-(2**31), 2**31 - 1)
TOPIC_IDS = {name: UUID(int=number) for number, name in enumerate("abc", 1)}


@st.composite
def requests(draw: st.DrawFn) -> OffsetCommitRequest:
    """A commit that has a shape, whose topics have names and IDs."""
    metadata = draw(st.sampled_from([None, ""]))
    topics = []
    for name in draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)):
        indexes = draw(st.lists(st.integers(0, 300), min_size=1, max_size=5, unique=True))
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=draw(OFFSETS),
                committed_leader_epoch=draw(EPOCHS),
                committed_metadata=metadata,
            )
            for index in indexes
        ]
        topics.append(OffsetCommitRequestTopic(name=name, topic_id=TOPIC_IDS[name], partitions=partitions))
    return OffsetCommitRequest(
        group_id=draw(NAMES),
        generation_id_or_member_epoch=draw(EPOCHS),
        member_id=draw(NAMES),
        topics=topics,
    )


def with_numbers(request: OffsetCommitRequest, offset: Callable[[], int], epoch: Callable[[], int]) -> None:
    """Change only what may differ between commits of one shape."""
    for topic in request.topics:
        for partition in topic.partitions:
            partition.committed_offset, partition.committed_leader_epoch = offset(), epoch()


def framed(request: OffsetCommitRequest, version: int, correlation_id: int = 7) -> bytes:
    return request_header(request.KEY, version, correlation_id, "client") + encode(request, version)


def learnt(frame: bytes, request: OffsetCommitRequest, version: int) -> CommitShape | None:
    return shape_of(frame, read_request_header(frame).body, request, version)


def decoded(frame: bytes, version: int) -> OffsetCommitRequest:
    return decode(OffsetCommitRequest, version, frame[read_request_header(frame).body :])


def known_shape(request: OffsetCommitRequest, version: int) -> CommitShape:
    shape = learnt(framed(request, version), request, version)
    assert shape is not None
    return shape


def one(**changes: object) -> OffsetCommitRequest:
    """A commit of one partition, whose fields may be others."""
    fields = {"partition_index": 3, "committed_offset": 5, **changes}
    partition = OffsetCommitRequestPartition(**fields)  # type: ignore[arg-type]
    topic = OffsetCommitRequestTopic(name="a", topic_id=TOPIC_IDS["a"], partitions=[partition])
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id="m", topics=[topic])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_copy_of_a_commit_that_nobody_may_change_may_be_changed(version: int) -> None:
    # The test kit copies requests before the guard of a broker with ACLs takes from them what is not allowed.
    request = one()
    frame = framed(request, version)
    found = known_shape(request, version).read(frame)
    assert found is not None
    copied = cast("OffsetCommitRequest", copy(found))
    assert copied == decoded(frame, version) and type(copied) is OffsetCommitRequest
    copied.topics = []
    assert len(found.topics) == 1


@given(requests(), st.sampled_from(VERSIONS), st.data())
def test_a_commit_of_the_same_shape_is_read_as_it_is_decoded(
    request: OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    shape = known_shape(request, version)
    with_numbers(request, lambda: data.draw(OFFSETS), lambda: data.draw(EPOCHS))
    frame = framed(request, version, correlation_id=data.draw(EPOCHS))
    found = shape.read(frame)
    assert found is not None
    plain = decoded(frame, version)
    assert found.plain() == plain
    for topic in plain.topics:
        topic.name = topic.name or next(name for name, topic_id in TOPIC_IDS.items() if topic_id == topic.topic_id)
        topic.topic_id = TOPIC_IDS[topic.name]
    assert found.topics == plain.topics


@given(requests(), st.sampled_from(VERSIONS))
def test_the_answer_of_a_shape_accepts_every_partition(request: OffsetCommitRequest, version: int) -> None:
    expected = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[OffsetCommitResponsePartition(partition_index=p.partition_index) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    assert known_shape(request, version).accepted == expected


@settings(max_examples=200)
@given(requests(), st.sampled_from(VERSIONS), st.data())
def test_bytes_that_are_read_with_a_shape_are_decoded_to_the_same(
    request: OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    frame = bytearray(framed(request, version))
    shape = known_shape(request, version)
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.integers(0, 255))
    found = shape.read(bytes(frame))
    if found is not None:  # only bytes of numbers were changed
        assert found.plain() == decoded(bytes(frame), version)


@given(requests(), st.sampled_from(VERSIONS), st.data())
def test_any_other_byte_than_those_of_the_numbers_makes_another_shape(
    request: OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    shape = known_shape(request, version)
    with_numbers(request, lambda: 0, lambda: 0)
    zero = framed(request, version)
    with_numbers(request, lambda: -1, lambda: -1)
    minus_one = framed(request, version)
    same = [at for at in range(8, len(zero)) if zero[at] == minus_one[at]]
    at = data.draw(st.sampled_from(same))
    frame = bytearray(zero)
    frame[at] ^= data.draw(st.integers(1, 255))
    assert shape.read(zero) is not None
    assert shape.read(bytes(frame)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_of_another_size_has_another_shape(version: int) -> None:
    shape = known_shape(one(), version)
    frame = framed(one(), version)
    assert shape.read(frame) is not None
    assert shape.read(frame + b"\0") is None
    assert shape.read(frame[:-1]) is None
    assert shape.read(b"") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_with_metadata_has_no_shape(version: int) -> None:
    request = one(committed_metadata="m")
    assert learnt(framed(request, version), request, version) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_whose_metadata_are_null_and_empty_has_no_shape(version: int) -> None:
    request = one()
    other = OffsetCommitRequestPartition(partition_index=4, committed_metadata=None)
    request.topics[0].partitions.append(other)
    assert learnt(framed(request, version), request, version) is None
    other.committed_metadata = ""
    assert learnt(framed(request, version), request, version) is not None


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_commit_with_an_expiry_time_has_no_shape(version: int) -> None:
    request = one()
    request.retention_time_ms = 1_000
    assert learnt(framed(request, version), request, version) is None


def test_a_commit_of_one_partition_twice_has_no_shape() -> None:
    request = one()
    request.topics *= 2
    assert learnt(framed(request, 8), request, 8) is None
    request = one()
    request.topics[0].partitions *= 2
    assert learnt(framed(request, 8), request, 8) is None


def test_a_commit_of_nothing_or_of_a_topic_without_partitions_has_no_shape() -> None:
    request = one()
    request.topics.append(OffsetCommitRequestTopic(name="b", topic_id=TOPIC_IDS["b"]))
    assert learnt(framed(request, 8), request, 8) is None
    request.topics.clear()
    assert learnt(framed(request, 8), request, 8) is None


def test_a_commit_of_a_negative_partition_or_of_an_unknown_topic_has_no_shape() -> None:
    request = one(partition_index=-1)
    assert learnt(framed(request, 8), request, 8) is None
    request = one()
    request.topics[0].topic_id = UUID(int=0)
    assert learnt(framed(request, 8), request, 8) is None
    request = one()
    request.topics[0].name = ""
    assert learnt(framed(request, 10), request, 10) is None


def test_a_commit_with_bytes_after_it_or_with_unknown_tagged_fields_has_no_shape() -> None:
    request = one()
    frame = framed(request, 8)
    assert frame.endswith(b"\0"), "no tagged fields"
    assert learnt(frame + b"\0", request, 8) is None
    tagged = frame[:-1] + b"\1\5\1x"
    assert decoded(tagged, 8).topics[0].partitions == request.topics[0].partitions
    assert learnt(tagged, request, 8) is None


def test_a_large_commit_has_no_shape() -> None:
    request = one()
    for count, has_shape in [(200, True), (300, False)]:
        request.topics[0].partitions = [OffsetCommitRequestPartition(partition_index=index) for index in range(count)]
        assert (learnt(framed(request, 8), request, 8) is not None) == has_shape


def test_tagged_fields_of_the_header_are_part_of_the_shape() -> None:
    request = one()
    head = request_header(request.KEY, 8, 7, "client")
    tagged = head[:-1] + b"\1\5\1x" + encode(request, 8)
    shape = learnt(tagged, request, 8)
    assert shape is not None
    found = shape.read(tagged[:4] + struct.pack(">i", 8) + tagged[8:])
    assert found is not None and found.plain().topics[0].partitions == request.topics[0].partitions
    assert shape.read(framed(request, 8)) is None
