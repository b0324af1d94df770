"""Kafka's settings for what this broker does not have, or does in another way: taken, told, and without effect.

Tools and programs set them on topics, and must not fail where it makes no difference.
"""

from collections.abc import Mapping

from kohort.broker.setting import INT32, INT64, Setting

_FALSE = frozenset({"false"})

IDLE: Mapping[str, Setting] = {
    "compression.gzip.level": Setting(-1, "without effect: gzip's own level is used", -1, 9, live=True),
    "compression.lz4.level": Setting(9, "without effect: lz4's own level is used", 1, 17, live=True),
    "compression.zstd.level": Setting(3, "without effect: zstd's own level is used", -131_072, 22, live=True),
    "log.flush.interval.messages": Setting(
        INT64, "without effect: what is acknowledged is on disk", 1, INT64, live=True
    ),
    "log.index.interval.bytes": Setting(4_096, "without effect: the index is as sparse as it is", 0, INT32, live=True),
    "log.index.size.max.bytes": Setting(10 << 20, "without effect: the index grows as it must", 4, INT32, live=True),
    "log.local.retention.bytes": Setting(-2, "without effect: there is no tiered storage", -2, INT64, live=True),
    "log.local.retention.ms": Setting(-2, "without effect: there is no tiered storage", -2, INT64, live=True),
    "log.preallocate": Setting(False, "without effect: files grow as they are written", live=True),
    "log.segment.delete.delay.ms": Setting(
        60_000, "without effect: files of no use are deleted at once", 0, INT64, live=True
    ),
    "sasl.kerberos.min.time.before.relogin": Setting(
        60_000, "without effect: there is no Kerberos", 0, INT64, live=True
    ),
    "unclean.leader.election.enable": Setting(False, "without effect: there are no replicas to elect", live=True),
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
