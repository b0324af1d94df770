"""Kafka's settings for what this broker does not have, or does in another way: taken, told, and without effect.

Tools and programs set them on topics, and must not fail where it makes no difference.
"""

from collections.abc import Mapping

from kohort.broker.setting import INT32, INT64, Setting

_FALSE = frozenset({"false"})

_THREADS = "without effect: this broker has no pools of threads"
_TIERED = "without effect: there is no tiered storage"
_SHARE = "without effect: there are no share groups and no streams groups"
_THROTTLE = "without effect: brokers copy no records to each other"
_UNLIMITED = 1.7976931348623157e308

IDLE: Mapping[str, Setting] = {
    "background.threads": Setting(10, _THREADS, 1, INT32, live=True),
    "compression.gzip.level": Setting(-1, "without effect: gzip's own level is used", -1, 9, live=True),
    "compression.lz4.level": Setting(9, "without effect: lz4's own level is used", 1, 17, live=True),
    "compression.zstd.level": Setting(3, "without effect: zstd's own level is used", -131_072, 22, live=True),
    "config.providers": Setting("", "without effect: values are taken as they are", is_list=True, live=True),
    "follower.fetch.last.tiered.offset.enable": Setting(False, _TIERED, live=True),
    "follower.replication.throttled.rate": Setting(INT64, _THROTTLE, 0, INT64, live=True),
    "group.coordinator.cached.buffer.max.bytes": Setting(
        1_048_588, "without effect: a coordinator keeps no buffers", 524_288, INT32, live=True
    ),
    "group.share.assignment.interval.ms": Setting(1_000, _SHARE, 0, INT32, live=True),
    "group.streams.assignment.interval.ms": Setting(1_000, _SHARE, 0, INT32, live=True),
    "leader.replication.throttled.rate": Setting(INT64, _THROTTLE, 0, INT64, live=True),
    "log.cleaner.io.buffer.load.factor": Setting(0.9, "without effect: the cleaner has no buffers", 0, 1, live=True),
    "log.cleaner.io.buffer.size": Setting(524_288, "without effect: the cleaner has no buffers", 0, INT32, live=True),
    "log.cleaner.io.max.bytes.per.second": Setting(
        _UNLIMITED, "without effect: the cleaner is not throttled", 0, live=True
    ),
    "log.cleaner.threads": Setting(1, "without effect: the cleaner has one thread", 0, INT32, live=True),
    "log.flush.interval.ms": Setting(INT64, "without effect: what is acknowledged is on disk", 0, INT64, live=True),
    "log.flush.interval.messages": Setting(
        INT64, "without effect: what is acknowledged is on disk", 1, INT64, live=True
    ),
    "log.index.interval.bytes": Setting(4_096, "without effect: the index is as sparse as it is", 0, INT32, live=True),
    "log.index.size.max.bytes": Setting(10 << 20, "without effect: the index grows as it must", 4, INT32, live=True),
    "log.local.retention.bytes": Setting(-2, "without effect: there is no tiered storage", -2, INT64, live=True),
    "log.local.retention.ms": Setting(-2, "without effect: there is no tiered storage", -2, INT64, live=True),
    "log.preallocate": Setting(False, "without effect: files grow as they are written", live=True),
    "log.roll.jitter.ms": Setting(0, "without effect: segments are rolled when it is their time", 0, INT64, live=True),
    "log.segment.delete.delay.ms": Setting(
        60_000, "without effect: files of no use are deleted at once", 0, INT64, live=True
    ),
    "max.connection.creation.rate": Setting(
        INT32, "without effect: max.connections is the only limit of connections", 0, INT32, live=True
    ),
    "max.connections.per.ip": Setting(
        INT32, "without effect: max.connections is the only limit of connections", 0, INT32, live=True
    ),
    "max.connections.per.ip.overrides": Setting(
        "", "without effect: max.connections is the only limit of connections", live=True
    ),
    "metric.reporters": Setting(
        "org.apache.kafka.common.metrics.JmxReporter", "without effect: there are no metrics", is_list=True, live=True
    ),
    "num.io.threads": Setting(8, _THREADS, 1, INT32, live=True),
    "num.network.threads": Setting(3, _THREADS, 1, INT32, live=True),
    "num.recovery.threads.per.data.dir": Setting(2, _THREADS, 1, INT32, live=True),
    "num.replica.fetchers": Setting(1, _THREADS, 1, INT32, live=True),
    "remote.fetch.max.wait.ms": Setting(500, _TIERED, 1, INT32, live=True),
    "remote.list.offsets.request.timeout.ms": Setting(30_000, _TIERED, 1, INT64, live=True),
    "remote.log.index.file.cache.total.size.bytes": Setting(1 << 30, _TIERED, 1, INT64, live=True),
    "remote.log.manager.copier.thread.pool.size": Setting(10, _TIERED, 1, INT32, live=True),
    "remote.log.manager.copy.max.bytes.per.second": Setting(INT64, _TIERED, 1, INT64, live=True),
    "remote.log.manager.expiration.thread.pool.size": Setting(10, _TIERED, 1, INT32, live=True),
    "remote.log.manager.fetch.max.bytes.per.second": Setting(INT64, _TIERED, 1, INT64, live=True),
    "remote.log.manager.follower.thread.pool.size": Setting(2, _TIERED, 1, INT32, live=True),
    "remote.log.reader.threads": Setting(10, _TIERED, 1, INT32, live=True),
    "replica.alter.log.dirs.io.max.bytes.per.second": Setting(INT64, _THROTTLE, 0, INT64, live=True),
    "sasl.kerberos.min.time.before.relogin": Setting(
        60_000, "without effect: there is no Kerberos", 0, INT64, live=True
    ),
    "share.coordinator.cached.buffer.max.bytes": Setting(1_048_588, _SHARE, 524_288, INT32, live=True),
    "transaction.partition.verification.enable": Setting(True, "without effect: there are no transactions", live=True),
    "unclean.leader.election.enable": Setting(False, "without effect: every broker has all records", live=True),
}
"""Of a broker, by name."""

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
"""By the topic config's name, the broker's setting of the same meaning."""

IDLE_OF_TOPICS: Mapping[str, Setting] = {
    "flush.ms": Setting(INT64, "without effect: what is acknowledged is on disk", 0, INT64),
    "follower.replication.throttled.replicas": Setting("", "without effect: there are no replicas", is_list=True),
    "leader.replication.throttled.replicas": Setting("", "without effect: there are no replicas", is_list=True),
    "remote.log.copy.disable": Setting(False, "without effect: there is no tiered storage"),
    "remote.log.delete.on.disable": Setting(False, "without effect: there is no tiered storage"),
    "remote.storage.enable": Setting(False, "must be false: there is no tiered storage", choices=_FALSE),
    "segment.jitter.ms": Setting(0, "without effect: segments are rolled when it is their time", 0, INT64),
}
"""Of topics alone: a broker has no default for them."""
