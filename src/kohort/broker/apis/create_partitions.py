"""CreatePartitions: add partitions to topics; members of groups find them when they next ask for metadata."""

from collections import Counter
from typing import Protocol

from kohort.broker.apis.replica_rules import Dependencies as ReplicaRulesParts
from kohort.broker.apis.replica_rules import check_new_assignment, too_few_brokers
from kohort.broker.logs import DiskErrors, Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode, KafkaError
from kohort.log import Topic
from kohort.log.cluster import Placement
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class Dependencies(ReplicaRulesParts, Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    topics: Topics

    def grow_topic(self, topic: Topic, partitions: int, placement: Placement = ...) -> None: ...


def handle(broker: Dependencies, call: Call, request: CreatePartitionsRequest) -> None:
    """Add partitions to each topic, independently of the others."""
    named = Counter(topic.name for topic in request.topics)
    results = [_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in named if named[name] > 1]
    results += [_grow(broker, topic, request.validate_only) for topic in request.topics if named[topic.name] == 1]
    call.reply(CreatePartitionsResponse(results=results))


def _grow(broker: Dependencies, wanted: CreatePartitionsTopic, validate_only: bool) -> CreatePartitionsTopicResult:
    try:
        broker.leadership.catch_up()
        topic = broker.topics.named(wanted.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        broker.topics.check_growth(topic, wanted.count)
        placement = _placement(broker, topic, wanted)
        if not validate_only:
            broker.grow_topic(topic, wanted.count, placement)
    except KafkaError as error:
        return _refused(wanted.name, error.code, error.sentence)
    except OSError as error:
        broker.disk_errors.note(f"give the topic {wanted.name} more partitions", error)
        return _refused(wanted.name, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return CreatePartitionsTopicResult(name=wanted.name)


def _placement(broker: Dependencies, topic: Topic, wanted: CreatePartitionsTopic) -> Placement:
    """Return the placement: as many replicas as the topic's first partition has. Raise KafkaError."""
    added = wanted.count - topic.partitions
    if wanted.assignments is not None and len(wanted.assignments) != added:
        detail = f"{added} partition(s) would be added, but {len(wanted.assignments)} assignment(s) are given."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
    factor, brokers = broker.leadership.replicas(topic, 0).factor, len(broker.leadership.registered)
    assigned = [assignment.broker_ids for assignment in wanted.assignments or ()]
    for replicas in assigned:
        check_new_assignment(broker, replicas, factor)
    if not assigned and factor > brokers:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, too_few_brokers(factor, brokers))
    return Placement(factor, assigned)


def _refused(name: str, code: ErrorCode, message: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
