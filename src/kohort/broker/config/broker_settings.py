"""The broker's settings: Kafka's names and defaults, and settings of our own that Kafka does not have."""

from collections.abc import Mapping

from kohort.broker.config.security import SECURITY
from kohort.broker.config.setting import ABSENT, INT32, INT64, Setting
from kohort.broker.config.single_connection import SINGLE_CONNECTION_SETTINGS
from kohort.broker.config.without_effect import IDLE
from kohort.coordinator import MigrationPolicy

_DAY = 86_400_000

CLEANUP_POLICIES = frozenset({"delete", "compact"})
TIMESTAMP_TYPES = frozenset({"CreateTime", "LogAppendTime"})
PROTOCOLS = frozenset({"classic", "consumer"})
MIGRATION_POLICIES = frozenset(policy.value for policy in MigrationPolicy)
COMPRESSIONS = frozenset({"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"})

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTORS = frozenset({"", "org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE})

SECTIONS: Mapping[str, Mapping[str, Setting]] = {
    "Listeners and connections": {
        "advertised.listeners": Setting(
            "",
            "Addresses that the broker gives to clients, as NAME://HOST:PORT, or HOST:PORT for the listener PLAINTEXT."
            " Empty: the addresses that the broker listens on.",
            is_list=True,
        ),
        "broker.rack": Setting("", "Rack or zone of this broker (KIP-36). Empty: unknown."),
        "connections.max.idle.ms": Setting(
            600_000,
            "Time without requests after which a connection is closed, in milliseconds.",
            1,
            INT64,
            kafka="-1 keeps idle connections open",
        ),
        "frame.read.timeout.ms": Setting(
            30_000,
            "Time within which a request must arrive completely, in milliseconds. A later one closes its connection.",
            1,
            INT64,
            kafka=ABSENT,
        ),
        "max.connections": Setting(
            20_000,
            "Maximum number of connections. Further connections are closed at once.",
            1,
            INT32,
            live=True,
            kafka="default 2147483647, at least 0; further connections wait until another one closes",
        ),
        "max.queued.requests.per.connection": Setting(
            1_000,
            "Number of unanswered requests of a connection at which the broker stops reading from it.",
            1,
            INT32,
            kafka=ABSENT,
        ),
        "max.request.elements": Setting(
            200_000,
            "Maximum number of elements in all arrays of a request. A request with more closes its connection.",
            1,
            INT32,
            kafka=ABSENT,
        ),
        "socket.request.max.bytes": Setting(
            104_857_600, "Maximum size of a request, in bytes. A larger request closes its connection.", 1, INT32
        ),
    },
    "Clusters and replication": {
        "broker.lease.ms": Setting(
            3_000,
            "Time without a sign of life after which other brokers take over a broker's partitions, in milliseconds."
            " Only in a cluster over PostgreSQL.",
            500,
            600_000,
            kafka=ABSENT,
        ),
        "broker.session.timeout.ms": Setting(
            9_000,
            "Time without a sign of life after which the other brokers end a broker's process, in milliseconds."
            " Only in a cluster over one directory.",
            1,
            INT32,
            kafka="the controller fences the broker",
        ),
        "default.replication.factor": Setting(
            1, "Replication factor of a topic that is created without one.", 1, 32_767
        ),
        "min.insync.replicas": Setting(
            1,
            "Number of replicas that must be in sync for a produce request with acks=all. If it is above a topic's"
            " replication factor, all replicas must be in sync.",
            1,
            INT32,
            live=True,
            kafka="a number above the replication factor rejects these requests",
        ),
    },
    "Topics and logs": {
        "auto.create.topics.enable": Setting(
            True, "Whether a request for the metadata of a topic that does not exist creates it."
        ),
        "compression.type": Setting(
            "producer",
            "Compression of stored batches; producer keeps the compression that the producer used.",
            choices=COMPRESSIONS,
            live=True,
        ),
        "log.cleanup.policy": Setting(
            "delete",
            "What happens to old records: delete removes whole segments by age and size, compact keeps the newest"
            " record of each key. Both can be combined; an empty list keeps everything.",
            choices=CLEANUP_POLICIES,
            is_list=True,
            live=True,
        ),
        "log.message.timestamp.type": Setting(
            "CreateTime",
            "Timestamp of records: CreateTime keeps the producer's, LogAppendTime sets the broker's time.",
            choices=TIMESTAMP_TYPES,
            live=True,
        ),
        "log.message.timestamp.after.max.ms": Setting(
            3_600_000,
            "How far a record's timestamp may be ahead of the broker's clock, in milliseconds.",
            0,
            INT64,
            live=True,
        ),
        "log.message.timestamp.before.max.ms": Setting(
            INT64,
            "How far a record's timestamp may be behind the broker's clock, in milliseconds.",
            0,
            INT64,
            live=True,
        ),
        "log.retention.bytes": Setting(
            -1,
            "Size of a partition above which its oldest segments are deleted, in bytes; -1 is unlimited.",
            -1,
            INT64,
            live=True,
        ),
        "log.retention.check.interval.ms": Setting(
            300_000, "Time between two checks for segments to delete, in milliseconds.", 1, INT64
        ),
        "log.retention.ms": Setting(
            7 * _DAY,
            "Age at which segments are deleted, in milliseconds; -1 is unlimited.",
            -1,
            INT64,
            live=True,
            kafka="default null, and log.retention.hours (168) applies",
        ),
        "log.roll.ms": Setting(
            7 * _DAY,
            "Age at which a new segment is begun, in milliseconds.",
            1,
            INT64,
            live=True,
            kafka="default null, and log.roll.hours (168) applies",
        ),
        "log.segment.bytes": Setting(
            1 << 30,
            "Size at which a new segment is begun, in bytes.",
            1_024,
            INT32,
            live=True,
            kafka="at least 1048576",
        ),
        "message.max.bytes": Setting(
            1_048_588, "Maximum size of a record batch that a producer sends, in bytes.", 0, INT32, live=True
        ),
        "num.partitions": Setting(
            1,
            "Number of partitions of a topic that is created without one.",
            1,
            100_000,
            kafka="no upper limit",
        ),
        "producer.id.expiration.ms": Setting(
            _DAY,
            "Time without a record after which the broker forgets an idempotent producer, in milliseconds.",
            1,
            INT32,
            live=True,
        ),
        "store.queued.max.bytes": Setting(
            128 << 20,
            "Amount of data waiting for the disk at which the broker stops reading from producers, in bytes.",
            1,
            INT64,
            kafka=ABSENT,
        ),
    },
    "Compaction": {
        "log.cleaner.backoff.ms": Setting(
            15_000,
            "Time between two searches for partitions to compact, in milliseconds.",
            1,
            INT64,
            live=True,
            kafka="at least 0",
        ),
        "log.cleaner.dedupe.buffer.size": Setting(
            128 << 20,
            "Memory for the keys of a compaction, in bytes. A partition with more keys takes several passes.",
            1 << 20,
            INT64,
            live=True,
        ),
        "log.cleaner.delete.retention.ms": Setting(
            _DAY, "Time that compaction keeps tombstones, in milliseconds.", 0, INT64, live=True
        ),
        "log.cleaner.enable": Setting(True, "Whether topics with cleanup.policy=compact are compacted."),
        "log.cleaner.max.compaction.lag.ms": Setting(
            INT64,
            "Age of a record at which its partition is compacted in any case, in milliseconds.",
            1,
            INT64,
            live=True,
        ),
        "log.cleaner.min.cleanable.ratio": Setting(
            0.5, "Share of a partition that must be new since the last compaction for the next one.", 0, 1, live=True
        ),
        "log.cleaner.min.compaction.lag.ms": Setting(
            0, "Age below which records are not compacted, in milliseconds.", 0, INT64, live=True
        ),
    },
    "Quotas": {
        "quota.window.num": Setting(
            11,
            "Number of windows over which the bytes of a client with a quota are measured; the last one is incomplete.",
            1,
            INT32,
        ),
        "quota.window.size.seconds": Setting(1, "Length of such a window, in seconds.", 1, INT32),
    },
    "Fetch": {
        "fetch.max.bytes": Setting(
            57_671_680, "Maximum size of the answer to a fetch, in bytes, whatever the client asks for.", 1_024, INT32
        ),
        "max.incremental.fetch.session.cache.slots": Setting(
            1_000, "Maximum number of fetch sessions that the broker keeps (KIP-227).", 0, INT32
        ),
        "replica.selector.class": Setting(
            "",
            "Which replica consumers read from. RackAwareReplicaSelector: a replica in the rack that they give as"
            " client.rack (KIP-392). LeaderSelector or empty: the leader.",
            choices=REPLICA_SELECTORS,
            kafka="any class that implements ReplicaSelector",
        ),
    },
    "Committed offsets": {
        "offset.metadata.max.bytes": Setting(
            4_096, "Maximum length of the metadata of a committed offset, in characters.", 0, INT32
        ),
        "offsets.retention.check.interval.ms": Setting(
            600_000, "Time between two checks for expired offsets, in milliseconds.", 1, INT64
        ),
        "offsets.retention.minutes": Setting(
            10_080, "Time after which the offsets of an empty group are deleted, in minutes.", 1, INT32
        ),
        "offsets.topic.num.partitions": Setting(
            50,
            "Number of partitions of __consumer_offsets. It takes effect when the topic is created.",
            1,
            10_000,
            kafka="no upper limit",
        ),
        "offsets.topic.replication.factor": Setting(
            3,
            "Replication factor of __consumer_offsets, at most the number of brokers.",
            1,
            32_767,
            kafka="the topic is created once there are enough brokers",
        ),
        "offsets.topic.segment.bytes": Setting(
            104_857_600, "Segment size of __consumer_offsets, in bytes.", 1_024, INT32, kafka="at least 1"
        ),
    },
    "Transactions": {
        "add.partitions.to.txn.retry.backoff.max.ms": Setting(
            100,
            "Time for which the broker tries to add a partition to a transaction while the producer's last one is being"
            " completed, in milliseconds.",
            0,
            INT32,
        ),
        "add.partitions.to.txn.retry.backoff.ms": Setting(
            20, "Longest time between two of these attempts if another broker completes it, in milliseconds.", 1, INT32
        ),
        "transaction.max.timeout.ms": Setting(
            900_000, "Longest transaction timeout that a producer may ask for, in milliseconds.", 1, INT32
        ),
        "transaction.partition.verification.enable": Setting(
            True,
            "Whether a partition is checked to be part of a producer's transaction before it gets records of it.",
            live=True,
        ),
        **SINGLE_CONNECTION_SETTINGS,
        "transaction.remove.expired.transaction.cleanup.interval.ms": Setting(
            3_600_000, "Time between two checks for expired transactional IDs, in milliseconds.", 1, INT32
        ),
        "transaction.state.log.num.partitions": Setting(
            50,
            "Number of partitions of __transaction_state. It takes effect when the topic is created, by the first"
            " transactional producer.",
            1,
            10_000,
            kafka="no upper limit",
        ),
        "transaction.state.log.replication.factor": Setting(
            3,
            "Replication factor of __transaction_state, at most the number of brokers.",
            1,
            32_767,
            kafka="the topic is created once there are enough brokers",
        ),
        "transaction.state.log.segment.bytes": Setting(
            104_857_600, "Segment size of __transaction_state, in bytes.", 1_024, INT32, kafka="at least 1"
        ),
        "transaction.version": Setting(
            2,
            "Level of the feature transaction.version in a new cluster. 2: every transaction has an epoch of its own"
            " (KIP-890). Later, only kohort features or kafka-features.sh change it.",
            0,
            2,
            kafka=ABSENT,
        ),
        "transactional.id.expiration.ms": Setting(
            604_800_000,
            "Time without a transaction after which a transactional ID is deleted, in milliseconds.",
            1,
            INT32,
        ),
    },
    "Classic groups": {
        "group.coordinator.rebalance.protocols": Setting(
            "classic,consumer",
            "Protocols that groups may use; classic is required.",
            choices=PROTOCOLS,
            is_list=True,
            kafka="default classic,consumer,streams; also share",
        ),
        "group.initial.rebalance.delay.ms": Setting(
            3_000,
            "Time that an empty classic group waits for more members before its first rebalance, in milliseconds. While"
            " heartbeats are held, a group whose earlier members are all back does not wait.",
            0,
            INT32,
            kafka="every group waits",
        ),
        "group.max.session.timeout.ms": Setting(
            1_800_000, "Longest session timeout that a classic member may ask for, in milliseconds.", 1, INT32
        ),
        "group.max.size": Setting(INT32, "Maximum number of members of a classic group.", 1, INT32),
        "group.min.session.timeout.ms": Setting(
            6_000, "Shortest session timeout that a classic member may ask for, in milliseconds.", 1, INT32
        ),
    },
    "Consumer groups": {
        "group.consumer.assignors": Setting(
            "uniform,range,rack,lag,rate,weighted",
            "Assignors for consumer groups, by name or as package.module:Class. The first one is the default.",
            is_list=True,
            kafka="default uniform,range; Java classes",
        ),
        "group.consumer.assignment.interval.ms": Setting(
            1_000,
            "Minimum time between two assignments of a consumer group, in milliseconds (KIP-1263). While heartbeats are"
            " held, the broker waits only as long as changes keep arriving.",
            0,
            INT32,
            live=True,
            kafka="the whole time is waited for",
        ),
        "group.consumer.heartbeat.interval.ms": Setting(
            5_000, "Time between heartbeats of a member of a consumer group, in milliseconds.", 1, INT32
        ),
        "group.consumer.load.interval.ms": Setting(
            30_000,
            "Time between two measurements of the lag and rate of partitions, in milliseconds. Only for groups whose"
            " assignor uses them.",
            1,
            INT32,
            kafka=ABSENT,
        ),
        "group.consumer.max.assignment.interval.ms": Setting(
            15_000, "Upper limit for consumer.assignment.interval.ms of a group, in milliseconds.", 0, INT32
        ),
        "group.consumer.max.heartbeat.interval.ms": Setting(
            15_000, "Upper limit for consumer.heartbeat.interval.ms of a group, in milliseconds.", 1, INT32
        ),
        "group.consumer.max.session.timeout.ms": Setting(
            60_000, "Upper limit for consumer.session.timeout.ms of a group, in milliseconds.", 1, INT32
        ),
        "group.consumer.max.size": Setting(INT32, "Maximum number of members of a consumer group.", 1, INT32),
        "group.consumer.migration.policy": Setting(
            "bidirectional",
            "Which change of protocol is allowed for a group with members: upgrade (classic to consumer), downgrade"
            " (consumer to classic), bidirectional (both) or disabled (neither).",
            choices=MIGRATION_POLICIES,
        ),
        "group.consumer.min.assignment.interval.ms": Setting(
            0, "Lower limit for consumer.assignment.interval.ms of a group, in milliseconds.", 0, INT32
        ),
        "group.consumer.min.heartbeat.interval.ms": Setting(
            5_000, "Lower limit for consumer.heartbeat.interval.ms of a group, in milliseconds.", 1, INT32
        ),
        "group.consumer.min.session.timeout.ms": Setting(
            45_000, "Lower limit for consumer.session.timeout.ms of a group, in milliseconds.", 1, INT32
        ),
        "group.consumer.regex.refresh.interval.ms": Setting(
            600_000,
            "Maximum time between two evaluations of the regular expressions of subscriptions, in milliseconds.",
            10_000,
            INT32,
        ),
        "group.consumer.session.timeout.ms": Setting(
            45_000,
            "Time without a heartbeat after which a member of a consumer group is removed, in milliseconds.",
            1,
            INT32,
        ),
    },
    "Held heartbeats": {
        "group.disconnect.grace.ms": Setting(
            -1,
            "Time after which a dynamic member is removed if its connection closed and it does not reconnect, in"
            " milliseconds. -1: one and a half times the member's own heartbeat interval plus 1000 (in a consumer"
            " group 5500, or its heartbeat interval plus 500 if that is longer), or 1500 if its process is very likely"
            " gone. 0: only the session timeout applies, as in Apache Kafka.",
            -1,
            INT32,
            kafka=ABSENT,
        ),
        "group.heartbeat.hold.ms": Setting(
            9_000,
            "Maximum time that a heartbeat without news is held, in milliseconds. 0: the broker answers at once, as"
            " Apache Kafka does.",
            0,
            INT32,
            kafka=ABSENT,
        ),
    },
    "Client telemetry": {
        "telemetry.max.bytes": Setting(
            1_048_576,
            "Maximum size of the metrics that a client pushes at once, in bytes, before and after decompression.",
            1,
            INT32,
            kafka="the size before decompression only",
        ),
        "telemetry.receiver.enable": Setting(
            False,
            "Whether clients may push their metrics to this broker (KIP-714, docs/watch.md). If not, it does not"
            " announce the requests.",
            kafka=ABSENT,
        ),
    },
    "Security": SECURITY,
}
"""Settings that have an effect, by section of docs/configuration.md."""

SETTINGS: Mapping[str, Setting] = {
    **{name: setting for section in SECTIONS.values() for name, setting in section.items()},
    **IDLE,
}

FACTS: Mapping[str, Setting] = {
    "broker.id": Setting(0, "ID of this broker, from --node-id.", 0, INT32),
    "node.id": Setting(0, "ID of this broker, from --node-id.", 0, INT32),
    "log.dirs": Setting("", "Directory of the log, from --data.", is_list=True),
    "advertised.listeners": Setting("", SETTINGS["advertised.listeners"].doc, is_list=True),
}
"""Facts about a running broker that admins read as if they were settings, with Kafka's names and types."""

BOUNDS: Mapping[str, tuple[str, str]] = {
    f"group.{which}": (
        f"group.{which.replace('consumer.', 'consumer.min.')}",
        f"group.{which.replace('consumer.', 'consumer.max.')}",
    )
    for which in ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
}
"""Settings whose lower and upper bounds are settings themselves."""
