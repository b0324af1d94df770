"""Events that a member's process prints, one JSON object per line, as Apache Kafka's VerifiableConsumer does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kohort.model import Millis


@dataclass(frozen=True, slots=True)
class Assigned:
    """The member may process these from now on."""

    at: Millis
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The member has stopped processing these."""

    at: Millis
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Lost:
    """The member found out that the group had gone on without it."""

    at: Millis
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Span:
    """Records of one partition without a gap, both ends included."""

    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Read:
    """The application has been given these, in this order: a client may go back in a partition."""

    at: Millis
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit was answered; `error` is empty when it was taken."""

    at: Millis
    error: str


@dataclass(frozen=True, slots=True)
class NoOffset:
    """The group has committed nothing, and the member is not to begin anywhere by itself: it ends."""

    at: Millis


@dataclass(frozen=True, slots=True)
class Wrong:
    """Errors inside one member: a gap in its records, or a record that was not written."""

    at: Millis
    what: str


Event = Assigned | Revoked | Lost | Read | Committed | NoOffset | Wrong


def value_of(partition: int, offset: int) -> str:
    """Value that the producer writes there: a record contains its own partition and offset."""
    return f"{partition}:{offset}"


def parse(line: str) -> Event | None:
    """Parse a line; return None if no check needs it: the start, the end, an expected record."""
    said = json.loads(line)
    at = int(said["timestamp"])
    match said["name"]:
        case "partitions_assigned":
            return Assigned(at, _numbers(said))
        case "partitions_revoked":
            return Revoked(at, _numbers(said))
        case "partitions_lost":
            return Lost(at, _numbers(said))
        case "records_consumed":
            return _read(at, said["partitions"])
        case "no_offset":
            return NoOffset(at)
        case "record_data" if said["value"] != value_of(said["partition"], said["offset"]):
            return Wrong(at, f"partition {said['partition']} has {said['value']!r} at offset {said['offset']}")
        case "offsets_committed":
            return Committed(at, "" if said["success"] else str(said.get("error") or "refused"))
    return None


def _numbers(said: dict[str, Any]) -> frozenset[int]:
    return frozenset(int(place["partition"]) for place in said["partitions"])


def _read(at: Millis, places: list[dict[str, Any]]) -> Read | Wrong:
    spans = tuple(Span(place["partition"], place["minOffset"], place["maxOffset"]) for place in places)
    for span, place in zip(spans, places, strict=True):
        if span.last - span.first + 1 != place["count"]:
            return Wrong(at, f"{place['count']} records between offsets {span.first} and {span.last}")
    return Read(at, spans)
