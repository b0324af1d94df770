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


def asked_about(table: EndOffsets, committed: int, timestamps: list[int]) -> None:
    """Ask a log whose records have these timestamps, as the source asks a broker."""
    for _ in range(MOST_QUESTIONS):
        if (time := table.next_time(committed)) is None:
            break
        found = next((EndPoint(at, offset) for offset, at in enumerate(timestamps) if at >= time), None)
        table.insert(time, found)
    table.keep(committed)


def test_a_timestamp_in_the_future_does_not_date_what_arrives_later() -> None:
    now = 1_700_000_000_000
    timestamps = [*range(now - 100_000, now, 1_000), now + 3_600_000]
    table = EndOffsets()
    table.add(now, 101)
    asked_about(table, 50, timestamps)
    table.add(now + 1_000, 101)
    table.add(now + 2_000, 102)
    lag = table.lag(101, now + 62_000)
    assert lag is not None and abs(lag.seconds - 60) <= 1


def test_where_a_timestamp_is_in_the_future_the_first_unread_record_is_read_at_once() -> None:
    # ListOffsets returns the first record at or after a time, so one in the future hides all after it.
    now = 1_700_000_000_000
    timestamps = [*range(now - 600_000, now - 100_000, 1_000)]
    right, wrong = EndOffsets(), EndOffsets()
    for table in (right, wrong):
        table.add(now, 500)
    asked_about(right, 480, timestamps)
    timestamps[20] = now + 3_600_000
    asked_about(wrong, 480, timestamps)
    hidden = wrong.lag(480, now)
    assert hidden is not None and hidden.seconds < 60
    assert (right.misdated, wrong.misdated) == (False, True)
    assert wrong.must_check(480, now)
    wrong.checked(480, EndPoint(timestamps[480], 480), now)
    assert wrong.lag(480, now) == Lag(20, 120.0, LagMethod.TIMESTAMPS)
    assert not wrong.must_check(480, now + 1)


def test_records_that_arrive_between_a_sample_and_a_question_are_not_misdated() -> None:
    now = 1_700_000_000_000
    table = EndOffsets()
    table.add(now, 10)
    asked_about(table, 5, [*range(now - 10_000, now, 1_000), now + 5_000])
    assert not table.misdated


def test_records_without_timestamps_are_as_old_as_the_first_sample_at_least() -> None:
    now = 1_700_000_000_000
    table = EndOffsets()
    table.add(now, 10)
    asked_about(table, 5, [-1] * 10)
    assert table.lag(5, now + 3_000) == Lag(5, 3.0, LagMethod.AT_LEAST)
    assert table.must_check(5, now)
    table.checked(5, EndPoint(-1, 5), now)
    assert table.lag(5, now + 4_000) == Lag(5, 4.0, LagMethod.AT_LEAST)
    assert table.start is None


def test_offsets_behind_which_no_record_is_left_have_no_lag_until_a_record_arrives() -> None:
    # A consumer that commits the offset after its last record never commits the marker of its transaction.
    table = EndOffsets()
    for at, end in ((1_000, 3), (2_000, 4), (100_000, 4)):
        table.add(at, end)
    table.keep(3)
    assert table.must_check(3, 100_000)
    table.nothing_before(3, 4)
    assert table.lag(3, 100_000) == Lag(0, 0.0, LagMethod.CAUGHT_UP)
    assert not table.must_check(3, 200_000)
    table.add(200_000, 4)
    table.add(201_000, 6)
    table.keep(3)
    table.keep_only({3})
    lag = table.lag(3, 210_000)
    assert lag is not None and (lag.records, lag.method) == (2, LagMethod.INTERPOLATED)
    assert abs(lag.seconds - 9.5) <= 0.5
    assert table.must_check(3, 300_000)
    table.checked(3, EndPoint(200_400, 4), 300_000)
    assert table.lag(3, 300_000) == Lag(3, 99.6, LagMethod.TIMESTAMPS)


def test_a_marker_at_the_end_is_found_soon_and_in_a_log_with_markers_at_once() -> None:
    table = EndOffsets()
    for at, end in ((1_000, 3), (2_000, 4)):
        table.add(at, end)
    table.keep(3)
    assert not table.must_check(3, 2_000)
    assert table.must_check(3, 3_000)
    table.nothing_before(3, 4)
    table.add(10_000, 4)
    table.add(11_000, 6)
    table.keep(5)
    table.keep(4)
    assert table.must_check(5, 11_000)
    assert not table.must_check(4, 11_000)  # more than a marker is unread
    table.checked(5, EndPoint(10_900, 5), 11_000)
    assert not table.must_check(5, 11_000)


def test_a_log_without_markers_is_looked_at_once_a_minute() -> None:
    table = EndOffsets()
    for at, end in ((1_000, 3), (2_000, 4)):
        table.add(at, end)
    table.keep(3)
    table.checked(3, EndPoint(1_500, 3), 3_000)
    table.add(5_000, 5)
    table.keep(4)
    assert not table.must_check(4, 60_000)
    assert table.must_check(4, 65_000)


def test_a_truncated_log_may_have_records_where_there_were_none() -> None:
    table = EndOffsets()
    table.add(1_000, 4)
    table.nothing_before(2, 4)
    table.start = 1
    table.add(2_000, 1)
    table.add(3_000, 4)
    lag = table.lag(2, 5_000)
    assert lag is not None and lag.records == 2
    assert table.start is None


def test_what_is_known_of_single_offsets_is_bounded() -> None:
    table = EndOffsets()
    table.add(1_000, 10_000)
    for committed in range(1_000):
        table.nothing_before(committed, 10_000)
    assert [
        committed for committed in range(1_000) if table.lag(committed, 1_000) == Lag(0, 0.0, LagMethod.CAUGHT_UP)
    ] == [*range(744, 1_000)]


def test_after_the_clock_was_set_only_the_newest_end_is_known() -> None:
    table = EndOffsets()
    for at, end in ((5_000, 3), (6_000, 4), (7_000, 9)):
        table.add(at, end)
    table.keep(3)
    table.forget_times(1_000)
    assert table.points == [EndPoint(1_000, 9)]
    assert table.lag(3, 3_000) == Lag(6, 2.0, LagMethod.AT_LEAST)
    assert table.next_time(3) is not None


def test_samples_bound_the_time_at_which_a_record_arrived() -> None:
    table = EndOffsets()
    for at, end in ((1_000, 5), (2_000, 6), (3_000, 9)):
        table.add(at, end)
    assert table.arrived(4) == (None, 1_000)
    assert table.arrived(5) == (1_000, 2_000)
    assert table.arrived(6) == table.arrived(8) == (2_000, 3_000)
    assert table.arrived(9) == (3_000, None)
