"""Events that members print on stdout, one JSON object per line.

Times are nanoseconds of the machine's monotonic clock. Java's `System.nanoTime` and Python's
`time.monotonic_ns` read the same clock on Linux, so the lines of all processes on one machine can
be ordered. `clients/` shows how members in other languages print the same lines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kohort.errors import KohortError


class MalformedEvent(KohortError):
    """A member's line is not a valid event."""


@dataclass(frozen=True, slots=True)
class Event:
    """Event of a member."""

    at: int
    """Time in monotonic nanoseconds."""
    member: str


@dataclass(frozen=True, slots=True)
class Joining(Event):
    """The member's client is about to join the group."""


@dataclass(frozen=True, slots=True)
class Assigned(Event):
    """The member was assigned partitions; it processes none of them before `Ready`."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Restored(Event):
    """The member read this number of changelog records before it could process new partitions."""

    records: int


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """The callback that began with `Assigned`, `Revoked` or `Lost` has ended: new partitions are restored."""


@dataclass(frozen=True, slots=True)
class Revoked(Event):
    """The member stopped processing partitions, on request or because it leaves."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """The member learned that it no longer owned these partitions."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read(Event):
    """The application read records, as runs without gaps: partition, first offset, last offset."""

    runs: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """The coordinator accepted a commit: partition, next offset to read."""

    ends: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Serving(Event):
    """The member answers queries for counts on this port of the machine."""

    port: int


@dataclass(frozen=True, slots=True)
class Gone(Event):
    """The member's process ended; `killed` if it did not leave the group first."""

    killed: bool


_KINDS: dict[str, type[Event]] = {
    kind.__name__.lower(): kind
    for kind in (Joining, Assigned, Restored, Ready, Revoked, Lost, Read, Committed, Serving, Gone)
}
_PARTITIONS = (Assigned, Revoked, Lost)


def parse(line: str, member: str = "") -> Event:
    """Parse a line; `member` applies if the line does not name one. Raises MalformedEvent."""
    try:
        told = json.loads(line)
        return _made(_KINDS[told["event"]], told, str(told.get("member", member)))
    except (ValueError, KeyError, TypeError) as problem:
        raise MalformedEvent(f"A member printed {line.strip()[:200]!r}, which is not an event.") from problem


def _made(kind: type[Event], told: dict[str, Any], member: str) -> Event:
    at = int(told["at"])
    if kind is Read:
        return Read(at, member, tuple((int(p), int(first), int(last)) for p, first, last in told["runs"]))
    if kind is Committed:
        return Committed(at, member, tuple((int(p), int(end)) for p, end in told["ends"]))
    if kind is Serving:
        return Serving(at, member, int(told["port"]))
    if kind is Restored:
        return Restored(at, member, int(told["records"]))
    if kind is Gone:
        return Gone(at, member, bool(told["killed"]))
    if kind in _PARTITIONS:
        assert issubclass(kind, Assigned | Revoked | Lost)
        return kind(at, member, tuple(int(number) for number in told["partitions"]))
    return kind(at, member)


def line(event: Event) -> str:
    """Format the event as a line for `parse`."""
    return json.dumps({"event": type(event).__name__.lower(), **asdict(event)}, separators=(",", ":"))


def shifted(events: Sequence[Event], by: int) -> list[Event]:
    """Return the events with all times shifted by `by` nanoseconds."""
    return [replace(event, at=event.at + by) for event in events]


def runs(records: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Combine (partition, offset) pairs in reading order into runs: (partition, first offset, last offset)."""
    found: list[tuple[int, int, int]] = []
    for partition, offset in records:
        if found and found[-1][0] == partition and found[-1][2] + 1 == offset:
            found[-1] = (partition, found[-1][1], offset)
        else:
            found.append((partition, offset, offset))
    return found
