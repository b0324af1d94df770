"""The client's options: Kafka's names in snake case, with Kafka's defaults. docs/api is generated
from this file.

`keywords.py` has the same names and types for static type checkers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from ssl import SSLContext
from typing import Any, Self, get_args, get_type_hints

from kohort.assignor import Assignor
from kohort.client.metrics import Sampling
from kohort.client.reset import reset_policy
from kohort.client.security import MECHANISMS, PROTOCOLS, SecurityOptions, check_security, normal_names
from kohort.errors import ConfigError
from kohort.model import Millis
from kohort.security import Secret

Bytes = int
"""Size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions(SecurityOptions):
    """Options common to all clients."""

    bootstrap_servers: str | Sequence[str]
    """Addresses of one or more brokers, as `host:port,host:port` or as a list of `host:port`."""
    client_id: str = "kohort"
    """Name of this client in requests, in the brokers' logs and in descriptions of groups."""
    request_timeout_ms: Millis = 30_000
    """Time to wait for the response to a request before its connection is closed."""
    default_api_timeout_ms: Millis = 60_000
    """Time limit, including retries, for methods that send requests to the cluster."""
    retry_backoff_ms: Millis = 100
    """Time to wait before the first retry of a request; it doubles with each further failure."""
    retry_backoff_max_ms: Millis = 1_000
    """Upper limit for the time to wait before a retry."""
    reconnect_backoff_ms: Millis = 50
    """Time to wait before the first attempt to reconnect to a broker; it doubles with each further failure."""
    reconnect_backoff_max_ms: Millis = 1_000
    """Upper limit for the time to wait before an attempt to reconnect."""
    metadata_max_age_ms: Millis = 300_000
    """Age at which metadata is fetched again, which detects new partitions and new topics that
    match a pattern."""
    socket_connection_setup_timeout_ms: Millis = 10_000
    """Time limit for opening a connection."""
    allow_auto_create_topics: bool = True
    """Whether a metadata request for a topic that does not exist may create it. Brokers create it
    only if their auto.create.topics.enable is true."""
    metrics_sample_window_ms: Millis = 30_000
    """Length of the windows over which `metrics` computes rates, averages and extremes."""
    metrics_num_samples: int = 2
    """Number of these windows."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """Return options of this kind, converting text to each option's type. Raises ConfigError with a
        full sentence.

        Names may be those of Java, librdkafka, aiokafka or kafka-python.
        """
        types = get_type_hints(cls)
        given = normal_names(given, types)
        for name in given:
            if name not in types:
                raise _unknown(name, list(types))
        if "bootstrap_servers" not in given:
            raise ConfigError("bootstrap_servers is missing: give host:port of at least one broker.")
        options = cls(**{name: _read(name, types[name], value) for name, value in given.items()})
        _check(options, given)
        return options

    @staticmethod
    def choices(name: str) -> tuple[object, ...] | None:
        """Return the values that the option of that name can have, or None if they are not a short list."""
        return _CHOICES.get(name)

    @property
    def sampling(self) -> Sampling:
        """Windows of time over which the client measures."""
        return Sampling(self.metrics_sample_window_ms / 1000, self.metrics_num_samples)

    def addresses(self) -> list[tuple[str, int]]:
        """Return host and port of each bootstrap server. Raises ConfigError."""
        given = self.bootstrap_servers
        if not isinstance(given, str | Sequence) or not all(isinstance(server, str) for server in given):
            raise ConfigError(f"bootstrap_servers is {given!r}, but must be host:port, or a list of them.")
        listed = given.split(",") if isinstance(given, str) else given
        return [_address(server.strip()) for server in listed if server.strip()] or [_address("")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions(ClientOptions):
    """Options of a group member."""

    group_id: str | None = None
    """Name of the group. Required to subscribe and to commit offsets."""
    group_instance_id: str | None = None
    """Name that makes the member static (KIP-345): it keeps its partitions if it restarts within its session."""
    group_protocol: str = "classic"
    """`classic`: a member computes the assignment in rebalances in which all members take part.
    `consumer` (KIP-848): the broker computes the assignment, and each member moves to it
    independently."""
    group_remote_assignor: str | None = None
    """Server-side assignor to request from the broker (default: the broker's first one). Only with
    group_protocol consumer."""
    group_local_assignors: str | Sequence[str | Assignor] = ()
    """Client-side assignors with which a member computes the assignment for its group. Only with
    group_protocol consumer and Kohort brokers."""
    group_member_weight: float | None = None
    """Share of this member relative to others with the assignor `weighted` (default: 1). With 0 a
    member gets no partitions under any assignor. Only with group_protocol consumer; brokers other
    than Kohort's ignore it, which is logged."""
    session_timeout_ms: Millis = 45_000
    """Time without a heartbeat after which the broker removes the member. Only with group_protocol classic; otherwise
    the broker's group.consumer.session.timeout.ms applies."""
    heartbeat_interval_ms: Millis = 3_000
    """Time between heartbeats; must be less than session_timeout_ms. Only with group_protocol classic; otherwise the
    broker's group.consumer.heartbeat.interval.ms applies."""
    max_poll_interval_ms: Millis = 300_000
    """Maximum time between two calls of `poll`. A member that exceeds it leaves the group until its
    next poll."""
    partition_assignment_strategy: str | Sequence[str | Assignor] = ("range", "cooperative-sticky")
    """Assignors that the member supports, the preferred one first. Only with group_protocol classic."""
    client_rack: str = ""
    """Rack or zone of this client, for rack-aware assignors and for fetching from nearby replicas
    (KIP-392)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(GroupOptions):
    """Options of a consumer: those of a member, and those for fetching and committing."""

    auto_offset_reset: str = "latest"
    """Where to start in a partition without a committed offset, or if the offset no longer exists:
    `earliest`, `latest`, `by_duration:PT1H` (a duration before now, KIP-1106), or `none` to raise
    an error."""
    exclude_internal_topics: bool = True
    """Whether a pattern excludes the cluster's internal topics, such as __consumer_offsets."""
    enable_auto_commit: bool = True
    """Whether positions are committed in the background."""
    auto_commit_interval_ms: Millis = 5_000
    """Time between automatic commits."""
    max_poll_records: int = 500
    """Maximum number of records that one call of `poll` returns."""
    consumer_timeout_ms: Millis | None = None
    """Time without a record after which iteration over the consumer ends (default: never)."""
    fetch_min_bytes: Bytes = 1
    """Minimum amount of data that a broker returns for a fetch, for which it waits up to
    fetch_max_wait_ms."""
    fetch_max_bytes: Bytes = 52_428_800
    """Maximum amount of data in a fetch response, and in the consumer's buffer. A larger first
    batch is returned nevertheless."""
    fetch_max_wait_ms: Millis = 500
    """Maximum time that a broker holds a fetch while it has less than fetch_min_bytes. If that is 1,
    the client raises the time to up to 4 s while no records arrive."""
    max_partition_fetch_bytes: Bytes = 1_048_576
    """Maximum amount of data per partition in a fetch response. A larger first batch is returned
    nevertheless."""
    check_crcs: bool = True
    """Whether to verify the checksum of each fetched batch."""
    key_deserializer: Any = None
    """Function that `poll` applies to the bytes of each key, or an object with a method
    `deserialize(topic, headers, data)` (default: keys are bytes). Null stays None.
    `poll_arrow` and `poll_batches` return bytes."""
    value_deserializer: Any = None
    """Function or object for values, like key_deserializer."""
    interceptors: Sequence[Any] = ()
    """Objects with methods of `ConsumerInterceptor`, which `poll` and commits call in this order."""
    isolation_level: str = "read_uncommitted"
    """`read_committed` excludes records of transactions that were aborted or are still open."""
    on_statistics: Any = None
    """Function to which the client passes statistics as JSON text in the form of librdkafka. It runs in
    the client's event loop."""
    statistics_interval_ms: Millis = 60_000
    """Time between two calls of on_statistics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """Options of a producer."""

    acks: str | int = "all"
    """Acknowledgement to wait for: from all in-sync replicas (`all` or -1), from the leader (1), or
    none (0)."""
    enable_idempotence: bool = True
    """Whether brokers discard duplicates caused by retries and preserve the order of records.
    Requires acks=all; with other acks and no explicit value, it is off."""
    compression_type: str = "none"
    """Compression of batches."""
    key_serializer: Any = None
    """Function that `send` applies to each key, or an object with a method
    `serialize(topic, headers, data)` (default: keys are bytes). None stays None."""
    value_serializer: Any = None
    """Function or object for values, like key_serializer."""
    interceptors: Sequence[Any] = ()
    """Objects with methods of `ProducerInterceptor`, which `send` and deliveries call in this order."""
    partitioner: Any = "default"
    """Choice of the partition for records that specify none: `default` (as in Java: by murmur2 of
    the key; without a key, a random partition that changes after about one batch), a name of
    librdkafka (`consistent_random`, which is its default, `consistent`, `murmur2_random`, `murmur2`,
    `fnv1a_random`, `fnv1a`, `random`), or a function of the serialized key, the list of all
    partitions and the list of those with a leader."""
    batch_size: Bytes = 16_384
    """Size at which a batch is sent without waiting for linger_ms."""
    linger_ms: Millis = 5
    """Time that a batch waits for more records before it is sent."""
    buffer_memory: Bytes = 33_554_432
    """Memory for records that are not acknowledged yet. `send` waits for room, up to max_block_ms."""
    max_request_size: Bytes = 1_048_576
    """Maximum size of a record and of a produce request."""
    max_block_ms: Millis = 60_000
    """Maximum time that `send` waits for metadata of the topic and for room in the buffer, and that
    each method of transactions waits."""
    delivery_timeout_ms: Millis = 120_000
    """Time after which an unacknowledged record fails, including retries."""
    max_in_flight_requests_per_connection: int = 5
    """Maximum number of unanswered produce requests per broker."""
    transactional_id: str | None = None
    """Name under which the producer has transactions. A later producer of the same name fences this
    one, so each running instance of a program needs its own, which stays the same when it restarts."""
    transaction_timeout_ms: Millis = 60_000
    """Time after which the coordinator aborts a transaction that is still open. The broker's
    transaction.max.timeout.ms limits it. Only with transactional_id."""
    on_statistics: Any = None
    """Function to which the client passes statistics as JSON text in the form of librdkafka. It runs in
    the client's event loop."""
    statistics_interval_ms: Millis = 60_000
    """Time between two calls of on_statistics."""

    @property
    def acks_all(self) -> bool:
        """Whether records are acknowledged only once all in-sync replicas have them."""
        return str(self.acks) in ("all", "-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(ClientOptions):
    """Options of an admin client."""

    allow_auto_create_topics: bool = False
    """Whether a request for the offsets of a topic that does not exist may create it. Java's admin
    client never creates topics."""


_CHOICES: Mapping[str, tuple[object, ...]] = {
    "security_protocol": PROTOCOLS,
    "sasl_mechanism": MECHANISMS,
    "group_protocol": ("classic", "consumer"),
    "isolation_level": ("read_uncommitted", "read_committed"),
    "acks": ("all", "-1", "0", "1", -1, 0, 1),
    "compression_type": ("none", "gzip", "snappy", "lz4", "zstd"),
}

_OTHER_PROTOCOL: Mapping[str, Mapping[str, str]] = {
    "classic": {
        "group_remote_assignor": "the members compute the assignment (partition_assignment_strategy)",
        "group_local_assignors": "partition_assignment_strategy names them",
        "group_member_weight": "the members compute the assignment, without weights",
    },
    "consumer": {
        "session_timeout_ms": "the broker sets the session timeout (group.consumer.session.timeout.ms)",
        "heartbeat_interval_ms": "the broker sets the interval (group.consumer.heartbeat.interval.ms)",
        "partition_assignment_strategy": "the broker computes the assignment (group_remote_assignor)",
    },
}
"""Options that do not apply under a protocol, and what applies instead."""

_MAY_BE_ZERO = frozenset(
    {"linger_ms", "fetch_min_bytes", "fetch_max_wait_ms", "retry_backoff_ms", "reconnect_backoff_ms"}
)


def _check(options: ClientOptions, given: Mapping[str, Any]) -> None:
    for name, allowed in _CHOICES.items():
        value = getattr(options, name, None)
        if value is not None and value not in allowed:
            listed = ", ".join(sorted({str(choice) for choice in allowed}))
            raise ConfigError(f"{name} is {value!r}, but must be one of: {listed}.")
    on_statistics = getattr(options, "on_statistics", None)
    if on_statistics is not None and not callable(on_statistics):
        raise ConfigError(f"on_statistics is {on_statistics!r}, but must be a function of one text.")
    if isinstance(options, GroupOptions):
        _check_protocol(options.group_protocol, given)
        if options.group_member_weight is not None:
            check_weight(options.group_member_weight)
    if isinstance(options, ConsumerOptions):
        reset_policy(options.auto_offset_reset)
    check_security(options)
    options.addresses()


def option_names(kind: type[ClientOptions]) -> list[str]:
    """Return the names of all options of this kind."""
    return [field.name for field in fields(kind)]


def check_weight(weight: float) -> None:
    """Raise ConfigError for a member weight that brokers would reject."""
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not number or not (weight == 0 or 1e-9 <= weight <= 1e9):
        raise ConfigError(f"a member's weight is {weight!r}, but must be 0, or between 1e-9 and 1e9.")


def _check_protocol(protocol: str, given: Mapping[str, Any]) -> None:
    for name, instead in _OTHER_PROTOCOL[protocol].items():
        if name in given:
            raise ConfigError(f"{name} does not apply with group_protocol {protocol}, where {instead}: leave it out.")


def _unknown(name: str, known: list[str]) -> ConfigError:
    near = get_close_matches(name.lower().replace(".", "_").replace("-", "_"), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"the options are {', '.join(sorted(known))}."
    return ConfigError(f"There is no option {name}: {hint}")


def _read(name: str, hint: Any, value: Any) -> Any:
    kinds = get_args(hint) or (hint,)
    if Secret in kinds:
        return _read_secret(name, value)
    if value is None and (type(None) in kinds or Any in kinds):
        return None
    if bool in kinds:
        return _read_bool(name, value)
    if int in kinds and str not in kinds:
        return _read_int(name, value)
    if float in kinds:
        return _read_float(name, value)
    if value is None and type(None) not in kinds:
        raise ConfigError(f"{name} is None; leave it out for its default.")
    if SSLContext in kinds and not isinstance(value, SSLContext | None):
        raise ConfigError(f"{name} must be an ssl.SSLContext.")
    if kinds in ((str,), (str, type(None))) and not isinstance(value, str | None):
        raise ConfigError(f"{name} is {value!r}, but must be text.")
    return value


def _read_secret(name: str, value: Any) -> Secret | None:
    if value is None or isinstance(value, Secret):
        return value
    if not isinstance(value, str | bytes):
        raise ConfigError(f"{name} must be text.")
    return Secret(value)


def _read_bool(name: str, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}, but must be true or false.")
    return value


def _read_int(name: str, value: Any) -> int:
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            raise ConfigError(f"{name} is {value!r}, but must be a whole number.") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} is {value!r}, but must be a whole number.")
    lowest = 0 if name in _MAY_BE_ZERO else 1
    if value < lowest:
        raise ConfigError(f"{name} is {value}, but must be at least {lowest}.")
    return value


def _read_float(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {value!r}, but must be a number.") from None


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap_servers holds {text!r}, which is not host:port.")
    return host.removeprefix("[").removesuffix("]"), int(port)
