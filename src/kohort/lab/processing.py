"""Periods in which each partition was processed, and in which it was dark, from the members' events."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from kohort.lab.events import Assigned, Event, Gone, Lost, Read, Revoked
from kohort.lab.lab_group import Trigger

NOBODY = ""
"""Owner of a partition before its creation, and next owner of a partition that stays dark."""


@dataclass(frozen=True, slots=True)
class Dark:
    """Period in which no member processed the partition, in monotonic nanoseconds."""

    partition: int
    begin: int
    end: int
    before: str
    """Member that stopped processing it."""
    after: str
    """Member that continued; the same as before if it got the partition back."""


@dataclass(frozen=True, slots=True)
class Span:
    """Period in which a member processed the partition, from its first record until it stopped."""

    partition: int
    member: str
    begin: int
    end: int


@dataclass(slots=True)
class _Track:
    """State of one partition as events are handled."""

    owner: str | None = None
    since: int | None = None
    """Time of its owner's first read; None before that."""
    last_read: int = 0
    stopped: tuple[int, str] | None = None
    """Start of the dark period, and the previous owner."""

    def stop(self, partition: int, at: int) -> Span | None:
        """End the owner's processing; return the span that ends, if any."""
        owner, since = self.owner, self.since
        self.owner = self.since = None
        if owner is None or since is None:
            return None
        self.stopped = at, owner
        return Span(partition, owner, since, at)

    def read(self, partition: int, event: Read) -> Dark | None:
        """Handle a read by the owner; return the dark period that it ends, if any."""
        self.last_read = event.at
        if self.since is not None:
            return None
        self.since = event.at
        if self.stopped is None:
            return None
        (begin, before), self.stopped = self.stopped, None
        return Dark(partition, begin, event.at, before, event.member)


class Processing:
    """Spans and dark periods, collected from events in order of time."""

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self.spans: list[Span] = []
        self.dark: list[Dark] = []
        self._tracks: dict[int, _Track] = defaultdict(_Track)
        self._outages = deque(trigger.down_until for trigger in triggers if trigger.down_until is not None)
        for trigger in triggers:
            for partition in range(*(trigger.opened or (0, 0))):
                self._tracks[partition].stopped = trigger.at, NOBODY

    def handle(self, event: Event) -> None:
        """Handle the next event."""
        while self._outages and event.at > self._outages[0]:
            self._outages.popleft()
            self._interrupt()
        match event:
            case Assigned():
                for partition in event.partitions:
                    self._stop(partition, event.at)
                    self._tracks[partition].owner = event.member
            case Revoked() | Lost():
                for partition in event.partitions:
                    if self._tracks[partition].owner == event.member:
                        self._stop(partition, event.at)
            case Gone():
                for partition, track in self._tracks.items():
                    if track.owner == event.member:
                        self._stop(partition, event.at)
            case Read():
                for partition, _, _ in event.runs:
                    self._read(partition, event)

    def end(self, at: int) -> None:
        """Close all periods.

        Spans end with the partition's last read; partitions that are dark stay so until `at`.
        """
        for partition, track in self._tracks.items():
            if track.since is not None:
                self._stop(partition, track.last_read)
            elif track.stopped is not None:
                begin, before = track.stopped
                self.dark.append(Dark(partition, begin, at, before, NOBODY))

    def _interrupt(self) -> None:
        """Handle an outage of the broker: members keep their partitions, but their spans end with the last read."""
        for partition, track in self._tracks.items():
            if track.since is not None:
                owner = track.owner
                self._stop(partition, track.last_read)
                track.owner = owner

    def _stop(self, partition: int, at: int) -> None:
        span = self._tracks[partition].stop(partition, at)
        if span is not None:
            self.spans.append(span)

    def _read(self, partition: int, event: Read) -> None:
        track = self._tracks[partition]
        if track.owner == event.member:
            dark = track.read(partition, event)
            if dark is not None:
                self.dark.append(dark)


def processing(ordered: Sequence[Event], triggers: Sequence[Trigger]) -> tuple[list[Span], list[Dark]]:
    """Return spans and dark periods, each in the order in which they ended."""
    found = Processing(triggers)
    for event in ordered:
        found.handle(event)
    if ordered:
        found.end(ordered[-1].at)
    return found.spans, found.dark
