"""Lag in seconds against the truth: the age of the first unread record."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from kohort.watch import EndOffsets, EndPoint, Lag, LagMethod
from kohort.watch.lag import RELATIVE_ERROR

GAPS = st.lists(st.integers(0, 30_000), min_size=1, max_size=300)
"""Times between records, in milliseconds."""
MOST_QUESTIONS = 60
PERIODS = st.sampled_from([250, 1_000, 15_000])


def sampled(arrivals: list[int], period: int, now: int) -> EndOffsets:
    """What a watcher sees that takes the end offset every period, and now."""
    table = EndOffsets()
    for at in [*range(0, now, period), now]:
        table.add(at, bisect_right(arrivals, at))
    return table


@given(GAPS, PERIODS, st.integers(0, 3_600_000), st.data())
def test_the_lag_is_the_age_of_the_first_unread_record(
    gaps: list[int], period: int, silence: int, data: st.DataObject
) -> None:
    arrivals = list(accumulate(gaps))
    now = arrivals[-1] + silence
    table = sampled(arrivals, period, now)
    committed = data.draw(st.integers(0, len(arrivals)))
    lag = table.lag(committed, now)
    assert lag is not None
    assert lag.records == len(arrivals) - committed
    if committed == len(arrivals):
        assert (lag.seconds, lag.method) == (0.0, LagMethod.CAUGHT_UP)
        return
    age = now - arrivals[committed]
    if lag.method is LagMethod.AT_LEAST:
        assert round(lag.seconds * 1000) <= age  # 524.287 * 1000 is more than 524287
        return
    # The newest point is often closer to the one before than a period.
    assert abs(lag.seconds * 1000 - age) <= max(2 * period, RELATIVE_ERROR * (age + period))


def first_at(arrivals: list[int], kept: int, time: int) -> EndPoint | None:
    """What ListOffsets answers for a log whose first `kept` records are deleted."""
    offset = max(kept, bisect_left(arrivals, time))
    return EndPoint(arrivals[offset], offset) if offset < len(arrivals) else None


@given(GAPS, st.integers(0, 100_000_000), st.data())
def test_timestamps_of_records_make_a_table_where_there_was_none(
    gaps: list[int], silence: int, data: st.DataObject
) -> None:
    arrivals = [1_700_000_000_000 + at for at in accumulate(gaps)]
    now = arrivals[-1] + silence + 1
    kept = data.draw(st.integers(0, len(arrivals) - 1))
    table = EndOffsets()
    table.add(now, len(arrivals))
    for committed in data.draw(st.lists(st.integers(0, len(arrivals)), min_size=1, max_size=3)):
        asked = 0
        while (time := table.next_time(committed)) is not None:
            table.insert(time, first_at(arrivals, kept, time))
            asked += 1
            assert asked < 60
        assert all(a.at <= b.at and a.end <= b.end for a, b in pairwise(table.points))
        lag = table.lag(committed, now)
        assert lag is not None
        if committed == len(arrivals):
            assert lag.method is LagMethod.CAUGHT_UP
        elif committed >= kept:
            assert lag.method is LagMethod.TIMESTAMPS
            assert abs(lag.seconds - (now - arrivals[committed]) / 1000) <= 0.5
        else:  # its first unread record is deleted
            assert lag.method is LagMethod.AT_LEAST
            assert lag.seconds <= (now - arrivals[committed]) / 1000


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50), st.data())
def test_timestamps_in_any_order_end_the_questions(times: list[int], data: st.DataObject) -> None:
    table = EndOffsets()
    table.add(200_000, len(times))
    committed = data.draw(st.integers(0, len(times)))
    asked = 0
    while (time := table.next_time(committed)) is not None and asked < MOST_QUESTIONS:
        found = next((EndPoint(at, offset) for offset, at in enumerate(times) if at >= time), None)
        table.insert(time, found)
        asked += 1
    lag = table.lag(committed, 200_000)
    assert lag is not None and lag.seconds >= 0
    assert all(a.at <= b.at and a.end <= b.end for a, b in pairwise(table.points))


@given(st.lists(st.tuples(st.integers(-5_000, 60_000), st.integers(0, 50)), min_size=1, max_size=200), st.data())
def test_a_lag_is_never_negative_whatever_clocks_and_truncations_do(
    samples: list[tuple[int, int]], data: st.DataObject
) -> None:
    table, at = EndOffsets(), 0
    for step, end in samples:
        at += step
        table.add(at, end)
    assert all(a.at <= b.at and a.end <= b.end for a, b in pairwise(table.points))
    assert table.end == samples[-1][1]
    lag = table.lag(data.draw(st.integers(0, 60)), data.draw(st.integers(-100_000, 100_000_000)))
    assert lag is not None
    assert lag.seconds >= 0 and lag.records >= 0


def test_a_partition_that_stands_still_needs_two_points_and_its_lag_grows() -> None:
    table = EndOffsets()
    for at in range(0, 3_600_000, 1_000):
        table.add(at, 10 if at < 5_000 else 20)
    assert len(table.points) == 4
    lag = table.lag(10, 3_600_000)
    assert lag is not None and 3_595.0 <= lag.seconds <= 3_596.0
    assert table.lag(20, 3_600_000) == Lag(0, 0.0, LagMethod.CAUGHT_UP)


def test_an_offset_older_than_the_table_has_at_least_the_tables_age() -> None:
    table = EndOffsets()
    table.add(10_000, 100)
    assert table.lag(40, 25_000) == Lag(60, 15.0, LagMethod.AT_LEAST)
    assert EndOffsets().lag(40, 25_000) is None


def test_a_week_of_samples_takes_few_points() -> None:
    table, now = EndOffsets(), 0
    for number in range(40_320):
        now = number * 15_000
        table.add(now, number * 1_000 + number % 7)
    assert len(table.points) < 400
    for age in (60_000, 3_600_000, 86_400_000, 500_000_000):
        lag = table.lag((now - age) // 15, now)
        assert lag is not None and lag.method is LagMethod.INTERPOLATED
        assert abs(lag.seconds - age / 1000) <= max(30, RELATIVE_ERROR * age / 1000)


def test_a_record_that_was_sampled_and_then_deleted_is_no_longer_the_first_unread_one() -> None:
    table = EndOffsets()
    for at, end in ((1_000, 4), (2_000, 5), (300_000, 5), (301_000, 6)):
        table.add(at, end)
    table.keep(4)
    lag = table.lag(4, 50_000)
    assert lag is not None and abs(lag.seconds - 48) <= 1
    assert not table.must_check(4, 50_000)
    assert table.must_check(4, 400_000)
    table.checked(4, None, 400_000)  # it may not be read
    assert table.lag(4, 400_000) == Lag(2, 398.5, LagMethod.INTERPOLATED)
    assert not table.must_check(4, 401_000)
    table.checked(4, EndPoint(300_500, 5), 460_000)
    assert table.lag(4, 460_000) == Lag(2, 159.5, LagMethod.TIMESTAMPS)
    assert table.must_check(4, 520_000)


def test_what_is_kept_of_an_offset_survives_thinning_and_ends_with_the_log() -> None:
    table = EndOffsets()
    for at in range(0, 10_000_000, 1_000):
        table.add(at, at // 100)
        if at == 3_000:
            table.keep(25)
    exact = table.lag(25, 10_000_000)
    assert exact is not None and abs(exact.seconds - (10_000 - 2.55)) <= 1
    table.keep_only({25})
    assert table.lag(25, 10_000_000) == exact
    table.add(10_001_000, 10)
    table.add(10_002_000, 30)
    after = table.lag(25, 10_002_000)
    assert after is not None and after.seconds <= 1
