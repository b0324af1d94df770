"""Filters on what a batch reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from kohort.model import TopicPartition
from pyspark_kohort import DefaultSource
from pyspark_kohort.columns import COLUMNS
from pyspark_kohort.source.filter_pushdown import PushedFilters, pushed
from pyspark_kohort.source.plan import Range
from tests.spark.conftest import Topic, rows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([], PushedFilters()),
        ([EqualTo(("partition",), 3)], PushedFilters(partitions=frozenset({3}))),
        (
            [In(("partition",), (1, 2, 3)), In(("partition",), (2, 3, 4)), EqualTo(("topic",), "a")],
            PushedFilters(topics=frozenset({"a"}), partitions=frozenset({2, 3})),
        ),
        ([GreaterThan(("offset",), 5), LessThan(("offset",), 9)], PushedFilters(first=6, until=9)),
        ([GreaterThanOrEqual(("offset",), 5), LessThanOrEqual(("offset",), 9)], PushedFilters(first=5, until=10)),
        ([EqualTo(("offset",), 7)], PushedFilters(first=7, until=8)),
        ([GreaterThan(("timestamp",), NOON)], PushedFilters(since=NOON_MS)),
        ([GreaterThanOrEqual(("timestamp",), NOON.replace(tzinfo=None))], PushedFilters(since=NOON_MS)),
        ([EqualTo(("timestamp",), NOON.astimezone(timezone(timedelta(hours=5))))], PushedFilters(since=NOON_MS)),
        ([LessThan(("timestamp",), NOON)], PushedFilters()),
        ([Not(EqualTo(("partition",), 3)), IsNotNull(("value",)), EqualTo(("headers", "key"), "a")], PushedFilters()),
    ],
)
def test_filters_narrow_what_they_are_about(filters: list[Filter], found: PushedFilters) -> None:
    assert pushed(filters) == found


def test_a_range_is_clipped_and_a_partition_left_out() -> None:
    found = PushedFilters(topics=frozenset({"a"}), partitions=frozenset({1}), first=5, until=9)
    assert found.clipped(Range("a", 1, 0, 100)) == Range("a", 1, 5, 9)
    assert found.clipped(Range("a", 1, 7, 8)) == Range("a", 1, 7, 8)
    assert [found.reads(TopicPartition(*tp)) for tp in (("a", 1), ("a", 2), ("b", 1))] == [True, False, False]


def test_a_reader_fetches_only_what_the_filters_leave(bootstrap: str) -> None:
    topic = Topic(bootstrap, 3)
    topic.produce(rows(30, 3))
    options = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name, "filterPushdown": "true"}

    def planned(*filters: Filter) -> list[Range]:
        reader = DefaultSource(options).reader(COLUMNS)
        assert list(reader.pushFilters(list(filters))) == list(filters), "Spark applies them again"
        return [replace(part, topic_id=None) for task in reader.partitions() for part in task.value]

    assert planned(EqualTo(("partition",), 1), GreaterThan(("offset",), 3)) == [Range(topic.name, 1, 4, 10)]
    written = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert len(planned(GreaterThanOrEqual(("timestamp",), written))) == 3
    assert planned(GreaterThanOrEqual(("timestamp",), written + timedelta(seconds=1))) == []
