"""Options for reading with `format("kohort")`: those of spark-sql-kafka under their names, and some of Kohort."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kohort.errors import ConfigError
from kohort.model import Millis, TopicPartition
from pyspark_kohort import offsets
from pyspark_kohort.offsets import AtTime, Bound, Earliest, Exact, Latest
from pyspark_kohort.option_parsing import GivenOptions, OptionNames, Security


class GroupMode(Enum):
    """How the partitions that a query reads are chosen.

    STANDALONE: the query reads all partitions. MEMBER: the consumer group assigns partitions to the
    query.
    """

    STANDALONE = "standalone"
    MEMBER = "member"


class Protocol(Enum):
    """Group protocol: classic, or consumer (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class OnCorrupt(Enum):
    """Action of a task for a record batch with a wrong checksum."""

    FAIL = "fail"
    SKIP = "skip"


class OnLost(Enum):
    """Action of a query that loses its membership in the middle of a batch."""

    FAIL = "fail"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Topics:
    """What to read: topic names, a pattern for topic names, or partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Broker:
    """Connection and fetch settings."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "kohort-spark"
    request_timeout_ms: Millis = 30_000
    read_committed: bool = False
    fetch_bytes: int = 8 << 20
    partition_fetch_bytes: int = 4 << 20
    poll_timeout_ms: Millis = 120_000
    retry_interval_ms: Millis = 10
    metadata_age_ms: Millis = 5_000
    """Interval between checks for new topics and partitions, in milliseconds. Kafka's consumer uses 300,000."""
    security: Security = field(default_factory=Security)


@dataclass(frozen=True, slots=True)
class Group:
    """Settings of the membership in a group."""

    group_id: str
    protocol: Protocol = Protocol.CLASSIC
    instance_id: str | None = None
    static: bool = False
    """Use the query's id as the instance id."""
    remote_assignor: str | None = None
    session_timeout_ms: Millis = 45_000
    heartbeat_interval_ms: Millis = 3_000
    rebalance_timeout_ms: Millis = 300_000
    assignors: tuple[str, ...] = ("cooperative-sticky",)


@dataclass(frozen=True, slots=True)
class Options:
    """All options, checked for consistency."""

    broker: Broker
    topics: Topics
    starting: Bound
    ending: Bound
    group: Group | None
    mode: GroupMode
    on_lost: OnLost
    on_corrupt: OnCorrupt
    import_offsets: bool
    filter_pushdown: bool
    fail_on_data_loss: bool
    include_headers: bool
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: Millis
    min_partitions: int | None
    max_partition_rows: int | None
    max_tasks: int | None
    checkpoint: str | None
    slots: int | None = None
    """Number of tasks that Spark runs at once, or None if unknown. This is not an option of the user."""


_NAMES = (
    "subscribe subscribePattern assign startingOffsets startingTimestamp startingOffsetsByTimestamp"
    " startingOffsetsByTimestampStrategy endingOffsets endingTimestamp endingOffsetsByTimestamp failOnDataLoss"
    " includeHeaders maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition"
    " kafkaConsumer.pollTimeoutMs fetchOffset.retryIntervalMs groupMode onLost maxTasks checkpointLocation"
    " kafka.bootstrap.servers kafka.client.id kafka.request.timeout.ms kafka.isolation.level kafka.fetch.max.bytes"
    " kafka.max.partition.fetch.bytes kafka.group.id kafka.group.instance.id kafka.session.timeout.ms"
    " kafka.heartbeat.interval.ms kafka.max.poll.interval.ms kafka.partition.assignment.strategy"
    " kafka.group.protocol kafka.group.remote.assignor kafka.metadata.max.age.ms"
    " staticMembership onCorrupt importOffsets filterPushdown"
)
_WITHOUT_EFFECT = (
    " fetchOffset.numRetries groupIdPrefix"
    " kafka.client.dns.lookup kafka.client.rack kafka.check.crcs kafka.connections.max.idle.ms"
    " kafka.default.api.timeout.ms kafka.fetch.max.wait.ms kafka.fetch.min.bytes kafka.max.poll.records"
    " kafka.receive.buffer.bytes kafka.send.buffer.bytes kafka.reconnect.backoff.ms"
    " kafka.reconnect.backoff.max.ms kafka.retry.backoff.ms kafka.retry.backoff.max.ms kafka.metric.reporters"
    " kafka.metrics.num.samples kafka.metrics.recording.level kafka.metrics.sample.window.ms"
    " kafka.socket.connection.setup.timeout.ms kafka.socket.connection.setup.timeout.max.ms"
    " kafka.allow.auto.create.topics kafka.enable.metrics.push"
)
"""Options of parts that this source does not have; a query that sets them still runs."""
_REFUSED = {
    "kafka.auto.offset.reset": "set startingOffsets instead",
    "kafka.enable.auto.commit": "a member commits what its checkpoint proves done",
    "kafka.key.deserializer": "keys are binary; cast them in the query",
    "kafka.value.deserializer": "values are binary; cast them in the query",
    "kafka.interceptor.classes": "there is no Java consumer to intercept",
}
_OPTIONS = OptionNames((_NAMES + _WITHOUT_EFFECT).split(), _REFUSED)
_ASSIGNORS = {
    "range": "range",
    "roundrobin": "roundrobin",
    "sticky": "sticky",
    "cooperative-sticky": "cooperative-sticky",
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


_OTHER_PROTOCOL: Mapping[Protocol, Mapping[str, str]] = {
    Protocol.CLASSIC: {"kafka.group.remote.assignor": "the members compute the assignment"},
    Protocol.CONSUMER: {
        "kafka.session.timeout.ms": "the broker sets the session timeout (group.consumer.session.timeout.ms)",
        "kafka.heartbeat.interval.ms": "the broker sets the interval (group.consumer.heartbeat.interval.ms)",
        "kafka.partition.assignment.strategy": "the broker computes it (kafka.group.remote.assignor)",
    },
}
"""Options that do not apply under a protocol, and what decides instead."""


def parse(options: Mapping[str, str], *, streaming: bool) -> Options:
    """Parse the options for reading.

    Raises ConfigError with one sentence if an option is unknown, missing, malformed or contradicts
    another.
    """
    given = GivenOptions(options, _OPTIONS)
    broker = _broker(given)
    topics = _topics(given)
    group = _group(given)
    mode = given.one_of("groupMode", GroupMode, GroupMode.MEMBER if streaming and group else GroupMode.STANDALONE)
    if mode is GroupMode.MEMBER:
        if not streaming:
            raise ConfigError("groupMode=member needs readStream; to read once as a member, use Trigger.AvailableNow.")
        if group is None:
            raise ConfigError("groupMode=member needs kafka.group.id, the group to be a member of.")
        if topics.partitions:
            raise ConfigError("assign chooses partitions, groupMode=member lets the group choose: use subscribe.")
    starting = _bound(given, "starting", Latest() if streaming else Earliest())
    if streaming and (name := next((name for name in given.names if name.startswith("ending")), None)):
        raise ConfigError(f"{name} is for batch queries; a stream has no end (Trigger.AvailableNow stops at today's).")
    ending = _bound(given, "ending", Latest())
    if not streaming and isinstance(starting, Latest):
        raise ConfigError("startingOffsets=latest leaves nothing to read for a batch query.")
    if isinstance(ending, Earliest) or (isinstance(ending, Exact) and offsets.EARLIEST in ending.offsets.values()):
        raise ConfigError("endingOffsets=earliest leaves nothing to read for a batch query.")
    return Options(
        broker=broker,
        topics=topics,
        starting=starting,
        ending=ending,
        group=group,
        mode=mode,
        on_lost=given.one_of("onLost", OnLost, OnLost.FAIL),
        on_corrupt=given.one_of("onCorrupt", OnCorrupt, OnCorrupt.FAIL),
        import_offsets=given.flag("importOffsets", False),
        filter_pushdown=given.flag("filterPushdown", False),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        max_offsets=given.limit("maxOffsetsPerTrigger"),
        min_offsets=given.limit("minOffsetsPerTrigger"),
        max_trigger_delay_ms=given.duration("maxTriggerDelay", 15 * 60_000),
        min_partitions=given.limit("minPartitions"),
        max_partition_rows=given.limit("maxRecordsPerPartition"),
        max_tasks=given.limit("maxTasks"),
        checkpoint=given.text("checkpointLocation"),
    )


def _broker(given: GivenOptions) -> Broker:
    bootstrap = given.bootstrap()
    isolation = given.text("kafka.isolation.level") or "read_uncommitted"
    if isolation not in ("read_uncommitted", "read_committed"):
        raise ConfigError(f"kafka.isolation.level must be read_uncommitted or read_committed, not {isolation!r}.")
    default = Broker(())
    return Broker(
        bootstrap=bootstrap,
        client_id=given.text("kafka.client.id") or default.client_id,
        request_timeout_ms=given.number("kafka.request.timeout.ms", default.request_timeout_ms),
        read_committed=isolation == "read_committed",
        fetch_bytes=given.number("kafka.fetch.max.bytes", default.fetch_bytes),
        partition_fetch_bytes=given.number("kafka.max.partition.fetch.bytes", default.partition_fetch_bytes),
        poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs", default.poll_timeout_ms),
        retry_interval_ms=given.number("fetchOffset.retryIntervalMs", default.retry_interval_ms),
        metadata_age_ms=given.number("kafka.metadata.max.age.ms", default.metadata_age_ms),
        security=given.security(),
    )


def _topics(given: GivenOptions) -> Topics:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if given.text(name)]
    if len(chosen) != 1:
        raise ConfigError(f"Exactly one of subscribe, subscribePattern and assign must be given, not {len(chosen)}.")
    text = given.text(chosen[0]) or ""
    match chosen[0]:
        case "subscribe":
            names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
            if not names:
                raise ConfigError("Option subscribe names no topic.")
            return Topics(names=names)
        case "subscribePattern":
            try:
                re.compile(text)
            except re.error as error:
                raise ConfigError(f"Option subscribePattern is not a regular expression: {error}.") from None
            return Topics(pattern=text)
    return Topics(partitions=_assigned(text))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    """Parse `{"flights": [0, 1]}`. Raises ConfigError."""
    try:
        data = json.loads(text)
        partitions = {TopicPartition(topic, number) for topic, numbers in data.items() for number in numbers}
        if not partitions or not all(isinstance(tp.partition, int) and tp.partition >= 0 for tp in partitions):
            raise ValueError
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f'Option assign must be like {{"flights": [0, 1]}}, not {text:.200}.') from None
    return tuple(sorted(partitions))


def _group(given: GivenOptions) -> Group | None:
    group_id = given.text("kafka.group.id")
    protocol = given.one_of("kafka.group.protocol", Protocol, Protocol.CLASSIC)
    _check_protocol(given, protocol)
    if not group_id:
        return None
    default = Group(group_id)
    strategy = given.text("kafka.partition.assignment.strategy")
    assignors = tuple(_assignor(name.strip()) for name in strategy.split(",")) if strategy else default.assignors
    return Group(
        group_id=group_id,
        protocol=protocol,
        instance_id=given.text("kafka.group.instance.id"),
        static=_static(given),
        remote_assignor=given.text("kafka.group.remote.assignor"),
        session_timeout_ms=given.number("kafka.session.timeout.ms", default.session_timeout_ms),
        heartbeat_interval_ms=given.number("kafka.heartbeat.interval.ms", default.heartbeat_interval_ms),
        rebalance_timeout_ms=given.number("kafka.max.poll.interval.ms", default.rebalance_timeout_ms),
        assignors=assignors,
    )


def _check_protocol(given: GivenOptions, protocol: Protocol) -> None:
    """Reject options of the other protocol, as Kafka's consumer does: they would have no effect.

    Raises ConfigError.
    """
    for name, instead in _OTHER_PROTOCOL[protocol].items():
        if given.text(name) is not None:
            raise ConfigError(f"{name} does not apply with kafka.group.protocol={protocol.value}: {instead}.")


def _static(given: GivenOptions) -> bool:
    static = given.flag("staticMembership", False)
    if static and given.text("kafka.group.instance.id"):
        raise ConfigError("staticMembership takes the query's id: give it, or kafka.group.instance.id, not both.")
    if static and not given.text("checkpointLocation"):
        raise ConfigError("staticMembership needs the option checkpointLocation: it contains the query's id.")
    return static


def _assignor(name: str) -> str:
    try:
        return _ASSIGNORS[name]
    except KeyError:
        raise ConfigError(f"kafka.partition.assignment.strategy: the assignor {name!r} is unknown.") from None


def _bound(given: GivenOptions, side: str, default: Bound) -> Bound:
    """Return the first bound that is set: one time for all partitions, a time per partition, offsets.

    This is the order of spark-sql-kafka, too.
    """
    or_latest = (given.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if or_latest not in ("error", "latest"):
        raise ConfigError(f"startingOffsetsByTimestampStrategy must be error or latest, not {or_latest!r}.")
    late = side == "ending" or or_latest == "latest"
    if time := given.limit(f"{side}Timestamp"):
        return AtTime(time, or_latest=late)
    by_time, by_offset = f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if text := given.text(by_time):
        return AtTime(None, offsets.parse_numbers(text, by_time), or_latest=late)
    if text := given.text(by_offset):
        return offsets.parse_bound(text, by_offset)
    return default
