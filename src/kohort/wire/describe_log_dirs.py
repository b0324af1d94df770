"""DescribeLogDirs: how large each partition's log is, and where it lies."""

from kohort.wire.codec import Bool, Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@struct
class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = array()


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest(Message):
    """Ask for the logs of some partitions, or of all (null)."""

    topics: list[DescribableLogDirTopic] | None = array()


@struct
class DescribeLogDirsPartition(Struct):
    """One partition's log."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@struct
class DescribeLogDirsTopic(Struct):
    """The logs of one topic."""

    name: String = ""
    partitions: list[DescribeLogDirsPartition] = array()


@struct
class DescribeLogDirsResult(Struct):
    """One directory."""

    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = array()
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: Bool = since(5, ignorable=True)


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsResponse(Message):
    """The directories."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, ignorable=True)
    results: list[DescribeLogDirsResult] = array()
