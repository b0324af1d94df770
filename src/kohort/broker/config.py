"""The broker's configuration: Kafka's names and defaults, and ours where Kafka has none.

Values arrive as strings (`--set NAME=VALUE`, or lines of a file) and are checked once, here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kohort.broker.idle_settings import IDLE
from kohort.broker.setting import INT32, INT64, Setting, Value, known_setting
from kohort.coordinator import MigrationPolicy
from kohort.errors import ConfigError

_DAY = 86_400_000

CLEANUP_POLICIES = frozenset({"delete", "compact"})
TIMESTAMP_TYPES = frozenset({"CreateTime", "LogAppendTime"})
PROTOCOLS = frozenset({"classic", "consumer"})
MIGRATION_POLICIES = frozenset(policy.value for policy in MigrationPolicy)
COMPRESSIONS = frozenset({"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"})

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTORS = frozenset({"", "org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE})

SETTINGS: Mapping[str, Setting] = {
    "advertised.listeners": Setting(
        "", "HOST:PORT that clients are told to connect to; empty: where the broker listens"
    ),
    "auto.create.topics.enable": Setting(True, "create a topic when a client asks for its metadata"),
    "broker.rack": Setting("", "where this broker stands, such as its zone (KIP-36); empty: nobody knows"),
    "broker.session.timeout.ms": Setting(9_000, "in a cluster, end a broker that stood still for so long", 1, INT32),
    "broker.lease.ms": Setting(
        3_000, "over PostgreSQL, others lead what a broker led that was not heard of for so long (ours)", 500, 600_000
    ),
    "connections.max.idle.ms": Setting(600_000, "close a connection that was silent for so long", 1, INT64),
    "frame.read.timeout.ms": Setting(
        30_000, "close a connection whose incomplete request began this long ago (ours)", 1, INT64
    ),
    "compression.type": Setting(
        "producer", "what batches are compressed with; producer: kept as they come", choices=COMPRESSIONS, live=True
    ),
    "max.connections": Setting(
        20_000, "accept no more connections than this (bounded by default here)", 1, INT32, live=True
    ),
    "max.queued.requests.per.connection": Setting(1_000, "unanswered requests before reading stops (ours)", 1, INT32),
    "max.incremental.fetch.session.cache.slots": Setting(
        1_000, "how many clients' fetch sessions are kept (KIP-227); 0 keeps none", 0, INT32
    ),
    "max.request.elements": Setting(
        200_000, "elements in a request's arrays; one with more closes its connection (ours)", 1, INT32
    ),
    "message.max.bytes": Setting(1_048_588, "the largest record batch that a producer may send", 0, INT32, live=True),
    "default.replication.factor": Setting(1, "replication factor of a topic that is created without one", 1, 32_767),
    "min.insync.replicas": Setting(
        1,
        "replicas that must be in sync for a produce request with acks=all, up to the replication factor",
        1,
        INT32,
        live=True,
    ),
    "num.partitions": Setting(1, "partitions of a topic that is created without a number", 1, 100_000),
    "log.cleaner.delete.retention.ms": Setting(_DAY, "how long compaction keeps tombstones", 0, INT64, live=True),
    "log.cleaner.backoff.ms": Setting(15_000, "how often compaction looks for something to do", 1, INT64, live=True),
    "log.cleaner.dedupe.buffer.size": Setting(
        128 << 20, "memory for the keys of one compaction", 1 << 20, INT64, live=True
    ),
    "log.cleaner.enable": Setting(True, "compact topics with cleanup.policy=compact"),
    "log.cleaner.max.compaction.lag.ms": Setting(
        INT64, "a record waits no longer for compaction, whatever the ratio", 1, INT64, live=True
    ),
    "log.cleaner.min.cleanable.ratio": Setting(
        0.5, "compact a partition when this part of it is new since the last time", 0, 1, live=True
    ),
    "log.cleaner.min.compaction.lag.ms": Setting(0, "how long a record is safe from compaction", 0, INT64, live=True),
    "log.cleanup.policy": Setting(
        "delete", "delete, compact, both, or empty: keep everything", choices=CLEANUP_POLICIES, is_list=True, live=True
    ),
    "log.message.timestamp.type": Setting(
        "CreateTime", "CreateTime, or LogAppendTime: the broker's clock counts", choices=TIMESTAMP_TYPES, live=True
    ),
    "log.message.timestamp.after.max.ms": Setting(
        3_600_000, "how far ahead of the broker's clock a record's time may be", 0, INT64, live=True
    ),
    "log.message.timestamp.before.max.ms": Setting(
        INT64, "how far behind the broker's clock a record's time may be", 0, INT64, live=True
    ),
    "log.roll.ms": Setting(7 * _DAY, "age at which a log file is rolled", 1, INT64, live=True),
    "log.segment.bytes": Setting(1 << 30, "size at which a log file is rolled", 1_024, INT32, live=True),
    "log.retention.ms": Setting(7 * _DAY, "drop segments older than this; -1 keeps all", -1, INT64, live=True),
    "log.retention.bytes": Setting(
        -1, "drop the oldest segments of a partition over this size; -1 keeps all", -1, INT64, live=True
    ),
    "log.retention.check.interval.ms": Setting(300_000, "how often retention is applied", 1, INT64),
    "producer.id.expiration.ms": Setting(_DAY, "forget an idempotent producer that is silent", 1, INT32, live=True),
    "socket.request.max.bytes": Setting(
        104_857_600, "the largest request; a larger one closes its connection", 1, INT32
    ),
    "store.queued.max.bytes": Setting(128 << 20, "unsynced bytes before producers are made to wait (ours)", 1, INT64),
    "fetch.max.bytes": Setting(57_671_680, "the largest answer to a fetch", 1_024, INT32),
    "offsets.topic.num.partitions": Setting(50, "partitions of __consumer_offsets; fixed at first start", 1, 10_000),
    "offsets.topic.replication.factor": Setting(
        3, "replicas of __consumer_offsets, as far as there are brokers: it is created with fewer", 1, 32_767
    ),
    "replica.selector.class": Setting(
        "",
        "RackAwareReplicaSelector: consumers with a client.rack read from a replica in their rack (KIP-392)",
        choices=REPLICA_SELECTORS,
    ),
    "offsets.topic.segment.bytes": Setting(104_857_600, "segment size of __consumer_offsets", 1_024, INT32),
    "offset.metadata.max.bytes": Setting(4_096, "the longest metadata of a committed offset", 0, INT32),
    "offsets.retention.minutes": Setting(10_080, "forget offsets of a group that is empty for so long", 1, INT32),
    "offsets.retention.check.interval.ms": Setting(600_000, "how often expired offsets are looked for", 1, INT64),
    "group.min.session.timeout.ms": Setting(6_000, "the shortest session timeout of a classic member", 1, INT32),
    "group.max.session.timeout.ms": Setting(1_800_000, "the longest session timeout of a classic member", 1, INT32),
    "group.initial.rebalance.delay.ms": Setting(3_000, "wait for more members when an empty group starts", 0, INT32),
    "group.max.size": Setting(INT32, "the most members of a classic group", 1, INT32),
    "group.coordinator.rebalance.protocols": Setting(
        "classic,consumer", "which protocols groups may use", choices=PROTOCOLS, is_list=True
    ),
    "group.consumer.max.size": Setting(INT32, "the most members of a consumer group", 1, INT32),
    "group.consumer.assignors": Setting(
        "uniform,range,rack,lag,rate,weighted",
        "what may assign partitions in consumer groups, package.module:Class for your own; the first by default",
        is_list=True,
    ),
    "group.consumer.load.interval.ms": Setting(
        30_000,
        "how often the lag and rate of partitions are weighed, for groups whose assignor wants it (ours)",
        1,
        INT32,
    ),
    "group.consumer.migration.policy": Setting(
        "bidirectional",
        "whether a group with members may change its protocol: upgrade is from classic to consumer",
        choices=MIGRATION_POLICIES,
    ),
    "group.consumer.regex.refresh.interval.ms": Setting(
        600_000, "resolve regular expressions of subscriptions again at least so often", 10_000, INT32
    ),
    "group.consumer.session.timeout.ms": Setting(
        45_000, "when a silent member of a consumer group is given up", 1, INT32
    ),
    "group.consumer.min.session.timeout.ms": Setting(45_000, "the least that a group may set for it", 1, INT32),
    "group.consumer.max.session.timeout.ms": Setting(60_000, "the most that a group may set for it", 1, INT32),
    "group.consumer.heartbeat.interval.ms": Setting(
        5_000, "how often members of consumer groups are told to send heartbeats", 1, INT32
    ),
    "group.consumer.min.heartbeat.interval.ms": Setting(5_000, "the least that a group may set for it", 1, INT32),
    "group.consumer.max.heartbeat.interval.ms": Setting(15_000, "the most that a group may set for it", 1, INT32),
    "group.consumer.assignment.interval.ms": Setting(
        1_000, "the least time between two assignments of a consumer group (KIP-1263)", 0, INT32, live=True
    ),
    "group.consumer.min.assignment.interval.ms": Setting(0, "the least that a group may set for it", 0, INT32),
    "group.consumer.max.assignment.interval.ms": Setting(15_000, "the most that a group may set for it", 0, INT32),
    "group.heartbeat.hold.ms": Setting(
        9_000, "hold a heartbeat that has nothing to say so long at most; 0 answers at once, as Kafka (ours)", 0, INT32
    ),
    "group.disconnect.grace.ms": Setting(
        -1,
        "remove a dynamic member that stays away so long after its connection closed; 0 waits for its session, as"
        " Kafka; -1 is one and a half of its own heartbeat rhythm and 1 s (ours)",
        -1,
        INT32,
    ),
    **IDLE,
}

BOUNDS: Mapping[str, tuple[str, str]] = {
    f"group.{which}": (
        f"group.{which.replace('consumer.', 'consumer.min.')}",
        f"group.{which.replace('consumer.', 'consumer.max.')}",
    )
    for which in ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
}
"""Settings that have others for bounds: the lower, and the upper."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """All settings by Kafka's name, defaults filled in."""

    values: Mapping[str, Value]

    def number(self, name: str) -> int:
        """A whole number's value."""
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """A boolean's value."""
        value = self.values[name]
        assert isinstance(value, bool)
        return value

    def text(self, name: str) -> str:
        """A string's value."""
        value = self.values[name]
        assert isinstance(value, str)
        return value

    def names(self, name: str) -> list[str]:
        """A list's parts."""
        return [part.strip() for part in self.text(name).split(",") if part.strip()]


def parse_config(settings: Mapping[str, str] | None = None) -> BrokerConfig:
    """Check every setting and fill in the defaults; ConfigError names the nearest key for an unknown one."""
    values = {name: setting.default for name, setting in SETTINGS.items()}
    for name, text in (settings or {}).items():
        values[name] = known_setting(name, SETTINGS).parse(name, text)
    config = BrokerConfig(values)
    _check_order(config, "group.min.session.timeout.ms", "group.max.session.timeout.ms")
    for name, (low, high) in BOUNDS.items():
        _check_order(config, low, name)
        _check_order(config, name, high)
    if config.number("group.consumer.heartbeat.interval.ms") >= config.number("group.consumer.session.timeout.ms"):
        raise ConfigError("group.consumer.session.timeout.ms must be larger than group.consumer.heartbeat.interval.ms.")
    if "classic" not in config.names("group.coordinator.rebalance.protocols"):
        raise ConfigError("group.coordinator.rebalance.protocols must have classic among them, as in Kafka.")
    return config


def _check_order(config: BrokerConfig, low: str, high: str) -> None:
    if config.number(low) > config.number(high):
        raise ConfigError(f"{low} ({config.number(low)}) is larger than {high} ({config.number(high)}).")


def read_settings(path: Path) -> dict[str, str]:
    """Settings from a file of `name=value` lines, as Kafka's server.properties; blank lines and # are skipped."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error}.") from error
    lines = (line.strip() for line in text.splitlines())
    return parse_assignments((line for line in lines if line and not line.startswith(("#", "!"))), origin=str(path))


def parse_assignments(pairs: Iterable[str], origin: str) -> dict[str, str]:
    """`name=value` strings as a mapping; ConfigError says where one without '=' stands."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{origin}: {pair!r} is not of the form NAME=VALUE.")
        settings[name.strip()] = value.strip()
    return settings
