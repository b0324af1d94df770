"""The options of `format("kohort")`: spark-sql-kafka's under their names, and five of our own.

Spark hands all options over as text, with names that it has put into lower case; an unknown one is an error that names
the nearest known one, for a misspelt limit would otherwise be no limit.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from kohort.errors import ConfigError
from kohort.model import Millis, TopicPartition
from pyspark_kohort import offsets
from pyspark_kohort.offsets import AtTime, Bound, Earliest, Exact, Latest

T = TypeVar("T")


class GroupMode(Enum):
    """Who decides what a query reads: it alone, all its partitions; or its consumer group, as with any member."""

    STANDALONE = "standalone"
    MEMBER = "member"


class OnLost(Enum):
    """What a query does that was thrown out of its group in the middle of a batch."""

    FAIL = "fail"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Topics:
    """What to read: names, or a pattern for names, or partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Broker:
    """How to talk to the cluster."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "kohort-spark"
    request_timeout_ms: Millis = 30_000
    read_committed: bool = False
    fetch_bytes: int = 8 << 20
    partition_fetch_bytes: int = 4 << 20
    poll_timeout_ms: Millis = 120_000
    retry_interval_ms: Millis = 10


@dataclass(frozen=True, slots=True)
class Group:
    """How to be a member."""

    group_id: str
    instance_id: str | None = None
    session_timeout_ms: Millis = 45_000
    heartbeat_interval_ms: Millis = 3_000
    rebalance_timeout_ms: Millis = 300_000
    assignors: tuple[str, ...] = ("cooperative-sticky",)


@dataclass(frozen=True, slots=True)
class Options:
    """All options, checked against each other."""

    broker: Broker
    topics: Topics
    starting: Bound
    ending: Bound
    group: Group | None
    mode: GroupMode
    on_lost: OnLost
    fail_on_data_loss: bool
    include_headers: bool
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: Millis
    min_partitions: int | None
    max_partition_rows: int | None
    max_tasks: int | None
    checkpoint: str | None


_NAMES = (
    "subscribe subscribePattern assign startingOffsets startingTimestamp startingOffsetsByTimestamp"
    " startingOffsetsByTimestampStrategy endingOffsets endingTimestamp endingOffsetsByTimestamp failOnDataLoss"
    " includeHeaders maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition"
    " kafkaConsumer.pollTimeoutMs fetchOffset.retryIntervalMs groupMode onLost maxTasks checkpointLocation"
    " kafka.bootstrap.servers kafka.client.id kafka.request.timeout.ms kafka.isolation.level kafka.fetch.max.bytes"
    " kafka.max.partition.fetch.bytes kafka.group.id kafka.group.instance.id kafka.session.timeout.ms"
    " kafka.heartbeat.interval.ms kafka.max.poll.interval.ms kafka.partition.assignment.strategy"
    " kafka.group.protocol kafka.security.protocol"
)
_WITHOUT_EFFECT = (
    " fetchOffset.numRetries groupIdPrefix"
    " kafka.client.dns.lookup kafka.client.rack kafka.check.crcs kafka.connections.max.idle.ms"
    " kafka.default.api.timeout.ms kafka.fetch.max.wait.ms kafka.fetch.min.bytes kafka.max.poll.records"
    " kafka.metadata.max.age.ms kafka.receive.buffer.bytes kafka.send.buffer.bytes kafka.reconnect.backoff.ms"
    " kafka.reconnect.backoff.max.ms kafka.retry.backoff.ms kafka.retry.backoff.max.ms kafka.metric.reporters"
    " kafka.metrics.num.samples kafka.metrics.recording.level kafka.metrics.sample.window.ms"
    " kafka.socket.connection.setup.timeout.ms kafka.socket.connection.setup.timeout.max.ms"
    " kafka.allow.auto.create.topics kafka.enable.metrics.push"
)
"""What tunes parts that this source does not have; a query that sets them still runs."""
_REFUSED = {
    "kafka.auto.offset.reset": "set startingOffsets instead",
    "kafka.enable.auto.commit": "a member commits what its checkpoint proves done",
    "kafka.key.deserializer": "keys are binary; cast them in the query",
    "kafka.value.deserializer": "values are binary; cast them in the query",
    "kafka.interceptor.classes": "there is no Java consumer to intercept",
}
_KNOWN = {name.lower(): name for name in (_NAMES + _WITHOUT_EFFECT).split()}
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
_UNITS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse(options: Mapping[str, str], *, streaming: bool) -> Options:
    """Raises ConfigError with one sentence for whatever is unknown, missing, malformed or contradictory."""
    given = _Given(options)
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
        raise ConfigError("startingOffsets=latest leaves a batch query nothing to read.")
    if isinstance(ending, Earliest) or (isinstance(ending, Exact) and offsets.EARLIEST in ending.offsets.values()):
        raise ConfigError("endingOffsets=earliest leaves a batch query nothing to read.")
    return Options(
        broker=broker,
        topics=topics,
        starting=starting,
        ending=ending,
        group=group,
        mode=mode,
        on_lost=given.one_of("onLost", OnLost, OnLost.FAIL),
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


class _Given:
    """What the user gave, by the names as we write them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        for name, value in options.items():
            self._values[_known(name)] = str(value)

    @property
    def names(self) -> Iterable[str]:
        return self._values.keys()

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def flag(self, name: str, default: bool) -> bool:
        return self._read(name, default, "true or false", lambda text: {"true": True, "false": False}[text.lower()])

    def number(self, name: str, default: int) -> int:
        return self._read(name, default, "a whole number from 1 on", _positive)

    def limit(self, name: str) -> int | None:
        """A number that has no default: without it there is no limit."""
        return self.number(name, 1) if name in self._values else None

    def duration(self, name: str, default: Millis) -> Millis:
        return self._read(name, default, "a duration such as 500ms, 30s or 15m", _duration)

    def one_of(self, name: str, kind: type[T], default: T) -> T:
        assert issubclass(kind, Enum)
        choices = " or ".join(str(choice.value) for choice in kind)
        return self._read(name, default, choices, lambda text: kind(text.lower()))

    def _read(self, name: str, default: T, what: str, read: Callable[[str], T]) -> T:
        text = self._values.get(name)
        if text is None:
            return default
        try:
            return read(text.strip())
        except (ValueError, KeyError):
            raise ConfigError(f"Option {name} must be {what}, not {text!r}.") from None


def _known(name: str) -> str:
    lowered = name.lower()
    if lowered in _KNOWN:
        return _KNOWN[lowered]
    if lowered in _REFUSED:
        raise ConfigError(f"Option {name} is not supported: {_REFUSED[lowered]}.")
    close = difflib.get_close_matches(lowered, _KNOWN, n=1)
    hint = f" Did you mean {_KNOWN[close[0]]}?" if close else ""
    raise ConfigError(f"Option {name} is unknown to format kohort.{hint}")


def _broker(given: _Given) -> Broker:
    servers = given.text("kafka.bootstrap.servers")
    if not servers:
        raise ConfigError("Option kafka.bootstrap.servers is missing: host:port of one or more brokers.")
    protocol = given.text("kafka.security.protocol") or "PLAINTEXT"
    if protocol.upper() != "PLAINTEXT":
        raise ConfigError(f"kafka.security.protocol={protocol} is not supported yet; only PLAINTEXT is.")
    isolation = given.text("kafka.isolation.level") or "read_uncommitted"
    if isolation not in ("read_uncommitted", "read_committed"):
        raise ConfigError(f"kafka.isolation.level must be read_uncommitted or read_committed, not {isolation!r}.")
    default = Broker(())
    return Broker(
        bootstrap=tuple(_address(server) for server in servers.split(",")),
        client_id=given.text("kafka.client.id") or default.client_id,
        request_timeout_ms=given.number("kafka.request.timeout.ms", default.request_timeout_ms),
        read_committed=isolation == "read_committed",
        fetch_bytes=given.number("kafka.fetch.max.bytes", default.fetch_bytes),
        partition_fetch_bytes=given.number("kafka.max.partition.fetch.bytes", default.partition_fetch_bytes),
        poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs", default.poll_timeout_ms),
        retry_interval_ms=given.number("fetchOffset.retryIntervalMs", default.retry_interval_ms),
    )


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"kafka.bootstrap.servers must be host:port,host:port..., not {server!r}.")
    return host.strip("[]"), int(port)


def _topics(given: _Given) -> Topics:
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
                raise ConfigError(f"Option subscribePattern is no regular expression: {error}.") from None
            return Topics(pattern=text)
    return Topics(partitions=_assigned(text))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    """`{"flights": [0, 1]}`, rewritten so that one parser does for all JSON options."""
    try:
        data = json.loads(text)
        partitions = {TopicPartition(topic, number) for topic, numbers in data.items() for number in numbers}
        if not partitions or not all(isinstance(tp.partition, int) and tp.partition >= 0 for tp in partitions):
            raise ValueError
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f'Option assign must be like {{"flights": [0, 1]}}, not {text:.200}.') from None
    return tuple(sorted(partitions))


def _group(given: _Given) -> Group | None:
    group_id = given.text("kafka.group.id")
    protocol = (given.text("kafka.group.protocol") or "classic").lower()
    if protocol != "classic":
        raise ConfigError(f"kafka.group.protocol={protocol} is not supported yet; only classic is.")
    if not group_id:
        return None
    default = Group(group_id)
    strategy = given.text("kafka.partition.assignment.strategy")
    assignors = tuple(_assignor(name.strip()) for name in strategy.split(",")) if strategy else default.assignors
    return Group(
        group_id=group_id,
        instance_id=given.text("kafka.group.instance.id"),
        session_timeout_ms=given.number("kafka.session.timeout.ms", default.session_timeout_ms),
        heartbeat_interval_ms=given.number("kafka.heartbeat.interval.ms", default.heartbeat_interval_ms),
        rebalance_timeout_ms=given.number("kafka.max.poll.interval.ms", default.rebalance_timeout_ms),
        assignors=assignors,
    )


def _assignor(name: str) -> str:
    try:
        return _ASSIGNORS[name]
    except KeyError:
        raise ConfigError(f"kafka.partition.assignment.strategy: the assignor {name!r} is unknown.") from None


def _bound(given: _Given, side: str, default: Bound) -> Bound:
    """A time for each partition, else one for all, else offsets; spark-sql-kafka prefers the one time."""
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


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _duration(text: str) -> Millis:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if match is None:
        raise ValueError
    return int(match[1]) * _UNITS[match[2]]
