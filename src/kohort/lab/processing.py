"""Who processed each partition when, and when nobody did, from what the members said."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from kohort.lab.events import Assigned, Event, Gone, Lost, Read, Revoked
from kohort.lab.stage import Trigger

NOBODY = ""
"""Who had a partition before it was made, and who has one that is dark to the end."""


@dataclass(frozen=True, slots=True)
class Dark:
    """Nobody processed the partition in that time."""

    partition: int
    begin: int
    end: int
    before: str
    """The member that stopped."""
    after: str
    """The member that went on; the same one where it got the partition back."""


@dataclass(frozen=True, slots=True)
class Span:
    """A member processed the partition, from its first record until it stopped."""

    partition: int
    member: str
    begin: int
    end: int


@dataclass(slots=True)
class _Track:
    """What is known of one partition as time goes by."""

    owner: str | None = None
    since: int | None = None
    """When its owner read it first; None before that."""
    last_read: int = 0
    stopped: tuple[int, str] | None = None
    """Since when it is dark, and who had it."""

    def stop(self, partition: int, at: int) -> Span | None:
        """Its owner processes it no more; what it did until now."""
        owner, since = self.owner, self.since
        self.owner = self.since = None
        if owner is None or since is None:
            return None
        self.stopped = at, owner
        return Span(partition, owner, since, at)

    def read(self, partition: int, event: Read) -> Dark | None:
        """Its owner read it; the darkness that this ended."""
        self.last_read = event.at
        if self.since is not None:
            return None
        self.since = event.at
        if self.stopped is None:
            return None
        (begin, before), self.stopped = self.stopped, None
        return Dark(partition, begin, event.at, before, event.member)


class Processing:
    """Fed with events in the order of time."""

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self.spans: list[Span] = []
        self.dark: list[Dark] = []
        self._tracks: dict[int, _Track] = defaultdict(_Track)
        self._outages = deque(one.down_until for one in triggers if one.down_until is not None)
        for trigger in triggers:
            for partition in range(*(trigger.opened or (0, 0))):
                self._tracks[partition].stopped = trigger.at, NOBODY

    def hear(self, event: Event) -> None:
        """One more."""
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
        """There is no more: what is processed is so to its last record, what is dark stays so."""
        for partition, track in self._tracks.items():
            if track.since is not None:
                self._stop(partition, track.last_read)
            elif track.stopped is not None:
                begin, before = track.stopped
                self.dark.append(Dark(partition, begin, at, before, NOBODY))

    def _interrupt(self) -> None:
        """The broker was away: nobody lost anything, but nothing was read since its last record."""
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
    """Both in the order in which they ended."""
    found = Processing(triggers)
    for event in ordered:
        found.hear(event)
    if ordered:
        found.end(ordered[-1].at)
    return found.spans, found.dark
