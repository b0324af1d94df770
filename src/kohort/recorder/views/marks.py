"""Marks of rebalances in a picture: which have a number, and the sentence that explains each."""

from collections.abc import Sequence
from dataclasses import dataclass

from kohort.model import Millis
from kohort.recorder.record import RebalanceRecord
from kohort.recorder.views.member_labels import seconds
from kohort.recorder.views.printing import clock, why

MOST_NUMBERED = 30
"""Maximum number of rebalances for which the marks have numbers. With more of them, none has."""
_MOST_LISTED = 12


@dataclass(frozen=True, slots=True)
class Mark:
    """A rebalance, with its follow-ups."""

    at: Millis
    records: tuple[RebalanceRecord, ...]
    empty_ms: int | None = None
    """Time without members before the rebalance, in milliseconds; None if the group had members."""

    @property
    def dark(self) -> list[int]:
        """Dark times of partitions, in milliseconds. Time without members is not dark."""
        if self.empty_ms is not None:
            return []
        return [c.dark_ms for record in self.records for c in record.partitions if c.dark_ms is not None]


@dataclass(frozen=True, slots=True)
class Line:
    """A line below the picture."""

    number: str
    text: str


def marks(records: Sequence[RebalanceRecord]) -> list[Mark]:
    """Return one mark per rebalance, in order of time. A follow-up belongs to the rebalance before it."""
    found: list[Mark] = []
    emptied_at: Millis | None = None
    for record in records:
        if record.follow_up_of is not None and found:
            found[-1] = Mark(found[-1].at, (*found[-1].records, record), found[-1].empty_ms)
        else:
            at = record.started_at or record.ended_at
            found.append(Mark(at, (record,), None if emptied_at is None else max(0, at - emptied_at)))
        if record.members_after:
            emptied_at = None
        elif emptied_at is None:
            emptied_at = record.started_at or record.ended_at
    return found


def lines(shown: Sequence[Mark], known: dict[str, str]) -> list[Line]:
    """Return the lines that explain the marks.

    If there are too many marks for numbers, the lines list those with the longest dark time.
    """
    if len(shown) <= MOST_NUMBERED:
        return [Line(str(number), _explained(mark, known)) for number, mark in enumerate(shown, start=1)]
    costly = sorted(shown, key=lambda mark: -sum(mark.dark))[:_MOST_LISTED]
    head = f"Of {len(shown)} rebalances, these {len(costly)} have the longest dark time:"
    return [Line("", head), *(Line("", _explained(mark, known)) for mark in shown if mark in costly)]


def _explained(mark: Mark, known: dict[str, str]) -> str:
    """Return the time, cause and cost of a rebalance, including its follow-ups."""
    first, last = mark.records[0], mark.records[-1]
    generations = f"generation {first.generation}"
    if last.generation != first.generation:
        generations = f"generations {first.generation} to {last.generation}"
    return f"{clock(mark.at)}  {why(first, known)}  –  {_cost(mark)} ({generations})"


def _cost(mark: Mark) -> str:
    if not mark.records[-1].members_after:
        return "no member is left"
    changes = [change for record in mark.records for change in record.partitions]
    if mark.empty_ms is not None:
        return f"{len(changes)} assigned after {seconds(mark.empty_ms)} without members"
    moved = sum(len(record.moved) for record in mark.records)
    fresh = sum(change.previous_owner is None for change in changes)
    cost = f"{fresh} assigned" if fresh and not moved else f"{moved} moved"
    return f"{cost}, " + (f"dark for {seconds(max(mark.dark))} at most" if mark.dark else "nothing dark")
