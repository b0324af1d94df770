"""CreatePartitions: topics get more partitions; members of their groups find them when they next ask for metadata."""

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.apis.replica_rules import check_assignment, too_few_brokers
from kohort.broker.call import Call
from kohort.broker.topics import INTERNAL_TOPICS, MOST_PARTITIONS
from kohort.errors import ErrorCode, KafkaError
from kohort.log.api import Topic
from kohort.log.cluster import Placement
from kohort.wire.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from kohort.broker.server import Broker


def handle(broker: "Broker", call: Call, request: CreatePartitionsRequest) -> None:
    """Each topic succeeds or fails on its own."""
    named = Counter(topic.name for topic in request.topics)
    results = [_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in named if named[name] > 1]
    results += [_grow(broker, topic, request.validate_only) for topic in request.topics if named[topic.name] == 1]
    call.reply(CreatePartitionsResponse(results=results))


def _grow(broker: "Broker", wanted: CreatePartitionsTopic, validate_only: bool) -> CreatePartitionsTopicResult:
    topic = broker.topics.named(wanted.name)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(wanted.name, code, code.sentence)
    try:
        _check(topic, wanted)
        placement = _placement(broker, topic, wanted)
        if not validate_only:
            broker.grow_topic(topic, wanted.count, placement)
    except KafkaError as error:
        return _refused(wanted.name, error.code, error.sentence)
    except OSError as error:
        broker.disk_troubles.note(f"give the topic {wanted.name} more partitions", error)
        return _refused(wanted.name, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return CreatePartitionsTopicResult(name=wanted.name)


def _check(topic: Topic, wanted: CreatePartitionsTopic) -> None:
    now, count = topic.partitions, wanted.count
    if topic.name in INTERNAL_TOPICS:
        # Of __consumer_offsets: a group's partition is its id's hash modulo their number, so groups would lose offsets.
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The broker itself sets the number of partitions of {topic.name}.")
    if count == now:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic '{topic.name}' already has {now} partition(s).")
    if count < now:
        detail = f"Topic '{topic.name}' has {now} partition(s); {count} would not be an increase."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, detail)
    if count > MOST_PARTITIONS:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"A topic has at most {MOST_PARTITIONS} partitions.")
    if wanted.assignments is not None and len(wanted.assignments) != count - now:
        detail = f"{count - now} partition(s) would be added, but {len(wanted.assignments)} assignment(s) are given."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)


def _placement(broker: "Broker", topic: Topic, wanted: CreatePartitionsTopic) -> Placement:
    """As many replicas as the topic's first partition has. Raises KafkaError."""
    factor, nodes = broker.leadership.replicas(topic, 0).factor, broker.leadership.nodes
    assigned = [one.broker_ids for one in wanted.assignments or ()]
    for replicas in assigned:
        check_assignment(broker, replicas, factor)
    if not assigned and factor > len(nodes):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, too_few_brokers(factor, len(nodes)))
    return Placement(factor, assigned)


def _refused(name: str, code: ErrorCode, message: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
