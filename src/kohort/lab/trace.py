"""Trace of one trigger, which shows where the time of a rebalance is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kohort.lab.events import Assigned, Event, Gone, Joining, Lost, Read, Ready, Restored, Revoked
from kohort.lab.trial import Outcome


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A member's action, with its time in milliseconds after the trigger."""

    at_ms: float
    member: str
    what: str


def slowest_trigger(outcome: Outcome) -> int:
    """Return the index of the trigger that took longest; one that never settled counts as the longest."""

    def took(index: int) -> float:
        trigger = outcome.triggers[index]
        return float("inf") if trigger.settled_at is None else trigger.settled_at - trigger.at

    return max(range(len(outcome.triggers)), key=took)


def trace(outcome: Outcome, index: int) -> list[TraceStep]:
    """Return the steps from this trigger to the next.

    Reads appear only with the first records of newly assigned partitions.
    """
    begin = outcome.triggers[index].at
    end = outcome.triggers[index + 1].at if index + 1 < len(outcome.triggers) else None
    ordered = sorted(outcome.events, key=lambda event: event.at)
    return [
        TraceStep((event.at - begin) / 1e6, event.member, what)
        for event, what in _steps(ordered)
        if event.at >= begin and (end is None or event.at < end)
    ]


def _steps(ordered: list[Event]) -> Iterator[tuple[Event, str]]:
    unread: dict[str, set[int]] = {}
    for event in ordered:
        waiting = unread.setdefault(event.member, set())
        match event:
            case Assigned():
                waiting.update(event.partitions)
                yield event, f"assigned {_listed(event.partitions)}"
            case Revoked() | Lost():
                waiting.difference_update(event.partitions)
                yield event, f"{type(event).__name__.lower()} {_listed(event.partitions)}"
            case Read():
                first = sorted(waiting.intersection(partition for partition, _, _ in event.runs))
                waiting.difference_update(first)
                if first:
                    yield event, f"first records of {_listed(first)}"
            case Restored():
                yield event, f"restored {event.records} records of the changelog"
            case Joining() | Ready():
                yield event, type(event).__name__.lower()
            case Gone():
                yield event, "killed" if event.killed else "gone"


def _listed(partitions: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, partitions)) or "nothing"
