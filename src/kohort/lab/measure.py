"""Measures of a trial, computed from its members' events as the project's design defines them.

A partition is *dark* from the moment its owner stops processing it (revoked, closed, crashed) until
the next owner reads its first record of it. A member is *paused* while it is in the group but may
process nothing: between losing its last partition and being ready with new ones, and in the
callbacks that restore and flush, in which it does not poll.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kohort.lab.events import Assigned, Committed, Event, Gone, Joining, Lost, Read, Ready, Restored, Revoked
from kohort.lab.lab_group import Trigger
from kohort.lab.processing import Dark, Span, processing

Interval = tuple[int, int]
"""Start and end, in monotonic nanoseconds."""


@dataclass(slots=True)
class Reading:
    """Number of records that the group did not read exactly once and in order."""

    duplicated: int = 0
    committed_again: int = 0
    """Number of duplicated records that a commit had covered."""
    skipped: int = 0
    out_of_order: int = 0


@dataclass(slots=True)
class Measures:
    """Measures of one trial from its first trigger on. Lists are in order of time."""

    dark: list[Dark] = field(default_factory=list)
    pauses: dict[str, list[Interval]] = field(default_factory=dict)
    """Pauses by member."""
    first_assignments: dict[str, int] = field(default_factory=dict)
    """Nanoseconds from joining to the first partition, by started member."""
    walls: list[int | None] = field(default_factory=list)
    """Nanoseconds until the group settled, by trigger; None if it did not settle in time."""
    after_joins: list[int] = field(default_factory=list)
    """Nanoseconds from the last started member's join until the group settled, for triggers with both."""
    rebalances: list[int] = field(default_factory=list)
    """Largest number of assignments that a member received, by trigger."""
    restored: int = 0
    """Number of changelog records read before new partitions could be processed."""
    reading: Reading = field(default_factory=Reading)
    spans: list[Span] = field(default_factory=list)
    """Spans from the group's start, for the figure."""


def measure(events: Iterable[Event], triggers: Sequence[Trigger]) -> Measures:
    """Return all measures of one trial."""
    ordered = sorted(events, key=lambda event: event.at)
    begin = triggers[0].at if triggers else 0
    spans, dark = processing(ordered, triggers)
    return Measures(
        dark=[interval for interval in dark if interval.end >= begin],
        pauses={name: found for name, found in _pauses(ordered, begin).items() if found},
        first_assignments=_first_assignments(ordered, begin),
        walls=[None if trigger.settled_at is None else max(0, trigger.settled_at - trigger.at) for trigger in triggers],
        after_joins=_after_joins(ordered, triggers),
        rebalances=_rebalances(ordered, triggers),
        restored=sum(event.records for event in ordered if isinstance(event, Restored) and event.at >= begin),
        reading=_reading(ordered),
        spans=spans,
    )


def _pauses(ordered: Sequence[Event], begin: int) -> dict[str, list[Interval]]:
    """Return the pauses by member. A member is not paused before its first partition or after it has left."""
    found: dict[str, list[Interval]] = defaultdict(list)
    owned: dict[str, set[int]] = defaultdict(set)
    had: set[str] = set()
    paused_at: dict[str, int] = {}
    for event in ordered:
        name = event.member
        match event:
            case Assigned():
                owned[name].update(event.partitions)
            case Revoked() | Lost():
                owned[name].difference_update(event.partitions)
        match event:
            case Assigned() | Revoked() | Lost() if name in had:
                paused_at.setdefault(name, event.at)
            case Ready():
                had.update([name] if owned[name] else [])
                if owned[name] and name in paused_at:
                    found[name].append((paused_at.pop(name), event.at))
            case Gone():
                paused_at.pop(name, None)
                owned[name].clear()
                had.discard(name)  # the process that is started in its place has the same name
    return {name: [interval for interval in intervals if interval[1] >= begin] for name, intervals in found.items()}


def _first_assignments(ordered: Sequence[Event], begin: int) -> dict[str, int]:
    joined: dict[str, int] = {}
    found: dict[str, int] = {}
    for event in ordered:
        if isinstance(event, Joining) and event.at >= begin:
            joined[event.member] = event.at
        elif isinstance(event, Assigned) and event.partitions and event.member in joined:
            found.setdefault(event.member, event.at - joined[event.member])
    return found


def _after_joins(ordered: Sequence[Event], triggers: Sequence[Trigger]) -> list[int]:
    found = []
    for trigger in triggers:
        if trigger.settled_at is not None:
            joins = [e.at for e in ordered if isinstance(e, Joining) and trigger.at <= e.at <= trigger.settled_at]
            found += [trigger.settled_at - max(joins)] if joins else []
    return found


def _rebalances(ordered: Sequence[Event], triggers: Sequence[Trigger]) -> list[int]:
    ends = [*(trigger.at for trigger in triggers[1:]), ordered[-1].at + 1 if ordered else 0]
    counts = []
    for trigger, end in zip(triggers, ends, strict=False):
        told: dict[str, int] = defaultdict(int)
        for event in ordered:
            if isinstance(event, Assigned) and trigger.at <= event.at < end:
                told[event.member] += 1
        counts.append(max(told.values(), default=0))
    return counts


def _reading(ordered: Sequence[Event]) -> Reading:
    reading = Reading()
    following: dict[int, int] = {}
    committed: dict[int, int] = {}
    mine: dict[tuple[str, int], int] = {}
    """Next offset to read, by member and partition that the member has kept."""
    for event in ordered:
        match event:
            case Assigned() | Revoked() | Lost():
                for partition in event.partitions:
                    mine.pop((event.member, partition), None)
            case Committed():
                for partition, end in event.ends:
                    committed[partition] = max(end, committed.get(partition, 0))
            case Read():
                for partition, first, last in event.runs:
                    reading.committed_again += max(0, min(committed.get(partition, 0), last + 1) - first)
                    expected = following.get(partition, 0)
                    reading.skipped += max(0, first - expected)
                    reading.duplicated += max(0, min(expected, last + 1) - first)
                    reading.out_of_order += first < mine.get((event.member, partition), first)
                    following[partition] = max(expected, last + 1)
                    mine[event.member, partition] = last + 1
    return reading
