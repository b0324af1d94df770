"""CreatePartitions: increase the number of partitions of topics."""

from kohort.wire.codec import Bool, Int16, Int32, Message, NullableString, String, Struct, array, message, struct


@struct
class CreatePartitionsAssignment(Struct):
    """Brokers of one new partition."""

    broker_ids: list[Int32] = array()


@struct
class CreatePartitionsTopic(Struct):
    """A topic and its new partition count."""

    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = array()


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest(Message):
    """Add partitions, or only check whether they could be added."""

    topics: list[CreatePartitionsTopic] = array()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@struct
class CreatePartitionsTopicResult(Struct):
    """Result for one topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse(Message):
    """Result for each topic."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = array()
