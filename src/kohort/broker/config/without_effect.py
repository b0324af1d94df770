"""Kafka's settings that have no effect in this broker, which lacks the feature or implements it in another way.

They are accepted and described, because tools and programs that set them must not fail.
"""

import logging
from collections.abc import Mapping

from kohort.broker.config.setting import INT32, INT64, Setting, Value

log = logging.getLogger("kohort.broker")

_FALSE = frozenset({"false"})
_UNLIMITED = 1.7976931348623157e308

_ACKNOWLEDGED = "acknowledged records are on disk"
_CODEC_LEVEL = "the broker compresses with the codec's default level"
_CLEANER_BUFFERS = "the cleaner has no such buffers"
_CONNECTIONS = "max.connections is the only limit for connections"
_INDEX = "the broker chooses the size and density of its indexes"
_JITTER = "segments are rolled exactly when they are due"
_NO_COPIES = "brokers do not copy records to each other"
_NO_REPLICAS = "topics have no replicas that copy records"
_SHARE = "the broker has no share groups and no streams groups"
_THREADS = "the broker has no thread pools"
_TIERED = "the broker has no tiered storage"


def _idle(
    default: Value,
    doc: str,
    no_effect: str,
    low: int | None = None,
    high: int | None = None,
    *,
    is_list: bool = False,
    kafka: str = "",
) -> Setting:
    return Setting(default, doc, low, high, is_list=is_list, live=True, no_effect=no_effect, kafka=kafka)


IDLE: Mapping[str, Setting] = {
    "background.threads": _idle(10, "Number of threads for background tasks.", _THREADS, 1, INT32),
    "compression.gzip.level": _idle(
        -1, "Level of gzip compression; -1 is gzip's default.", _CODEC_LEVEL, -1, 9, kafka="1 to 9, or -1"
    ),
    "compression.lz4.level": _idle(9, "Level of lz4 compression.", _CODEC_LEVEL, 1, 17),
    "compression.zstd.level": _idle(3, "Level of zstd compression.", _CODEC_LEVEL, -131_072, 22),
    "config.providers": _idle(
        "", "Providers that resolve variables in values.", "the broker takes values as they are", is_list=True
    ),
    "follower.fetch.last.tiered.offset.enable": _idle(
        False, "Whether a new follower begins at the last offset in remote storage.", _TIERED
    ),
    "follower.replication.throttled.rate": _idle(
        INT64, "Limit for replication traffic to followers on this broker, in bytes per second.", _NO_COPIES, 0, INT64
    ),
    "group.coordinator.cached.buffer.max.bytes": _idle(
        1_048_588,
        "Largest buffer that a group coordinator keeps for reuse, in bytes.",
        "coordinators keep no buffers",
        524_288,
        INT32,
    ),
    "group.share.assignment.interval.ms": _idle(
        1_000, "Minimum time between two assignments of a share group, in milliseconds.", _SHARE, 0, INT32
    ),
    "group.streams.assignment.interval.ms": _idle(
        1_000, "Minimum time between two assignments of a streams group, in milliseconds.", _SHARE, 0, INT32
    ),
    "leader.replication.throttled.rate": _idle(
        INT64, "Limit for replication traffic from leaders on this broker, in bytes per second.", _NO_COPIES, 0, INT64
    ),
    "log.cleaner.io.buffer.load.factor": _idle(
        0.9, "Highest fill level of the deduplication buffer of compaction.", _CLEANER_BUFFERS, 0, 1
    ),
    "log.cleaner.io.buffer.size": _idle(
        524_288, "Memory for the I/O buffers of compaction, in bytes.", _CLEANER_BUFFERS, 0, INT32
    ),
    "log.cleaner.io.max.bytes.per.second": _idle(
        _UNLIMITED, "Limit for the I/O of compaction, in bytes per second.", "the cleaner is not throttled", 0
    ),
    "log.cleaner.threads": _idle(1, "Number of threads for compaction.", "the cleaner has one thread", 0, INT32),
    "log.flush.interval.ms": _idle(
        INT64, "Maximum time before records are flushed to disk, in milliseconds.", _ACKNOWLEDGED, 0, INT64
    ),
    "log.flush.interval.messages": _idle(
        INT64, "Number of records of a partition after which they are flushed to disk.", _ACKNOWLEDGED, 1, INT64
    ),
    "log.index.interval.bytes": _idle(4_096, "Distance between two entries of an index, in bytes.", _INDEX, 0, INT32),
    "log.index.size.max.bytes": _idle(10 << 20, "Maximum size of an index, in bytes.", _INDEX, 4, INT32),
    "log.local.retention.bytes": _idle(
        -2, "Size of a partition's local segments above which the oldest are deleted, in bytes.", _TIERED, -2, INT64
    ),
    "log.local.retention.ms": _idle(
        -2, "Age at which local segments are deleted, in milliseconds.", _TIERED, -2, INT64
    ),
    "log.preallocate": _idle(
        False, "Whether the file of a new segment is allocated at once.", "files grow as they are written"
    ),
    "log.roll.jitter.ms": _idle(
        0, "Maximum random time that log.roll.ms is shortened by, in milliseconds.", _JITTER, 0, INT64
    ),
    "log.segment.delete.delay.ms": _idle(
        60_000,
        "Time that files of deleted segments are kept, in milliseconds.",
        "files are deleted as soon as nothing reads them",
        0,
        INT64,
    ),
    "max.connection.creation.rate": _idle(INT32, "Limit for new connections per second.", _CONNECTIONS, 0, INT32),
    "max.connections.per.ip": _idle(INT32, "Maximum number of connections from one address.", _CONNECTIONS, 0, INT32),
    "max.connections.per.ip.overrides": _idle(
        "", "Maximum numbers of connections for single addresses, as HOST:NUMBER,HOST:NUMBER.", _CONNECTIONS
    ),
    "metric.reporters": _idle(
        "org.apache.kafka.common.metrics.JmxReporter",
        "Classes that publish metrics.",
        "the broker publishes no metrics",
        is_list=True,
    ),
    "num.io.threads": _idle(8, "Number of threads that process requests.", _THREADS, 1, INT32),
    "num.network.threads": _idle(3, "Number of threads that serve connections.", _THREADS, 1, INT32),
    "num.recovery.threads.per.data.dir": _idle(
        2, "Number of threads per data directory for recovery at startup.", _THREADS, 1, INT32
    ),
    "num.replica.fetchers": _idle(1, "Number of threads that copy records from each leader.", _THREADS, 1, INT32),
    "remote.fetch.max.wait.ms": _idle(
        500, "Longest time that a fetch waits for remote storage, in milliseconds.", _TIERED, 1, INT32
    ),
    "remote.list.offsets.request.timeout.ms": _idle(
        30_000, "Time limit for finding offsets in remote storage, in milliseconds.", _TIERED, 1, INT64
    ),
    "remote.log.index.file.cache.total.size.bytes": _idle(
        1 << 30, "Disk space for indexes of remote segments, in bytes.", _TIERED, 1, INT64
    ),
    "remote.log.manager.copier.thread.pool.size": _idle(
        10, "Number of threads that copy segments to remote storage.", _TIERED, 1, INT32
    ),
    "remote.log.manager.copy.max.bytes.per.second": _idle(
        INT64, "Limit for copying to remote storage, in bytes per second.", _TIERED, 1, INT64
    ),
    "remote.log.manager.expiration.thread.pool.size": _idle(
        10, "Number of threads that delete expired remote segments.", _TIERED, 1, INT32
    ),
    "remote.log.manager.fetch.max.bytes.per.second": _idle(
        INT64, "Limit for reading from remote storage, in bytes per second.", _TIERED, 1, INT64
    ),
    "remote.log.manager.follower.thread.pool.size": _idle(
        2, "Number of threads that read remote metadata for followers.", _TIERED, 1, INT32
    ),
    "remote.log.reader.threads": _idle(10, "Number of threads that read remote segments.", _TIERED, 1, INT32),
    "replica.alter.log.dirs.io.max.bytes.per.second": _idle(
        INT64, "Limit for moving replicas between data directories, in bytes per second.", _NO_COPIES, 0, INT64
    ),
    "sasl.kerberos.min.time.before.relogin": _idle(
        60_000, "Minimum time between two Kerberos logins, in milliseconds.", "the broker has no Kerberos", 0, INT64
    ),
    "share.coordinator.cached.buffer.max.bytes": _idle(
        1_048_588, "Largest buffer that a share coordinator keeps for reuse, in bytes.", _SHARE, 524_288, INT32
    ),
    "unclean.leader.election.enable": _idle(
        False,
        "Whether a replica that is not in sync may become the leader, which loses records.",
        "every broker that may lead a partition has all its records",
    ),
}
"""Broker settings, by name."""

NULL_UNLESS_SET = frozenset({"log.flush.interval.ms", "log.roll.jitter.ms"})
"""Broker settings that Kafka derives from others: DescribeConfigs returns null while they are not set."""

ABSENT_UNLESS_SET = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Broker settings that exist in Kafka only while an admin has set them: DescribeConfigs omits them by default."""

IDLE_TOPIC_NAMES: Mapping[str, str] = {
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "preallocate": "log.preallocate",
    "segment.index.bytes": "log.index.size.max.bytes",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Broker setting with the default of each topic config."""

IDLE_OF_TOPICS: Mapping[str, Setting] = {
    "flush.ms": _idle(
        INT64, "Maximum time before records are flushed to disk, in milliseconds.", _ACKNOWLEDGED, 0, INT64
    ),
    "follower.replication.throttled.replicas": _idle(
        "", "Replicas whose followers are throttled, as PARTITION:BROKER, or * for all.", _NO_REPLICAS, is_list=True
    ),
    "leader.replication.throttled.replicas": _idle(
        "", "Replicas whose leaders are throttled, as PARTITION:BROKER, or * for all.", _NO_REPLICAS, is_list=True
    ),
    "remote.log.copy.disable": _idle(False, "Whether copying to remote storage is stopped.", _TIERED),
    "remote.log.delete.on.disable": _idle(
        False, "Whether remote segments are deleted when remote storage is turned off.", _TIERED
    ),
    "remote.storage.enable": Setting(
        False, "Whether segments are copied to remote storage.", choices=_FALSE, no_effect=_TIERED
    ),
    "segment.jitter.ms": _idle(
        0, "Maximum random time that segment.ms is shortened by, in milliseconds.", _JITTER, 0, INT64
    ),
}
"""Topic configs whose default is not a broker setting."""


def warn_of_idle_settings(configs: Mapping[str, str]) -> None:
    """Log a warning for each of these broker settings that has no effect here."""
    for name in sorted(IDLE.keys() & configs.keys()):
        log.warning("%s=%s has no effect: %s", name, configs[name], IDLE[name].no_effect)
