"""AlterPartitionReassignments and ListPartitionReassignments: changes of partitions' replicas, and so of leaders.

A reassignment is accepted when it is durable. It is in progress until one of the new replicas leads the partition,
which takes as long as the old leader needs to close it.
"""

from typing import Protocol

from kohort.broker.apis.replica_rules import Dependencies as ReplicaRulesParts
from kohort.broker.apis.replica_rules import check_assignment
from kohort.broker.logs import DiskErrors, Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode, KafkaError
from kohort.log.cluster import PartitionId
from kohort.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kohort.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class Dependencies(ReplicaRulesParts, Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    topics: Topics


def alter(broker: Dependencies, call: Call, request: AlterPartitionReassignmentsRequest) -> None:
    """Begin or cancel the reassignment of each partition, independently of the others."""
    wanted: dict[PartitionId, tuple[int, ...]] = {}
    over: list[PartitionId] = []
    responses = []
    for topic in request.topics:
        answer = ReassignableTopicResponse(name=topic.name, partitions=[])
        for partition in topic.partitions:
            try:
                found = _checked(broker, topic.name, partition, request.allow_replication_factor_change)
            except KafkaError as error:
                answer.partitions.append(_refused(partition, error))
                continue
            if partition.replicas is None:
                over.append(found)
            else:
                wanted[found] = tuple(partition.replicas)
            answer.partitions.append(
                ReassignablePartitionResponse(partition_index=partition.partition_index, error_message=None)
            )
        responses.append(answer)
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
    try:
        if wanted or over:
            broker.leadership.reassign(wanted, over)
    except OSError as error:
        broker.disk_errors.note("reassign partitions", error)
        response.error_code, response.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    call.reply(response)


def _checked(broker: Dependencies, name: str, wanted: ReassignablePartition, may_change_factor: bool) -> PartitionId:
    topic, index = broker.topics.named(name), wanted.partition_index
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic named {name}.")
    if not 0 <= index < topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
    now = broker.leadership.replicas(topic, index)
    if wanted.replicas is None:
        if not now.in_progress:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return PartitionId(topic.topic_id, index)
    check_assignment(broker, wanted.replicas)
    # As in Kafka: while a reassignment is in progress, the number of its target replicas applies.
    factor = len(now.nodes) - len(now.removing)
    if not may_change_factor and len(wanted.replicas) != factor:
        detail = f"{name}-{index} has {factor} replicas, and {len(wanted.replicas)} are assigned."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
    return PartitionId(topic.topic_id, index)


def _refused(wanted: ReassignablePartition, error: KafkaError) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index, error_code=error.code, error_message=error.sentence
    )


def list_all(broker: Dependencies, call: Call, request: ListPartitionReassignmentsRequest) -> None:
    """List reassignments in progress; other partitions and unknown ones are omitted."""
    if request.topics is None:
        asked = [(topic.name, list(range(topic.partitions))) for topic in broker.topics.all().values()]
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in request.topics]
    found = [OngoingTopicReassignment(name=name, partitions=_ongoing(broker, name, indexes)) for name, indexes in asked]
    topics = [topic for topic in found if topic.partitions]
    call.reply(ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _ongoing(broker: Dependencies, name: str, indexes: list[int]) -> list[OngoingPartitionReassignment]:
    topic = broker.topics.named(name)
    ongoing = []
    for index in indexes:
        if topic is None or not 0 <= index < topic.partitions:
            continue
        now = broker.leadership.replicas(topic, index)
        if now.in_progress:
            ongoing.append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(now.nodes),
                    adding_replicas=list(now.adding),
                    removing_replicas=list(now.removing),
                )
            )
    return ongoing
