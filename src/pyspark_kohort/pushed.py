"""What the filters of a batch query leave to read. Pure.

Spark applies every filter again to the rows that come, so what is not understood here costs time and no more. Kafka
finds the first record at or after a time, and no last one: records need not be in the order of their times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kohort.model import Millis, TopicPartition
from pyspark_kohort.plan import Range


@dataclass(slots=True)
class Pushed:
    """All filters together: None is no bound. Offsets from `first` up to, not including, `until`."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    until: int | None = None
    since: Millis | None = None
    """Records before that time are of no use."""

    def reads(self, tp: TopicPartition) -> bool:
        return (self.topics is None or tp.topic in self.topics) and (
            self.partitions is None or tp.partition in self.partitions
        )

    def clipped(self, part: Range) -> Range:
        until = part.until if self.until is None else min(part.until, self.until)
        return replace(part, start=max(part.start, self.first), until=until)


def pushed(filters: Iterable[Filter]) -> Pushed:
    """All of them hold: Spark hands over what is joined by AND."""
    found = Pushed()
    for one in filters:
        _narrow(found, one)
    return found


def _narrow(found: Pushed, one: Filter) -> None:
    match one:
        case In(attribute=(column,), value=values):
            _among(found, column, values)
        case EqualTo(attribute=(column,), value=value) | EqualNullSafe(attribute=(column,), value=value):
            _among(found, column, (value,))
            _at_least(found, column, value)
            _at_most(found, column, value)
        case GreaterThanOrEqual(attribute=(column,), value=value):
            _at_least(found, column, value)
        case GreaterThan(attribute=(column,), value=value):
            _at_least(found, column, value + 1 if isinstance(value, int) else value)
        case LessThanOrEqual(attribute=(column,), value=value):
            _at_most(found, column, value)
        case LessThan(attribute=(column,), value=value):
            _at_most(found, column, value - 1 if isinstance(value, int) else value)


def _among(found: Pushed, column: str, values: Iterable[object]) -> None:
    match column:
        case "topic":
            chosen = frozenset(value for value in values if isinstance(value, str))
            found.topics = chosen if found.topics is None else found.topics & chosen
        case "partition":
            numbers = frozenset(value for value in values if isinstance(value, int))
            found.partitions = numbers if found.partitions is None else found.partitions & numbers


def _at_least(found: Pushed, column: str, value: object) -> None:
    match column, value:
        case "offset", int(offset):
            found.first = max(found.first, offset)
        case "timestamp", datetime() as time:
            found.since = max(found.since or 0, _millis(time))


def _at_most(found: Pushed, column: str, value: object) -> None:
    match column, value:
        case "offset", int(offset):
            found.until = offset + 1 if found.until is None else min(found.until, offset + 1)


def _millis(time: datetime) -> Millis:
    """The time's millisecond, which begins before the time or at it; without a zone it is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
