"""CreateTopics and DeleteTopics."""

from collections import Counter
from typing import Protocol

from kohort.broker.apis.replica_rules import Dependencies as ReplicaRulesParts
from kohort.broker.apis.replica_rules import check_new_assignment, checked_factor
from kohort.broker.config import DynamicConfig, topic_entries
from kohort.broker.logs import INTERNAL_TOPICS, DiskErrors, Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode, KafkaError
from kohort.log import Topic
from kohort.log.cluster import Placement
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


class Dependencies(ReplicaRulesParts, Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    dynamic_config: DynamicConfig
    topics: Topics

    def delete_topic(self, topic: Topic) -> None: ...


def create(broker: Dependencies, call: Call, request: CreateTopicsRequest) -> None:
    """Create each topic, independently of the others."""
    named = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics}
    results = [_create(broker, new_topic, request.validate_only, named[name] > 1) for name, new_topic in wanted.items()]
    call.reply(CreateTopicsResponse(topics=results))


def _create(
    broker: Dependencies, wanted: CreatableTopic, validate_only: bool, named_twice: bool
) -> CreatableTopicResult:
    try:
        if named_twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic '{wanted.name}' appears twice in the request.")
        partitions, placement = _partitions(broker, wanted)
        configs = _configs(wanted)
        topic = broker.topics.check_new(wanted.name, partitions, configs)
        if not validate_only:
            topic = broker.topics.create(wanted.name, partitions, configs, placement)
    except KafkaError as error:
        return _refuse_to_create(wanted, error.code, error.sentence)
    except OSError as error:
        broker.disk_errors.note(f"create the topic {wanted.name}", error)
        return _refuse_to_create(wanted, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return CreatableTopicResult(
        name=topic.name,
        topic_id=NO_TOPIC_ID if validate_only else topic.topic_id,
        num_partitions=topic.partitions,
        replication_factor=len(placement.assigned[0]) if placement.assigned else placement.factor,
        configs=[
            CreatableTopicConfigs(name=entry.name, value=entry.text, config_source=entry.source)
            for entry in topic_entries(topic.configs, broker.dynamic_config)
        ],
    )


def _refuse_to_create(wanted: CreatableTopic, code: ErrorCode, why: str) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=wanted.name,
        error_code=code,
        error_message=why,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def _configs(wanted: CreatableTopic) -> dict[str, str]:
    nulls = [config.name for config in wanted.configs if config.value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null is not a value of {', '.join(nulls)}: leave it out instead.")
    return {config.name: config.value for config in wanted.configs if config.value is not None}


def _partitions(broker: Dependencies, wanted: CreatableTopic) -> tuple[int, Placement]:
    """Return the number of partitions and the placement of their replicas. Raise KafkaError."""
    if not wanted.assignments:
        return wanted.num_partitions, Placement(checked_factor(broker, wanted.replication_factor))
    if wanted.num_partitions != -1 or wanted.replication_factor != -1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "With an assignment, partitions and replication factor are -1.")
    assigned = {assignment.partition_index: assignment.broker_ids for assignment in wanted.assignments}
    if sorted(assigned) != list(range(len(wanted.assignments))):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Assign partitions 0 to n-1, each once.")
    in_order = [assigned[index] for index in range(len(assigned))]
    for replicas in in_order:
        check_new_assignment(broker, replicas, len(in_order[0]))
    return len(assigned), Placement(len(in_order[0]), in_order)


def delete(broker: Dependencies, call: Call, request: DeleteTopicsRequest) -> None:
    """Delete each topic, independently of the others; from v6, a request may identify a topic by ID."""
    wanted = request.topics if call.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    called = Counter(_name(broker, topic) for topic in wanted)
    answers = {_name(broker, topic): topic for topic in reversed(wanted)}
    call.reply(
        DeleteTopicsResponse(
            responses=[
                _refuse_to_delete(topic, "The topic appears twice in the request.")
                if called[name] > 1
                else _delete(broker, topic)
                for name, topic in reversed(answers.items())
            ]
        )
    )


def _name(broker: Dependencies, wanted: DeleteTopicState) -> str | UUID:
    """Return a key that is equal for two requests for the same topic."""
    topic = broker.topics.with_id(wanted.topic_id)
    if topic is not None:
        return topic.name
    return wanted.topic_id if wanted.name is None else wanted.name


def _refuse_to_delete(wanted: DeleteTopicState, why: str) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name, topic_id=wanted.topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=why
    )


def _delete(broker: Dependencies, wanted: DeleteTopicState) -> DeletableTopicResult:
    by_id = wanted.topic_id != NO_TOPIC_ID
    if by_id == (wanted.name is not None):
        return _refuse_to_delete(wanted, "Specify either the topic's name or its id, not both.")
    topic: Topic | None
    if by_id:
        topic, missing = broker.topics.with_id(wanted.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic, missing = broker.topics.named(wanted.name or ""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return DeletableTopicResult(
            name=wanted.name, topic_id=wanted.topic_id, error_code=missing, error_message=missing.sentence
        )
    if topic.name in INTERNAL_TOPICS:
        return DeletableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"{topic.name} is an internal topic of this broker and cannot be deleted.",
        )
    try:
        broker.delete_topic(topic)
    except OSError as error:
        broker.disk_errors.note(f"delete the topic {topic.name}", error)
        return DeletableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=ErrorCode.KAFKA_STORAGE_ERROR,
            error_message=str(error),
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
