"""The client's options: Kafka's names in snake case, with Kafka's defaults. Durations are milliseconds, as Kafka's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_type_hints

from kohort.assignor import Assignor
from kohort.client.reset import reset_policy
from kohort.errors import ConfigError
from kohort.model import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What every client has."""

    bootstrap_servers: str | Sequence[str]
    """`host:port,host:port` or a list of them."""
    client_id: str = "kohort"
    request_timeout_ms: Millis = 30_000
    default_api_timeout_ms: Millis = 60_000
    retry_backoff_ms: Millis = 100
    retry_backoff_max_ms: Millis = 1_000
    reconnect_backoff_ms: Millis = 50
    reconnect_backoff_max_ms: Millis = 1_000
    metadata_max_age_ms: Millis = 300_000
    socket_connection_setup_timeout_ms: Millis = 10_000
    allow_auto_create_topics: bool = True

    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each bootstrap server. Raises ConfigError."""
        given = self.bootstrap_servers
        if not isinstance(given, str | Sequence) or not all(isinstance(one, str) for one in given):
            raise ConfigError(f"bootstrap_servers is {given!r}, but must be host:port, or a list of them.")
        listed = given.split(",") if isinstance(given, str) else given
        return [_address(one.strip()) for one in listed if one.strip()] or [_address("")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions(ClientOptions):
    """What a member of a group has."""

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    """`consumer` is that of KIP-848: the broker computes the assignment, and nobody waits for everybody."""
    group_remote_assignor: str | None = None
    """Which of the broker's assignors to ask for; only with group_protocol consumer."""
    group_local_assignors: str | Sequence[str | Assignor] = ()
    """Assignors by which a member computes for its group; only with group_protocol consumer, and brokers of Kohort."""
    group_member_weight: float | None = None
    """How much this member wants beside others, under the assignor `weighted`; 0 is nothing, under any. Only with
    group_protocol consumer, and brokers of Kohort; others ignore it, which is logged."""
    session_timeout_ms: Millis = 45_000
    heartbeat_interval_ms: Millis = 3_000
    max_poll_interval_ms: Millis = 300_000
    partition_assignment_strategy: str | Sequence[str | Assignor] = ("range", "cooperative-sticky")
    client_rack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(GroupOptions):
    """What a consumer has beyond its membership."""

    auto_offset_reset: str = "latest"
    """`earliest`, `latest`, `none`, or `by_duration:PT1H`: so far back (KIP-1106)."""
    exclude_internal_topics: bool = True
    """Whether a pattern leaves out the cluster's own topics, such as __consumer_offsets."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: Millis = 5_000
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: Millis = 500
    max_partition_fetch_bytes: int = 1_048_576
    check_crcs: bool = True
    isolation_level: str = "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """What a producer has."""

    acks: str | int = "all"
    enable_idempotence: bool = True
    compression_type: str = "none"
    batch_size: int = 16_384
    linger_ms: Millis = 5
    buffer_memory: int = 33_554_432
    max_request_size: int = 1_048_576
    max_block_ms: Millis = 60_000
    delivery_timeout_ms: Millis = 120_000
    max_in_flight_requests_per_connection: int = 5

    @property
    def acks_all(self) -> bool:
        """Whether the brokers acknowledge only what is safe."""
        return str(self.acks) in ("all", "-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(ClientOptions):
    """What an admin client has."""

    allow_auto_create_topics: bool = False
    """Whether to ask for the offsets of a topic that does not exist creates it. Java's admin client never does."""


CHOICES: Mapping[str, tuple[object, ...]] = {
    "group_protocol": ("classic", "consumer"),
    "isolation_level": ("read_uncommitted", "read_committed"),
    "acks": ("all", "-1", "0", "1", -1, 0, 1),
    "compression_type": ("none", "gzip", "snappy", "lz4", "zstd"),
}

_OTHER_PROTOCOL: Mapping[str, Mapping[str, str]] = {
    "classic": {
        "group_remote_assignor": "the members compute the assignment (partition_assignment_strategy)",
        "group_local_assignors": "partition_assignment_strategy names them",
        "group_member_weight": "the members compute the assignment, and know no weights",
    },
    "consumer": {
        "session_timeout_ms": "the broker says how long a session lasts (group.consumer.session.timeout.ms)",
        "heartbeat_interval_ms": "the broker says how often (group.consumer.heartbeat.interval.ms)",
        "partition_assignment_strategy": "the broker computes the assignment (group_remote_assignor)",
    },
}
"""Options that do not apply under a protocol, and who decides instead."""

_MAY_BE_ZERO = frozenset(
    {"linger_ms", "fetch_min_bytes", "fetch_max_wait_ms", "retry_backoff_ms", "reconnect_backoff_ms"}
)

_O = TypeVar("_O", bound=ClientOptions)


def read_options(kind: type[_O], given: Mapping[str, Any]) -> _O:
    """The options of that kind; text is read as what the option is. Raises ConfigError in a sentence."""
    types = get_type_hints(kind)
    for name in given:
        if name not in types:
            raise _unknown(name, list(types))
    if "bootstrap_servers" not in given:
        raise ConfigError("bootstrap_servers is missing: give host:port of at least one broker.")
    values = {name: _read(name, types[name], value) for name, value in given.items()}
    options = kind(**values)
    for name, allowed in CHOICES.items():
        value = getattr(options, name, None)
        if value is not None and value not in allowed:
            listed = ", ".join(sorted({str(one) for one in allowed}))
            raise ConfigError(f"{name} is {value!r}, but must be one of: {listed}.")
    if isinstance(options, GroupOptions):
        _check_protocol(options.group_protocol, given)
        if options.group_member_weight is not None:
            check_weight(options.group_member_weight)
    if isinstance(options, ConsumerOptions):
        reset_policy(options.auto_offset_reset)
    options.addresses()
    return options


def option_names(kind: type[ClientOptions]) -> list[str]:
    """All options of that kind."""
    return [one.name for one in fields(kind)]


def check_weight(weight: float) -> None:
    """ConfigError where a member's weight is none that brokers take."""
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
    if bool in kinds:
        return _read_bool(name, value)
    if int in kinds and str not in kinds:
        return _read_int(name, value)
    if float in kinds and value is not None:
        return _read_float(name, value)
    if value is None and type(None) not in kinds:
        raise ConfigError(f"{name} is None; leave it out for its default.")
    if kinds in ((str,), (str, type(None))) and not isinstance(value, str | None):
        raise ConfigError(f"{name} is {value!r}, but must be text.")
    return value


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
