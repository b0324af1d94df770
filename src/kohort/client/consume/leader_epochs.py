"""End offsets of leader epochs, which reveal that records before a consumer's position were lost."""

from collections.abc import Mapping

from kohort.client.net import BrokerConnection, Cluster, leader_epoch
from kohort.errors import KafkaError
from kohort.model import TopicPartition
from kohort.requests import PartitionResults, check
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


async def ask_epoch_ends(
    cluster: Cluster, connection: BrokerConnection, epochs: Mapping[TopicPartition, int]
) -> PartitionResults[int | None]:
    """Return the end offset of each epoch in the current leader's log (KIP-320).

    The end offset is the offset after the epoch's last record; None if the leader does not know the
    epoch. Raises KafkaError for an error of the whole request.
    """
    topics: dict[str, OffsetForLeaderTopic] = {}
    for partition, epoch in epochs.items():
        topic = topics.setdefault(partition.topic, OffsetForLeaderTopic(topic=partition.topic, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=leader_epoch(cluster, partition),
                leader_epoch=epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
    return _read(await connection.request(request, OffsetForLeaderEpochResponse))


def _read(response: OffsetForLeaderEpochResponse) -> PartitionResults[int | None]:
    found: dict[TopicPartition, int | None] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.topic, entry.partition)
            try:
                check(entry.error_code, str(partition))
            except KafkaError as problem:
                refused[partition] = problem
            else:
                found[partition] = None if entry.end_offset < 0 else entry.end_offset
    return found, refused
