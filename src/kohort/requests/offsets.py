"""ListOffsets: the earliest or latest offset of a partition, or the first at a timestamp."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kohort.errors import KafkaError
from kohort.model import Millis, TopicPartition
from kohort.requests.errors import PartitionResults, error_of
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """Offset of a partition. `timestamp` is None if an OffsetSpec was requested instead of a timestamp."""

    offset: int
    timestamp: Millis | None = None
    leader_epoch: int | None = None


def list_offsets_request(
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    timeout_ms: Millis,
    leader_epoch: Callable[[TopicPartition], int] = lambda partition: -1,
) -> ListOffsetsRequest:
    """Return a request for the offset at a timestamp, or for a symbolic one, of each partition.

    `leader_epoch` returns the partition's known leader epoch; -1 if unknown.
    """
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, timestamp in wanted.items():
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[]))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=leader_epoch(partition),
                timestamp=int(timestamp),
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if read_committed else 0,
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
    )


def read_offsets(response: ListOffsetsResponse) -> PartitionResults[FoundOffset | None]:
    """Return the offset of each partition; None if all records are older than the requested timestamp."""
    found: dict[TopicPartition, FoundOffset | None] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            error = error_of(entry.error_code, str(partition))
            if error is not None:
                refused[partition] = error
            elif entry.offset < 0:
                found[partition] = None
            else:
                found[partition] = FoundOffset(
                    entry.offset,
                    None if entry.timestamp < 0 else entry.timestamp,
                    None if entry.leader_epoch < 0 else entry.leader_epoch,
                )
    return found, refused
