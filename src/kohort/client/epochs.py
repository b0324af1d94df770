"""Where leaders' times ended, so that a consumer notices records that its position counts on and that are lost."""

from collections.abc import Mapping

from kohort.client.checks import check
from kohort.client.cluster import Cluster
from kohort.client.connection import Connection
from kohort.client.leaders import Answer, leader_epoch
from kohort.errors import KafkaError
from kohort.model import TopicPartition
from kohort.wire.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


async def ask_epoch_ends(
    cluster: Cluster, connection: Connection, epochs: Mapping[TopicPartition, int]
) -> Answer[int | None]:
    """The offset behind the last record of each epoch, in the log as its leader has it now (KIP-320).

    None where the leader does not know. Raises KafkaError for what concerns the whole request.
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


def _read(response: OffsetForLeaderEpochResponse) -> Answer[int | None]:
    found: dict[TopicPartition, int | None] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.topic, one.partition)
            try:
                check(one.error_code, str(partition))
            except KafkaError as problem:
                refused[partition] = problem
            else:
                found[partition] = None if one.end_offset < 0 else one.end_offset
    return found, refused
