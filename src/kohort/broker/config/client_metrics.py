"""The configs of client metrics subscriptions (KIP-714): the metrics that matching clients push, and how often.

As in Kafka, a subscription exists as long as it has a config.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import re2

from kohort.broker.config.entries import ConfigEntry, Setter, Source
from kohort.broker.config.setting import Setting, split_list
from kohort.errors import ErrorCode, KafkaError
from kohort.log import AllConfigs, LogStore

_RESOURCE = "client-metrics"
"""The resource type under which the store keeps them."""
METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"

DEFAULT_INTERVAL_MS = 300_000
_SHORTEST_MS, _LONGEST_MS = 100, 3_600_000

MATCH_KEYS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""Facts about a client that `match` may name."""

CLIENT_METRICS_SETTINGS: Mapping[str, Setting] = {
    INTERVAL: Setting(
        DEFAULT_INTERVAL_MS,
        "Time between two pushes of a client, in milliseconds.",
        _SHORTEST_MS,
        _LONGEST_MS,
    ),
    MATCH: Setting(
        "",
        f"Clients that push, as KEY=REGEX,...: all must match completely. KEY is {', '.join(MATCH_KEYS[:-1])} or"
        f" {MATCH_KEYS[-1]}. Empty: all clients.",
        is_list=True,
        kafka="the syntax is that of java.util.regex, not RE2",
    ),
    METRICS: Setting("", "Prefixes of the names of the metrics; * means all metrics.", is_list=True),
}

_WHOLE_NUMBER = re.compile(r" *[+-]?[0-9]{1,10} *")
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 1 << 20
"""Maximum memory of one compiled expression with its match cache, in bytes."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The metrics that some clients push."""

    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, Any] = field(default_factory=dict)
    """Compiled expressions by key."""

    def matches(self, client: Mapping[str, str]) -> bool:
        """Return whether a client with these facts pushes the metrics."""
        return all(
            expression.fullmatch(_readable(client.get(key, ""))) is not None for key, expression in self.match.items()
        )


class Subscriptions:
    """The client metrics subscriptions in the store."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self.version = 0
        """Increases with each change, so that clients get the new metrics."""
        self.follow()

    def follow(self) -> None:
        """Read the subscriptions again, after the store has changed. One that is invalid here subscribes to nothing."""
        self.version += 1
        self.current: Mapping[str, Subscription] = {
            name: found for name, configs in self.all().items() if (found := _valid(configs)) is not None
        }

    @staticmethod
    def changed(before: AllConfigs, now: AllConfigs) -> bool:
        """Return whether the subscriptions in the store differ."""
        return before.get(_RESOURCE) != now.get(_RESOURCE)

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """Return the configs of all subscriptions, by name."""
        return self._store.configs(_RESOURCE)

    def of(self, name: str) -> Mapping[str, str]:
        """Return the configs of a subscription; none if it does not exist."""
        return self.all().get(name, {})

    def change(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace all configs of a subscription with these, which have been checked; they are durable on return."""
        self._store.keep_configs(_RESOURCE, name, configs)
        self.follow()


def subscription(configs: Mapping[str, str]) -> Subscription:
    """Return the subscription with these configs. Raise KafkaError for a config that is unknown or invalid."""
    unknown = [name for name in configs if name not in CLIENT_METRICS_SETTINGS]
    if unknown:
        known = ", ".join(CLIENT_METRICS_SETTINGS)
        detail = f"Unknown client metrics configuration: {unknown[0][:80]}. The configurations are {known}."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    metrics = split_list(configs.get(METRICS, ""))
    if "" in metrics:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{METRICS} must not have empty parts; * means all metrics.")
    return Subscription(
        frozenset(metrics),
        _interval(configs.get(INTERVAL, str(DEFAULT_INTERVAL_MS))),
        dict(_match(part) for part in split_list(configs.get(MATCH, ""))),
    )


def client_metrics_entries(configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all configs of a subscription that sets these itself."""
    return [
        ConfigEntry(name, setting, _setters(name, setting, configs))
        for name, setting in CLIENT_METRICS_SETTINGS.items()
    ]


def _readable(text: str) -> bytes:
    """Return UTF-8, with a replacement for what a client sent that is not, so that `.*` matches every client."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


def _valid(configs: Mapping[str, str]) -> Subscription | None:
    """Return the subscription, or None if another version of the broker stored something else."""
    try:
        return subscription(configs)
    except KafkaError:
        return None


def _interval(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{INTERVAL} must be a whole number, not {text[:40]!r}.")
    number = int(text)
    if not _SHORTEST_MS <= number <= _LONGEST_MS:
        detail = f"{INTERVAL} must be between {_SHORTEST_MS} and {_LONGEST_MS} (1 hour), not {number}."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    return number


def _match(text: str) -> tuple[str, Any]:
    # As Java splits: empty parts at the end do not count.
    key, equals, expression = text.rstrip("=").partition("=")
    key, expression = key.strip(), expression.strip()
    if not equals or "=" in expression or key not in MATCH_KEYS:
        keys = ", ".join(MATCH_KEYS)
        detail = f"Illegal client matching pattern: {text[:80]!r} is not KEY=REGEX with one of the keys {keys}."
        raise KafkaError(ErrorCode.INVALID_CONFIG, detail)
    try:
        return key, re2.compile(expression.encode("utf-8", "surrogateescape"), _OPTIONS)
    except re2.error:
        detail = f"Illegal client matching pattern: {text[:80]!r} has no valid regular expression of RE2."
        raise KafkaError(ErrorCode.INVALID_CONFIG, detail) from None


def _setters(name: str, setting: Setting, configs: Mapping[str, str]) -> list[Setter]:
    default = [Setter(Source.DEFAULT, name, setting.default_text)]
    own = configs.get(name)
    return default if own is None else [Setter(Source.CLIENT_METRICS, name, own), *default]
