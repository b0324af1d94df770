"""What members say, one JSON object a line on stdout. Times are nanoseconds of the machine's monotonic clock.

Java's `System.nanoTime` and Python's `time.monotonic_ns` read the same clock on Linux, so the lines of all processes of
one machine can be put in one order. How members in other languages print the same lines: `clients/`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kohort.errors import KohortError


class MalformedEvent(KohortError):
    """A member's line is none of those that it may print."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a member."""

    at: int
    """Monotonic nanoseconds."""
    member: str


@dataclass(frozen=True, slots=True)
class Joining(Event):
    """Its client is about to join the group."""


@dataclass(frozen=True, slots=True)
class Assigned(Event):
    """It was given these; it processes none of them before `Ready`."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Restored(Event):
    """It read so many records of the changelog before it could go on with what it won."""

    records: int


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """The callback that began with `Assigned`, `Revoked` or `Lost` is over: what is won is restored."""


@dataclass(frozen=True, slots=True)
class Revoked(Event):
    """It stopped processing these, as it was told to or because it leaves."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """These were no longer its own when it heard of it."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read(Event):
    """Records came to the application, by partition: first and last offset of each run without a hole."""

    runs: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """The coordinator has taken its commit, by partition: the next offset to read."""

    ends: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Serving(Event):
    """It answers questions for counts on this port of the machine."""

    port: int


@dataclass(frozen=True, slots=True)
class Gone(Event):
    """Its process has ended; `killed` without a goodbye."""

    killed: bool


_KINDS: dict[str, type[Event]] = {
    kind.__name__.lower(): kind
    for kind in (Joining, Assigned, Restored, Ready, Revoked, Lost, Read, Committed, Serving, Gone)
}
_PARTITIONS = (Assigned, Revoked, Lost)


def parse(line: str, member: str = "") -> Event:
    """The event of a line; `member` where the line does not name one. Raises MalformedEvent."""
    try:
        told = json.loads(line)
        return _made(_KINDS[told["event"]], told, str(told.get("member", member)))
    except (ValueError, KeyError, TypeError) as problem:
        raise MalformedEvent(f"A member said {line.strip()[:200]!r}, which is no event.") from problem


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
        return kind(at, member, tuple(int(one) for one in told["partitions"]))
    return kind(at, member)


def line(event: Event) -> str:
    """The event as a line that `parse` reads."""
    return json.dumps({"event": type(event).__name__.lower(), **asdict(event)}, separators=(",", ":"))


def shifted(events: Sequence[Event], by: int) -> list[Event]:
    """The same with another zero of time."""
    return [replace(event, at=event.at + by) for event in events]


def runs(records: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Partitions and offsets in the order of reading, as runs: (partition, first offset, last offset)."""
    found: list[tuple[int, int, int]] = []
    for partition, offset in records:
        if found and found[-1][0] == partition and found[-1][2] + 1 == offset:
            found[-1] = (partition, found[-1][1], offset)
        else:
            found.append((partition, offset, offset))
    return found
