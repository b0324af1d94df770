"""ElectLeaders: elect the preferred replica of partitions as leader (KIP-460)."""

from kohort.wire.codec import Int8, Int16, Int32, Message, NullableString, String, Struct, array, message, since, struct


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = array()


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest(Message):
    """Elect leaders of some partitions, or of all (null)."""

    election_type: Int8 = since(1)
    topic_partitions: list[TopicPartitions] | None = array()
    timeout_ms: Int32 = 60000


@struct
class PartitionResult(Struct):
    """Result for one partition."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None


@struct
class ReplicaElectionResult(Struct):
    """Results for one topic's partitions."""

    topic: String = ""
    partition_result: list[PartitionResult] = array()


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersResponse(Message):
    """Result for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1)
    replica_election_results: list[ReplicaElectionResult] = array()
