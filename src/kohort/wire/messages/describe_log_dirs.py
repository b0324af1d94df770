"""DescribeLogDirs: describe the size and directory of each partition's log."""

from kohort.wire.codec import Bool, Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@struct
class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = array()


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest(Message):
    """Describe the logs of some partitions, or of all (null)."""

    topics: list[DescribableLogDirTopic] | None = array()


@struct
class DescribeLogDirsPartition(Struct):
    """Description of one partition's log."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@struct
class DescribeLogDirsTopic(Struct):
    """Logs of one topic's partitions."""

    name: String = ""
    partitions: list[DescribeLogDirsPartition] = array()


@struct
class DescribeLogDirsResult(Struct):
    """Description of one log directory."""

    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = array()
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: Bool = since(5, ignorable=True)


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsResponse(Message):
    """Description of each log directory."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, ignorable=True)
    results: list[DescribeLogDirsResult] = array()
