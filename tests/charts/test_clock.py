"""Ticks at round times of the local clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from kohort.charts import clock_ticks, zone

AT = int(datetime(2026, 3, 14, 9, 59, 58, tzinfo=UTC).timestamp() * 1000)
KATHMANDU = timezone(timedelta(hours=5, minutes=45), "+0545")
HOUR = 3_600_000


def labels(begin: int, end: int) -> list[str]:
    return [tick.label for tick in clock_ticks(begin, end, most=4, local=UTC)]


def test_ticks_are_as_fine_as_the_period_needs() -> None:
    assert labels(AT, AT + 8_000) == ["09:59:58", "10:00:00", "10:00:02", "10:00:04", "10:00:06"]
    assert labels(AT, AT + 4 * 60_000) == ["10:00", "10:01", "10:02", "10:03"]
    assert labels(AT + 10, AT + 300) == ["09:59:58.1", "09:59:58.2", "09:59:58.3"]
    assert labels(AT, AT + 8) == ["09:59:58.000", "09:59:58.002", "09:59:58.004", "09:59:58.006", "09:59:58.008"]


def test_ticks_of_several_days_have_the_date_once_a_day() -> None:
    assert labels(AT, AT + 24 * HOUR) == ["12:00\n2026-03-14", "18:00", "00:00\n2026-03-15", "06:00"]
    assert labels(AT, AT + 3 * 24 * HOUR) == ["2026-03-15", "2026-03-16", "2026-03-17"]
    assert zone(AT, AT + 24 * HOUR, local=UTC) == "UTC"
    assert zone(AT, AT + HOUR, local=UTC) == "2026-03-14, UTC"


def test_ticks_are_round_in_the_local_zone() -> None:
    ticks = clock_ticks(AT, AT + 8 * HOUR, most=4, local=KATHMANDU)
    assert [tick.label for tick in ticks] == ["16:00", "18:00", "20:00", "22:00"]
    assert zone(AT, AT, local=KATHMANDU) == "2026-03-14, +0545"


def test_no_period_has_more_ticks_than_fit() -> None:
    for length in (0, 1, 7, 999, 12_345, 10**6, 10**9, 10**11):
        assert len(clock_ticks(AT, AT + length, most=5)) <= 6
