"""The shape of a commit, learnt from its bytes."""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from sys import intern
from typing import Any

from kohort.wire.codec import encode
from kohort.wire.commits.repeated_commit import AFTER_CORRELATION_ID, CommitShape, CommittedTopic
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_LARGEST = 1 << 12
"""Size of the largest frame whose shape is worth its memory, in bytes; it has some 200 partitions."""
_EPOCHS_FROM = 6
_IDS_FROM = 10
_NO_EXPIRY = -1


def shape_of(frame: bytes, begin: int, request: OffsetCommitRequest, version: int) -> CommitShape | None:
    """Return the shape of a request, whose body begins at `begin` of its frame; None if it is unusual.

    The names and IDs of its topics must be known, whichever of them the version has. Unusual are metadata, an expiry
    time, a partition that occurs twice, a topic without partitions, and bytes that our encoder would not write, such
    as unknown tagged fields.
    """
    if len(frame) > _LARGEST or request.retention_time_ms != _NO_EXPIRY:
        return None
    partitions = [partition for topic in request.topics for partition in topic.partitions]
    all_metadata = {partition.committed_metadata for partition in partitions}
    if len(all_metadata) != 1 or any(all_metadata) or min(p.partition_index for p in partitions) < 0:
        return None
    if not all(topic.partitions and topic.name and topic.topic_id.int for topic in request.topics):
        return None
    if len({(topic.name, p.partition_index) for topic in request.topics for p in topic.partitions}) < len(partitions):
        return None
    body = encode(request, version)
    if frame[begin:] != body:
        return None
    has_epochs = version >= _EPOCHS_FROM
    layout = _layout(_places(request, version), begin, len(frame), has_epochs)
    unpack = _unpack(layout)
    return CommitShape(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=_topics(request),
        metadata=all_metadata.pop(),
        accepted=_accepted(request),
        by_id=version >= _IDS_FROM,
        has_epochs=has_epochs,
        size=len(frame),
        unpack=unpack,
        same=unpack(frame, AFTER_CORRELATION_ID)[:: 3 if has_epochs else 2],
    )


def _places(request: OffsetCommitRequest, version: int) -> list[int]:
    """Return the position of each offset in the encoded request: where zeros are encoded otherwise than ones.

    A leader epoch, if the version has any, follows each offset.
    """
    zeros, ones = (encode(_with_numbers(request, number), version) for number in (0, -1))
    width = 12 if version >= _EPOCHS_FROM else 8
    return [at for at, (zero, one) in enumerate(zip(zeros, ones, strict=True)) if zero != one][::width]


def _with_numbers(request: OffsetCommitRequest, number: int) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=partition.partition_index,
                    committed_offset=number,
                    committed_leader_epoch=number,
                    committed_metadata=partition.committed_metadata,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=topics,
    )


def _layout(places: list[int], begin: int, size: int, has_epochs: bool) -> str:
    """Return the format of a frame from AFTER_CORRELATION_ID on: bytes, and the numbers between them."""
    numbers, width = ("qi", 12) if has_epochs else ("q", 8)
    ends = [AFTER_CORRELATION_ID, *(begin + place + width for place in places)]
    starts = [*(begin + place for place in places), size]
    return ">" + numbers.join(f"{start - end}s" for end, start in zip(ends, starts, strict=True))


@lru_cache(maxsize=256)
def _unpack(layout: str) -> Callable[[bytes, int], tuple[Any, ...]]:
    return Struct(layout).unpack_from


def _topics(request: OffsetCommitRequest) -> list[CommittedTopic]:
    topics, start = [], 0
    for topic in request.topics:
        partitions = tuple(partition.partition_index for partition in topic.partitions)
        end = start + len(partitions)
        topics.append(CommittedTopic(intern(topic.name), topic.topic_id, partitions, max(partitions), start, end))
        start = end
    return topics


def _accepted(request: OffsetCommitRequest) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[_accepted_partition(partition.partition_index) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


@lru_cache(maxsize=1024)
def _accepted_partition(index: int) -> OffsetCommitResponsePartition:
    """Return an answer that all shapes share."""
    return OffsetCommitResponsePartition(partition_index=index)
