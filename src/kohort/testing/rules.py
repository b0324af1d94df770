"""Rules of faults: which requests a rule selects, and what happens to them.

All selectors of a rule must match. A selector of something that a request does not name never matches: a rule with a
topic affects no Heartbeat.
"""

import difflib
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict, Unpack, assert_never
from uuid import UUID

from kohort.errors import ConfigError, ErrorCode
from kohort.testing.names import api_key, api_name, error_code
from kohort.testing.parts import Entity
from kohort.wire.messages.api_key import ApiKey


class When(Enum):
    """When a fault happens, seen from the work of the broker."""

    BEFORE = "before"
    """Instead of the work, or, for a delay, before it."""
    AFTER = "after"
    """After the work, instead of its answer, or before it."""
    ANSWERED = "answered"
    """After the answer."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer an error.

    With `when` None, the broker does the work first if a real broker can answer so after it; see `AFTER_WORK`.
    """

    error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    when: When | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Send no answer. Later answers of the connection wait behind it, so they are not sent either."""

    when: When = When.AFTER


@dataclass(frozen=True, slots=True)
class Delay:
    """Let the request, or its answer, arrive late; whatever follows on the connection waits behind it."""

    ms: float
    when: When = When.BEFORE


@dataclass(frozen=True, slots=True)
class Hold:
    """Like `Delay`, until the fault is released or removed."""

    when: When = When.BEFORE


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Handle the request twice, as if it had been sent again; the peer gets the second answer."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection."""

    when: When = When.BEFORE


@dataclass(frozen=True, slots=True)
class Cut:
    """Send only the first bytes of the answer, by default half of them, and close the connection."""

    after_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Observe:
    """Only count the request."""


Action = Fail | Drop | Delay | Hold | Duplicate | Close | Cut | Observe

_TIMED_OUT = frozenset({ErrorCode.REQUEST_TIMED_OUT})
AFTER_WORK = {
    ApiKey.PRODUCE: _TIMED_OUT | {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND},
    ApiKey.OFFSET_COMMIT: _TIMED_OUT,
    ApiKey.CREATE_TOPICS: _TIMED_OUT,
    ApiKey.DELETE_TOPICS: _TIMED_OUT,
    ApiKey.DELETE_RECORDS: _TIMED_OUT,
    ApiKey.CREATE_ACLS: _TIMED_OUT,
    ApiKey.DELETE_ACLS: _TIMED_OUT,
    ApiKey.ALTER_CONFIGS: _TIMED_OUT,
    ApiKey.CREATE_PARTITIONS: _TIMED_OUT,
    ApiKey.DELETE_GROUPS: _TIMED_OUT,
    ApiKey.ELECT_LEADERS: _TIMED_OUT,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _TIMED_OUT,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _TIMED_OUT,
    ApiKey.ALTER_CLIENT_QUOTAS: _TIMED_OUT,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _TIMED_OUT,
    ApiKey.UPDATE_FEATURES: _TIMED_OUT,
}
"""Errors that a broker can answer after it did the work."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Selectors of requests, and the action. An empty selector, or None, selects all."""

    keys: frozenset[int] = frozenset()
    """API keys. One that Kohort does not serve selects nothing."""
    versions: frozenset[int] = frozenset()
    nodes: frozenset[int] = frozenset()
    client_id: str | None = None
    connection: int | None = None
    """Number of the connection; see `ConnectionOpened`."""
    topic: str | None = None
    topic_id: UUID | None = None
    partitions: frozenset[int] = frozenset()
    group: str | None = None
    member: str | None = None
    instance_id: str | None = None
    txn_id: str | None = None
    resource: str | None = None
    """Name of something else: a config's resource, a user, a quota's entity, a directory, an ACL's resource."""
    top_level: bool = False
    """Whether an error fails the request as a whole where that is possible, instead of its parts."""
    nth: int = 1
    """The first of the selected requests that is affected."""
    count: int = 1
    """Number of requests that are affected; -1 for all."""
    action: Action = field(default_factory=Fail)

    def selects(self, sender: "Sender") -> bool:
        """Return whether the request may be affected, by what does not depend on its contents."""
        return (
            (not self.keys or sender.key in self.keys)
            and (not self.versions or sender.version in self.versions)
            and (not self.nodes or sender.node in self.nodes)
            and (self.client_id is None or sender.client_id == self.client_id)
            and (self.connection is None or sender.connection == self.connection)
        )

    def matches(self, entity: Entity) -> bool:
        """Return whether a part of a request, or the request as a whole, is selected."""
        return (
            (self.topic is None or entity.topic == self.topic)
            and (self.topic_id is None or entity.topic_id == self.topic_id)
            and (not self.partitions or entity.partition in self.partitions)
            and (self.group is None or entity.group == self.group)
            and (self.member is None or entity.member == self.member)
            and (self.instance_id is None or entity.instance_id == self.instance_id)
            and (self.txn_id is None or entity.txn_id == self.txn_id)
            and (self.resource is None or self.resource in entity.resources)
        )

    def __str__(self) -> str:
        """Return the rule as reports show it."""
        return ", ".join([_shown(self.action), *self._selectors()])

    def _selectors(self) -> Iterator[str]:
        if self.keys:
            yield " or ".join(map(api_name, sorted(self.keys)))
        for name in ("topic", "topic_id", "group", "member", "instance_id", "txn_id", "resource", "client_id"):
            if (value := getattr(self, name)) is not None:
                yield f"{name} {value}"
        for name in ("partitions", "versions", "nodes"):
            if value := getattr(self, name):
                yield f"{name} {', '.join(map(str, sorted(value)))}"
        if self.connection is not None:
            yield f"connection {self.connection}"


def _shown(action: Action) -> str:
    match action:
        case Fail(error=error, when=when):
            return error.name if when is None else f"{error.name} {when.value} the work"
        case Delay(ms=ms):
            return f"delay of {ms:g} ms"
        case Drop() | Hold() | Duplicate() | Close() | Cut() | Observe():
            return type(action).__name__.lower()
        case _:
            assert_never(action)


@dataclass(frozen=True, slots=True)
class Sender:
    """Where a request comes from, and its kind."""

    node: int
    key: int
    version: int
    client_id: str
    connection: int


class Selectors(TypedDict, total=False):
    """Arguments of a fault, as `Rule` has them, in any common form; and one action, by default `error`."""

    keys: str | int | Iterable[str | int]
    """Names or numbers of APIs, in any common spelling."""
    versions: int | Iterable[int]
    nodes: int | Iterable[int]
    client_id: str
    connection: int
    topic: str
    topic_id: UUID | str
    partitions: int | Iterable[int]
    group: str
    member: str
    instance_id: str
    txn_id: str
    resource: str
    top_level: bool
    nth: int
    count: int

    error: str | int
    """Name or number of an error code."""
    drop: bool
    delay_ms: float
    hold: bool
    duplicate: bool
    close: bool
    cut: bool | int
    """Number of bytes of the answer that are sent; True for half of them."""
    observe: bool
    when: str | When
    """"before" or "after" the work of the broker; for `close`, "answered", too."""


def rule_of(**given: Unpack[Selectors]) -> Rule:
    """Return the rule with these arguments. Raise ConfigError, which says what is wrong with them."""
    arguments: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in arguments:
        if name not in Selectors.__annotations__:
            near = difflib.get_close_matches(name, Selectors.__annotations__, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f": choose from {', '.join(Selectors.__annotations__)}."
            raise ConfigError(f"Unknown argument `{name}` of a fault{hint}")
    selectors: dict[str, Any] = {
        name: _SELECTORS[name](name, value) for name, value in arguments.items() if name in _SELECTORS
    }
    rule = Rule(**selectors, action=_action(arguments))
    _check(rule)
    return rule


def _action(arguments: dict[str, Any]) -> Action:
    named = [name for name in _ACTIONS if name in arguments and arguments[name] is not False]
    if len(named) > 1:
        raise ConfigError(f"A fault has one action, not {' and '.join(f'`{name}`' for name in named)}: add two faults.")
    name = named[0] if named else "error"
    make, times = _ACTIONS[name]
    value = arguments.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)
    when = arguments.get("when")
    if when is None:
        return make(value)
    found = next((each for each in times if each is when or each.value == when), None)
    if found is None:
        allowed = " or ".join(f'"{each.value}"' for each in times)
        hint = f"choose {allowed}." if allowed else "leave it out."
        raise ConfigError(f"`when` of `{name}` cannot be {when!r}: {hint}")
    return make(value, found)


def _check(rule: Rule) -> None:
    if rule.nth < 1:
        raise ConfigError(f"`nth` counts from 1: {rule.nth} selects no request.")
    if rule.count < -1 or rule.count == 0:
        raise ConfigError(f"`count` cannot be {rule.count}: choose the number of requests, or -1 for all.")
    if rule.top_level:
        parts = (rule.topic, rule.topic_id, rule.member, rule.instance_id, rule.resource)
        if rule.partitions or any(each is not None for each in parts):
            raise ConfigError("`top_level` selects only on group and txn_id.")
        if not isinstance(rule.action, Fail):
            raise ConfigError("`top_level` is about errors: give an `error`, or leave it out.")


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, str | int) else list(given)


def _keys(name: str, given: Any) -> frozenset[int]:
    return frozenset(map(api_key, _listed(given)))


def _numbers(name: str, given: Any) -> frozenset[int]:
    return frozenset(_number(name, each) for each in _listed(given))


def _number(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise ConfigError(f"`{name}` takes numbers, not {given!r}.")
    return given


def _text(name: str, given: Any) -> str:
    if not isinstance(given, str):
        raise ConfigError(f"`{name}` takes a string, not {given!r}.")
    return given


def _flag(name: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise ConfigError(f"`{name}` is True or False, not {given!r}.")
    return given


def _uuid(name: str, given: Any) -> UUID:
    if isinstance(given, UUID):
        return given
    text = _text(name, given)
    try:
        # Kafka's tools print topic IDs in base64 without padding.
        return UUID(bytes=urlsafe_b64decode(f"{text}==")) if len(text) == _BASE64_UUID else UUID(text)
    except ValueError:
        raise ConfigError(f"`{name}` {text!r} is not a UUID.") from None


def _drop(value: Any, when: When = When.AFTER) -> Action:
    return Drop(when)


def _delay(value: Any, when: When = When.BEFORE) -> Action:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ConfigError(f"`delay_ms` takes a number of milliseconds, not {value!r}.")
    return Delay(value, when)


def _hold(value: Any, when: When = When.BEFORE) -> Action:
    return Hold(when)


def _duplicate(value: Any) -> Action:
    return Duplicate()


def _close(value: Any, when: When = When.BEFORE) -> Action:
    return Close(when)


def _cut(value: Any) -> Action:
    if value is True:
        return Cut()
    if not isinstance(value, int) or value < 0:
        raise ConfigError(f"`cut` takes the number of bytes that are sent, or True, not {value!r}.")
    return Cut(value)


def _observe(value: Any) -> Action:
    return Observe()


def _error(value: Any, when: When | None = None) -> Action:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigError(f"`error` takes the name or the number of an error, not {value!r}.")
    return Fail(error_code(value), when)


_BASE64_UUID = 22
_WORK = (When.BEFORE, When.AFTER)
_ACTIONS: dict[str, tuple[Callable[..., Action], tuple[When, ...]]] = {
    "error": (_error, _WORK),
    "drop": (_drop, _WORK),
    "delay_ms": (_delay, _WORK),
    "hold": (_hold, _WORK),
    "duplicate": (_duplicate, ()),
    "close": (_close, (*_WORK, When.ANSWERED)),
    "cut": (_cut, ()),
    "observe": (_observe, ()),
}
_SELECTORS: dict[str, Callable[[str, Any], Any]] = {
    "keys": _keys,
    "versions": _numbers,
    "nodes": _numbers,
    "client_id": _text,
    "connection": _number,
    "topic": _text,
    "topic_id": _uuid,
    "partitions": _numbers,
    "group": _text,
    "member": _text,
    "instance_id": _text,
    "txn_id": _text,
    "resource": _text,
    "top_level": _flag,
    "nth": _number,
    "count": _number,
}
