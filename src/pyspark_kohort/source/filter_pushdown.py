"""Reduction of the ranges of a batch query by its filters. Pure.

Spark applies every filter to the rows again, so a filter that is not understood here only costs
time. Kafka finds the first record at or after a time, but not the last one: records need not be
ordered by time.
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
from pyspark_kohort.source.plan import Range


@dataclass(slots=True)
class PushedFilters:
    """Conjunction of all filters; None means no bound. Offsets are at least `first` and less than `until`."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    until: int | None = None
    since: Millis | None = None
    """Lower bound of timestamps: earlier records do not match."""

    def reads(self, tp: TopicPartition) -> bool:
        return (self.topics is None or tp.topic in self.topics) and (
            self.partitions is None or tp.partition in self.partitions
        )

    def clipped(self, part: Range) -> Range:
        until = part.until if self.until is None else min(part.until, self.until)
        return replace(part, start=max(part.start, self.first), until=until)


def pushed(filters: Iterable[Filter]) -> PushedFilters:
    """Combine the filters, which Spark joins by AND."""
    found = PushedFilters()
    for condition in filters:
        _narrow(found, condition)
    return found


def _narrow(found: PushedFilters, condition: Filter) -> None:
    match condition:
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


def _among(found: PushedFilters, column: str, values: Iterable[object]) -> None:
    match column:
        case "topic":
            chosen = frozenset(value for value in values if isinstance(value, str))
            found.topics = chosen if found.topics is None else found.topics & chosen
        case "partition":
            numbers = frozenset(value for value in values if isinstance(value, int))
            found.partitions = numbers if found.partitions is None else found.partitions & numbers


def _at_least(found: PushedFilters, column: str, value: object) -> None:
    match column, value:
        case "offset", int(offset):
            found.first = max(found.first, offset)
        case "timestamp", datetime() as time:
            found.since = max(found.since or 0, _millis(time))


def _at_most(found: PushedFilters, column: str, value: object) -> None:
    match column, value:
        case "offset", int(offset):
            found.until = offset + 1 if found.until is None else min(found.until, offset + 1)


def _millis(time: datetime) -> Millis:
    """Return the time in milliseconds, rounded down; a time without a zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
