"""Commits and fetches of offsets: what transcripts cannot say, such as the metadata of one partition."""

from __future__ import annotations

from kohort.coordinator import GroupConfig
from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopics,
)
from tests.coordinator.shell import Shell

ORDERS = UUID(int=7)


def commit(shell: Shell, *metadata: str | None, topic_id: UUID = NO_TOPIC_ID, first: int = 0) -> list[ErrorCode]:
    """A simple consumer commits offset 5 of as many partitions, with this metadata."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata=text)
        for index, text in enumerate(metadata, first)
    ]
    # Names that are new objects, as those of a decoded request.
    group_id, name = bytearray(b"g-1").decode(), bytearray(b"orders").decode()
    topic = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)
    request = OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, topics=[topic])
    answer = shell.handle(request, "commit", 9 if topic_id == NO_TOPIC_ID else 10).replies["commit"]
    assert isinstance(answer, OffsetCommitResponse)
    return [ErrorCode(partition.error_code) for partition in answer.topics[0].partitions]


def fetch_all(shell: Shell) -> OffsetFetchResponseTopics:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g-1", topics=None)])
    answer = shell.handle(request, "fetch", 10).replies["fetch"]
    assert isinstance(answer, OffsetFetchResponse)
    (topic,) = answer.groups[0].topics
    return topic


def test_metadata_that_is_too_long_fails_only_its_own_partition() -> None:
    shell = Shell(GroupConfig(offset_metadata_max_bytes=4))
    assert commit(shell, "12345", "1234", None) == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    found = [
        (partition.partition_index, partition.committed_offset, partition.metadata)
        for partition in fetch_all(shell).partitions
    ]
    assert found == [(1, 5, "1234"), (2, 5, "")]


def test_a_fetch_of_all_offsets_names_the_topic_for_which_they_were_committed() -> None:
    shell = Shell(GroupConfig())
    commit(shell, "")
    assert fetch_all(shell).topic_id == NO_TOPIC_ID
    commit(shell, "", topic_id=ORDERS, first=1)
    topic = fetch_all(shell)
    assert topic.topic_id == ORDERS
    assert [(partition.partition_index, partition.committed_offset) for partition in topic.partitions] == [
        (0, 5),
        (1, 5),
    ]


def test_the_offsets_of_a_group_share_the_names_of_group_and_topic() -> None:
    # A group with a million offsets would keep a million copies.
    shell = Shell(GroupConfig())
    for first in range(3):
        commit(shell, "", first=first)
    stored = shell.shard.groups["g-1"].offsets["orders"].values()
    assert len({id(committed.topic) for committed in stored}) == 1
    assert len({id(committed.group) for committed in stored}) == 1
