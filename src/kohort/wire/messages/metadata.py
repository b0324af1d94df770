"""Metadata: describe brokers, topics, partitions and leaders."""

from kohort.wire.codec import (
    NOT_ASKED,
    Bool,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    since,
    struct,
)


@struct
class MetadataRequestTopic(Struct):
    """A topic, by name or, from version 10, by ID (KIP-516)."""

    topic_id: Uuid = since(10, ignorable=True)
    name: NullableString = since(0, default="", nullable=10)


@message(key=3, versions=(0, 13), flexible=9)
class MetadataRequest(Message):
    """Describe some topics, all topics (null; an empty list in version 0) or none (an empty list)."""

    topics: list[MetadataRequestTopic] | None = since(0, nullable=1)
    allow_auto_topic_creation: Bool = since(4, default=True)
    include_cluster_authorized_operations: Bool = since(8, until=10)
    include_topic_authorized_operations: Bool = since(8)


@struct
class MetadataResponseBroker(Struct):
    """Address of a broker."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = since(1, default=None, ignorable=True)


@struct
class MetadataResponsePartition(Struct):
    """Leader and replicas of a partition."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)  # KIP-320
    replica_nodes: list[Int32] = array()
    isr_nodes: list[Int32] = array()
    offline_replicas: list[Int32] = since(5, ignorable=True)


@struct
class MetadataResponseTopic(Struct):
    """Description of a topic, or the error code."""

    error_code: Int16 = 0
    name: NullableString = since(0, default="", nullable=12)
    topic_id: Uuid = since(10, ignorable=True)  # KIP-516
    is_internal: Bool = since(1, ignorable=True)
    partitions: list[MetadataResponsePartition] = array()
    topic_authorized_operations: Int32 = since(8, default=NOT_ASKED)


@message(key=3, versions=(0, 13), flexible=9)
class MetadataResponse(Message):
    """Cluster metadata as known to this broker."""

    throttle_time_ms: Int32 = since(3, ignorable=True)
    brokers: list[MetadataResponseBroker] = array()
    cluster_id: NullableString = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array()
    cluster_authorized_operations: Int32 = since(8, until=10, default=NOT_ASKED)
    error_code: Int16 = since(13, ignorable=True)  # KIP-1102
