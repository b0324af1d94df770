"""librdkafka's options, translated into those of Kohort's clients and of the adapter."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import ceil
from typing import Any

from kohort.client import ClientOptions, ConsumerOptions, ProducerOptions
from kohort.compat.confluent.errors import invalid, not_supported
from kohort.compat.confluent.option_names import (
    CALLBACKS,
    FLAGS,
    NO_EFFECT,
    OF_ADAPTER,
    OF_CONSUMER,
    OF_PRODUCER,
    REFUSED,
    SAME,
    SECURITY,
)

_log = logging.getLogger("kohort.compat.confluent")

_ENDLESS_MS = 2**31 - 1

_RESETS = {
    **dict.fromkeys(("smallest", "earliest", "beginning"), "earliest"),
    **dict.fromkeys(("largest", "latest", "end"), "latest"),
    "error": "none",
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """Options of one client, as given: `kohort` for Kohort's client, the rest for the adapter."""

    kohort: dict[str, Any]
    log: logging.Logger
    error_cb: Callable[[Any], None] | None = None
    stats_cb: Callable[[str], None] | None = None
    statistics_interval_s: float = 0.0
    on_commit: Callable[..., None] | None = None
    on_delivery: Callable[..., None] | None = None
    only_failed_deliveries: bool = False
    store_offsets: bool = True
    """Whether a message counts as processed once the application has it."""
    auto_commit_s: float | None = None
    """Interval at which the adapter commits stored offsets; None if Kohort's consumer commits, or nobody."""
    partition_eof: bool = False
    most_messages: int = 100_000
    """Number of messages for which the producer has room; 0 for any number."""

    def for_admin(self) -> dict[str, Any]:
        """Return the options for an admin client of the same cluster."""
        names = {field.name for kind in (ConsumerOptions, ProducerOptions) for field in fields(kind)}
        others = names - {field.name for field in fields(ClientOptions)}
        return {name: value for name, value in self.kohort.items() if name not in others}


def read_configuration(given: tuple[Any, ...], more: Mapping[str, Any], kind: str) -> Configuration:
    """Return the options of a `consumer`, `producer` or `admin`. Raises KafkaException.

    Options without an effect are logged once, as one warning.
    """
    options = _gathered(given, more)
    adapter: dict[str, Any] = {}
    kohort: dict[str, Any] = dict(_DEFAULTS[kind])
    ignored = []
    for name, value in options.items():
        wanted = _side(name)
        if value is None:
            continue
        if name in NO_EFFECT or (wanted is not None and wanted != kind):
            ignored.append(name)
        elif name in CALLBACKS or name in OF_ADAPTER:
            adapter[name] = _flag(name, value) if name in FLAGS else value
        elif name in REFUSED:
            if value not in REFUSED[name]:
                raise not_supported(f"option {name}={value}")
        elif name.startswith(SECURITY):
            kohort[name] = _flag(name, value) if name in FLAGS else value
        elif wanted is not None or name in SAME:
            _translate(kohort, name, _flag(name, value) if name in FLAGS else value)
        else:
            raise invalid(f'No such configuration property: "{name}"')
    log = adapter.get("logger") or _log
    if ignored:
        log.warning("these options have no effect with kohort.compat.confluent: %s", ", ".join(sorted(ignored)))
    return _finished(kind, kohort, adapter, log)


def _gathered(given: tuple[Any, ...], more: Mapping[str, Any]) -> dict[str, Any]:
    if len(given) > 1 or (given and not isinstance(given[0], Mapping)):
        raise TypeError("expected configuration dict")
    options = dict(given[0]) if given else {}
    unchanged = CALLBACKS | NO_EFFECT
    options.update((name if name in unchanged else name.replace("_", "."), value) for name, value in more.items())
    for name in ("default.topic.config", "default_topic_conf"):
        topic = options.pop(name, None)
        options = {**(topic or {}), **options}
    return options


def _side(name: str) -> str | None:
    """Return the kind of client for which an option is, or None if it is for all."""
    return "consumer" if name in OF_CONSUMER else "producer" if name in OF_PRODUCER else None


def _flag(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text in ("true", "t", "1"):
        return True
    if text in ("false", "f", "0"):
        return False
    raise _invalid_value(name, value)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _invalid_value(name, value) from None


def _invalid_value(name: str, value: Any) -> Exception:
    return invalid(f'Invalid value "{value}" for configuration property "{name}"')


def _translate(kohort: dict[str, Any], name: str, value: Any) -> None:
    target = {**SAME, **OF_CONSUMER, **OF_PRODUCER}[name]
    if target == "bootstrap_servers":
        value = ",".join(_address(server.strip()) for server in str(value).split(",") if server.strip())
    elif target == "auto_offset_reset":
        if value not in _RESETS:
            raise _invalid_value(name, value)
        value = _RESETS[value]
    elif target == "linger_ms":
        value = ceil(_number(name, value))
    elif target == "delivery_timeout_ms":
        value = int(_number(name, value)) or _ENDLESS_MS
    elif target == "buffer_memory":
        value = int(_number(name, value)) * 1024
    elif target == "partition_assignment_strategy":
        value = [each.strip() for each in str(value).split(",")]
    elif target == "acks":
        value = str(value)
    elif target == "compression_type" and value == "inherit":
        return
    kohort[target] = value


def _address(server: str) -> str:
    server = server.rpartition("://")[2]
    return server if ":" in server else f"{server}:9092"


_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "consumer": {
        "allow_auto_create_topics": False,
        "auto_offset_reset": "latest",
        "isolation_level": "read_committed",
    },
    "producer": {
        "batch_size": 1_000_000,
        "buffer_memory": 1_048_576 * 1024,
        "delivery_timeout_ms": 300_000,
        "max_request_size": 1_000_000,
        "partitioner": "consistent_random",
    },
    "admin": {},
}
"""Defaults of librdkafka that differ from Kohort's and that a program can notice."""


def _finished(kind: str, kohort: dict[str, Any], adapter: dict[str, Any], log: logging.Logger) -> Configuration:
    store, auto_commit_s = adapter.get("enable.auto.offset.store", True), None
    if kind == "consumer":
        if not kohort.get("group_id"):
            raise ValueError("Failed to create consumer: group.id must be set")
        if kohort.get("group_protocol", "classic") == "classic":
            kohort.setdefault("partition_assignment_strategy", ["range", "roundrobin"])
        interval_ms = _number("auto.commit.interval.ms", adapter.get("auto.commit.interval.ms", 5_000))
        commits = kohort.get("enable_auto_commit", True) and interval_ms > 0
        # Kohort's consumer commits positions, and reports failures only to the log.
        kohort["enable_auto_commit"] = commits and store and "on_commit" not in adapter
        if kohort["enable_auto_commit"]:
            kohort["auto_commit_interval_ms"] = int(interval_ms)
        elif commits:
            auto_commit_s = interval_ms / 1000
    elif kind == "producer":
        if not kohort.get("transactional_id"):
            kohort.pop("transactional_id", None)
            kohort.pop("transaction_timeout_ms", None)
        # Unreachable brokers fail a message after message.timeout.ms, not before.
        kohort["max_block_ms"] = kohort["delivery_timeout_ms"]
    if "oauth_cb" in adapter:
        kohort["oauth_cb"] = adapter["oauth_cb"]
    return Configuration(
        kohort,
        log,
        error_cb=adapter.get("error_cb"),
        stats_cb=adapter.get("stats_cb"),
        statistics_interval_s=_number("statistics.interval.ms", adapter.get("statistics.interval.ms", 0)) / 1000,
        on_commit=adapter.get("on_commit"),
        on_delivery=adapter.get("on_delivery"),
        only_failed_deliveries=adapter.get("delivery.report.only.error", False),
        store_offsets=store,
        auto_commit_s=auto_commit_s,
        partition_eof=adapter.get("enable.partition.eof", False),
        most_messages=int(
            _number("queue.buffering.max.messages", adapter.get("queue.buffering.max.messages", 100_000))
        ),
    )
