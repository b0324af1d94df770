"""Metadata: brokers, topics and the leader of each partition; creates missing topics if the client allows it."""

from typing import Protocol

from kohort.broker.apis.current_leader import at_listener
from kohort.broker.apis.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from kohort.broker.apis.replica_rules import Dependencies as ReplicaRulesParts
from kohort.broker.apis.replica_rules import checked_factor
from kohort.broker.logs import INTERNAL_TOPICS, DiskErrors, Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode, KafkaError
from kohort.log import Topic
from kohort.log.cluster import NOBODY, Placement
from kohort.model import NO_TOPIC_ID
from kohort.wire.codec import NOT_ASKED
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Dependencies(ReplicaRulesParts, Protocol):
    """The parts of the broker that this module uses."""

    cluster_id: str
    disk_errors: DiskErrors
    topics: Topics


_BY_ID_FROM = 12
"""First version with topic IDs: v10 and v11 have the field, but no broker ever answered it (KAFKA-10774)."""


def handle(broker: Dependencies, call: Call, request: MetadataRequest) -> None:
    """Describe the given topics, or all (v0: an empty list; later: null)."""
    wanted = request.topics
    if wanted is None or (call.version == 0 and not wanted):
        topics = [_describe(broker, topic) for topic in broker.topics.all().values()]
    else:
        # Before v4, a client cannot prevent the creation of the topic.
        may_create = call.version < 4 or request.allow_auto_topic_creation
        if not all(_may_ask(topic, call.version) for topic in wanted):
            call.reply(MetadataResponse(topics=[_refuse(topic) for topic in wanted]))
            return
        # A topic that is named twice is answered once.
        named = {(topic.name, topic.topic_id): topic for topic in wanted}
        topics = [_look_up(broker, topic, may_create) for topic in named.values()]
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    asked_of_cluster = request.include_cluster_authorized_operations
    call.reply(
        MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in at_listener(broker.leadership.nodes, call.connection.listener)
            ],
            cluster_id=broker.cluster_id,
            controller_id=broker.leadership.controller_id,
            topics=topics,
            cluster_authorized_operations=CLUSTER_OPERATIONS if asked_of_cluster else NOT_ASKED,
        )
    )


def _may_ask(wanted: MetadataRequestTopic, version: int) -> bool:
    if version < _BY_ID_FROM:
        return wanted.name is not None and wanted.topic_id == NO_TOPIC_ID
    return wanted.name is not None or wanted.topic_id != NO_TOPIC_ID


def _refuse(wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    """Reject a topic without a usable name or ID; it fails the whole request, as in Kafka."""
    return MetadataResponseTopic(
        error_code=ErrorCode.INVALID_REQUEST, name=wanted.name or "", topic_id=wanted.topic_id, partitions=[]
    )


def _look_up(broker: Dependencies, wanted: MetadataRequestTopic, may_create: bool) -> MetadataResponseTopic:
    if wanted.topic_id != NO_TOPIC_ID:
        topic = broker.topics.with_id(wanted.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id, partitions=[]
            )
        return _describe(broker, topic)
    name = wanted.name or ""
    topic = broker.topics.named(name)
    if topic is None and may_create and broker.config.flag("auto.create.topics.enable"):
        try:
            factor = checked_factor(broker, -1)
            topic = broker.topics.create(name, placement=Placement(factor))
        except KafkaError as error:
            topic = broker.topics.named(name)  # another broker may have created it meanwhile
            if topic is None:
                code = error.code
                if code is ErrorCode.TOPIC_ALREADY_EXISTS:  # the topic is being deleted
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return MetadataResponseTopic(error_code=code, name=name, partitions=[])
        except OSError as error:
            broker.disk_errors.note(f"create the topic {name}", error)
            return MetadataResponseTopic(error_code=ErrorCode.KAFKA_STORAGE_ERROR, name=name, partitions=[])
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=[])
    return _describe(broker, topic)


def _describe(broker: Dependencies, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(broker, topic, index) for index in range(topic.partitions)],
    )


def _partition(broker: Dependencies, topic: Topic, index: int) -> MetadataResponsePartition:
    leader, replicas = broker.leadership.leader(topic, index), broker.leadership.replicas(topic, index)
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader.node_id == NOBODY else ErrorCode.NONE,
        partition_index=index,
        leader_id=leader.node_id,
        leader_epoch=leader.epoch,
        replica_nodes=list(replicas.nodes),
        isr_nodes=list(replicas.in_sync),
        offline_replicas=list(replicas.offline),
    )
