"""What one client instance pushed (KIP-714), and its JSON form in a topic. Pure.

Readers skip unknown keys, so that older readers can read newer records.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from kohort.errors import KohortError
from kohort.model import Millis
from kohort.telemetry.otlp import Kind, Metrics

TELEMETRY_TOPIC = "__kohort_client_telemetry"
"""Topic that holds what clients pushed.

The key is the ID of the client instance, the value is `ClientTelemetry.to_json`.
"""
_MAX_TEXT = 1_000


class MalformedTelemetry(KohortError):
    """The bytes are not a record of the telemetry topic."""


@dataclass(frozen=True, slots=True)
class ClientTelemetry:
    """Metrics of one client instance. The broker knows the first facts; the client claims the others.

    A name is Kafka's, such as `org.apache.kafka.consumer.poll.idle.ratio.avg`, with attributes as
    `name{node_id=1}`.
    """

    client_instance_id: str
    client_id: str
    client_host: str
    """As Kafka prints it, with a slash in front of the address."""
    software: str
    version: str
    at: Millis
    """Time of the push, by the broker's clock."""
    interval_ms: int
    """Time between two pushes, on average."""
    terminating: bool = False
    """Whether this is the last push of the client."""
    group_id: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    """`group.instance.id` of a static member."""
    rack: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Present values, and sums since the client's start."""
    increments: Mapping[str, float] = field(default_factory=dict)
    """Sums since the client's last push."""
    left_out: int = 0
    """Number of pushed values that are not in `metrics` and `increments`, such as histograms."""

    @property
    def expires_at(self) -> Millis:
        """Time at which the client is gone, or does not push any more: it missed two pushes."""
        return self.at + max(60_000, 3 * self.interval_ms)

    @property
    def client_software(self) -> str:
        """Name and version of the client's library, such as `apache-kafka-java 4.3.1`."""
        return f"{self.software} {self.version}"

    @property
    def values(self) -> Mapping[str, float]:
        """Present values, and sums since the client's start."""
        return self.metrics

    def to_json(self) -> bytes:
        """Return the record's value."""
        present = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(present, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls, value: bytes) -> "ClientTelemetry":
        """Read a record's value. Raise MalformedTelemetry."""
        try:
            found = json.loads(value)
            if not isinstance(found, dict):
                raise ValueError("it is not an object")
            return cls(
                client_instance_id=_text(found["client_instance_id"]),
                client_id=_text(found["client_id"]),
                client_host=_text(found["client_host"]),
                software=_text(found["software"]),
                version=_text(found["version"]),
                at=_whole(found["at"]),
                interval_ms=_whole(found["interval_ms"]),
                terminating=found.get("terminating") is True,
                group_id=_optional(found.get("group_id")),
                member_id=_optional(found.get("member_id")),
                instance_id=_optional(found.get("instance_id")),
                rack=_optional(found.get("rack")),
                metrics=_numbers(found.get("metrics", {})),
                increments=_numbers(found.get("increments", {})),
                left_out=_whole(found.get("left_out", 0)),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise MalformedTelemetry(f"A record of {TELEMETRY_TOPIC} cannot be read: {error!r:.200}") from None


_ATTRIBUTES: Mapping[str, str] = {
    "group_id": "group_id",
    "member_id": "group_member_id",
    "instance_id": "group_instance_id",
    "rack": "client_rack",
}
"""Attribute of the client in OTLP that has each optional fact."""


def claimed(metrics: Metrics) -> dict[str, Any]:
    """Return the fields of `ClientTelemetry` that a client's own metrics tell."""
    texts = {name: metrics.resource.get(attribute) or None for name, attribute in _ATTRIBUTES.items()}
    increments: dict[str, float] = {}
    values: dict[str, float] = {}
    for point in metrics.points:
        if point.kind is Kind.INCREMENT:
            increments[point.name] = increments.get(point.name, 0.0) + point.value
        else:
            values[point.name] = point.value
    increments = {name: value for name, value in increments.items() if isfinite(value)}
    return {**texts, "metrics": values, "increments": increments, "left_out": metrics.left_out}


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise ValueError("a text is missing or too long")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 53:
        raise ValueError("a whole number is missing or too large")
    return value


def _numbers(value: object) -> dict[str, float]:
    if not isinstance(value, dict) or not all(
        isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < float("inf")
        for number in value.values()
    ):
        raise ValueError("metrics are not finite numbers by name")
    return {name: float(number) for name, number in value.items()}
