"""Each target of reset-offsets, its meaning in a partition, and its syntax."""

from __future__ import annotations

import pytest

from kohort.cli.offset_targets import (
    Place,
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
    new_offset,
    read_target,
)
from kohort.errors import ConfigError

NOW = 1_795_253_400_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("target", "new"),
    [
        (ToEarliest(), 10),
        (ToLatest(), 90),
        (ToCurrent(), 50),
        (ToOffset(33), 33),
        (ToOffset(9), 10),
        (ToOffset(91), 90),
        (ShiftBy(-5), 45),
        (ShiftBy(5), 55),
        (ShiftBy(-41), 10),
        (ShiftBy(41), 90),
        (ToTime(NOW), 70),
    ],
)
def test_a_target_is_an_offset_that_the_partition_has(target: Target, new: int) -> None:
    assert new_offset(target, Place(committed=50, start=10, end=90, at_time=70)) == new


@pytest.mark.parametrize(("target", "new"), [(ToCurrent(), 90), (ToOffset(33), 33), (ShiftBy(0), None)])
def test_partitions_without_committed_offsets(target: Target, new: int | None) -> None:
    assert new_offset(target, Place(committed=None, start=10, end=90)) == new


def test_after_the_last_record_is_the_end() -> None:
    assert new_offset(ToTime(NOW), Place(committed=50, start=10, end=90, at_time=None)) == 90


def test_a_position_that_retention_has_passed_is_brought_back() -> None:
    assert new_offset(ToCurrent(), Place(committed=3, start=10, end=90)) == 10


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-21T09:30:00.000", NOW),  # UTC, as in Kafka's tools
        ("2026-11-21T09:30:00Z", NOW),
        ("2026-11-21T11:30:00+02:00", NOW),
        ("1969-01-01T00:00:00", 0),
    ],
)
def test_times(text: str, at: int) -> None:
    assert read_target({"--to-datetime": text}, NOW) == ToTime(at)


@pytest.mark.parametrize(
    ("text", "ago"),
    [("PT1H", HOUR), ("P1D", 24 * HOUR), ("P1DT2H30M1.5S", 26 * HOUR + 1_801_500), ("pt0s", 0), ("P999999D", NOW)],
)
def test_durations(text: str, ago: int) -> None:
    assert read_target({"--by-duration": text}, NOW) == ToTime(NOW - ago)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1", "1D", "P1H", "PT1D", "P1DT", "-PT1H"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ConfigError, match="ISO 8601"):
        read_target({"--by-duration": text}, NOW)


def test_a_zero_is_a_target_too() -> None:
    assert read_target({"--to-latest": False, "--to-offset": 0, "--shift-by": None}, NOW) == ToOffset(0)
    assert read_target({"--shift-by": 0}, NOW) == ShiftBy(0)
