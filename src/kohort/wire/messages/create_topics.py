"""CreateTopics: create topics with their partitions and configs."""

from kohort.wire.codec import (
    Bool,
    Int8,
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
class CreatableReplicaAssignment(Struct):
    """Brokers of one partition."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = array()


@struct
class CreatableTopicConfig(Struct):
    """A config of the new topic."""

    name: String = ""
    value: NullableString = ""


@struct
class CreatableTopic(Struct):
    """A new topic. -1 partitions or replicas means the broker's default (KIP-464)."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = array()
    configs: list[CreatableTopicConfig] = array()


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsRequest(Message):
    """Create topics independently of each other, or only check whether they could be created."""

    topics: list[CreatableTopic] = array()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@struct
class CreatableTopicConfigs(Struct):
    """A config of the created topic."""

    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


@struct
class CreatableTopicResult(Struct):
    """Result for one topic, including its configs from version 5 (KIP-525)."""

    name: String = ""
    topic_id: Uuid = since(7, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = None
    topic_config_error_code: Int16 = since(5, ignorable=True, tag=0)  # reason why `configs` is null
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = since(5, ignorable=True)


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsResponse(Message):
    """Result for each topic."""

    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = array()
