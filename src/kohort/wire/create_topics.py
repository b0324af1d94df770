"""CreateTopics: topics with their partitions and configs."""

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
    partition_index: Int32 = 0
    broker_ids: list[Int32] = array()


@struct
class CreatableTopicConfig(Struct):
    name: String = ""
    value: NullableString = ""


@struct
class CreatableTopic(Struct):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = array()
    configs: list[CreatableTopicConfig] = array()


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = array()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@struct
class CreatableTopicConfigs(Struct):
    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


@struct
class CreatableTopicResult(Struct):
    name: String = ""
    topic_id: Uuid = since(7, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    topic_config_error_code: Int16 = since(5, ignorable=True, tag=0)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = since(5, ignorable=True)


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsResponse(Message):
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = array()
