"""Measures of members' events, from histories of a few lines, with milliseconds as the unit of time."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.lab.events import (
    Assigned,
    Committed,
    Event,
    Gone,
    Joining,
    Lost,
    Read,
    Ready,
    Restored,
    Revoked,
    Serving,
    line,
    parse,
)
from kohort.lab.lab_group import Trigger
from kohort.lab.measure import Measures, measure
from kohort.lab.processing import NOBODY

MS = 1_000_000


def test_a_partition_is_dark_from_its_owners_stop_to_the_next_owners_first_record() -> None:
    measured = _measured(
        [*_owns(0, "a", 1), Revoked(100 * MS, "a", (1,)), Assigned(150 * MS, "b", (1,)), _read(180, "b", 1, 5)],
        triggered_at=90,
    )
    assert [
        (interval.partition, _ms(interval.begin, interval.end), interval.before, interval.after)
        for interval in measured.dark
    ] == [(1, 80, "a", "b")]


def test_an_eager_member_that_gets_its_partition_back_was_dark_too() -> None:
    measured = _measured(
        [*_owns(0, "a", 1), Revoked(100 * MS, "a", (1,)), Assigned(400 * MS, "a", (1,)), _read(410, "a", 1, 5)],
        triggered_at=90,
    )
    assert [(interval.before, interval.after, _ms(interval.begin, interval.end)) for interval in measured.dark] == [
        ("a", "a", 310)
    ]


def test_a_killed_member_stops_when_it_is_killed() -> None:
    measured = _measured(
        [*_owns(0, "a", 1), Gone(100 * MS, "a", True), Assigned(900 * MS, "b", (1,)), _read(1000, "b", 1, 3)],
        triggered_at=90,
    )
    assert [_ms(interval.begin, interval.end) for interval in measured.dark] == [900]


def test_dark_time_continues_through_an_owner_that_reads_nothing() -> None:
    told: list[Event] = [*_owns(0, "a", 1), Revoked(100 * MS, "a", (1,)), Assigned(110 * MS, "b", (1,))]
    told += [Revoked(120 * MS, "b", (1,)), Assigned(300 * MS, "c", (1,)), _read(350, "c", 1, 3)]
    assert [
        (interval.before, interval.after, _ms(interval.begin, interval.end))
        for interval in _measured(told, triggered_at=90).dark
    ] == [("a", "c", 250)]


def test_dark_time_needs_a_previous_owner() -> None:
    assert _measured(_owns(500, "a", 1), triggered_at=1).dark == []


def test_a_new_partition_is_dark_until_it_is_read() -> None:
    told: list[Event] = [*_owns(0, "a", 1), Assigned(400 * MS, "a", (2,)), _read(450, "a", 2, 0)]
    measured = measure(told, [Trigger(100 * MS, "one becomes three", opened=(2, 4))])
    # Nobody reads the other one to the end.
    assert [(interval.partition, _ms(interval.begin, interval.end), interval.after) for interval in measured.dark] == [
        (2, 350, "a"),
        (3, 350, NOBODY),
    ]


def test_a_broker_that_is_away_darkens_what_is_read_from_it_from_its_last_record() -> None:
    told = [*_owns(0, "a", 1), _read(95, "a", 1, 1), _read(900, "a", 1, 2)]
    measured = measure(told, [Trigger(100 * MS, "broker killed", down_until=700 * MS)])
    assert [(interval.before, interval.after, _ms(interval.begin, interval.end)) for interval in measured.dark] == [
        ("a", "a", 805)
    ]
    assert measured.rebalances == [0]


def test_a_pause_lasts_from_the_loss_of_all_to_being_ready_again() -> None:
    told: list[Event] = [*_owns(0, "a", 1), Revoked(100 * MS, "a", (1,)), Ready(110 * MS, "a")]
    told += [Assigned(400 * MS, "a", (1,)), Ready(450 * MS, "a")]
    assert _pauses(told) == {"a": [350]}


def test_a_member_that_keeps_something_is_paused_only_in_its_callbacks() -> None:
    told: list[Event] = [*_owns(0, "a", 1, 2), Revoked(100 * MS, "a", (1,)), Ready(105 * MS, "a")]
    told += [Assigned(3000 * MS, "a", (3,)), Ready(3020 * MS, "a")]
    assert _pauses(told) == {"a": [5, 20]}


def test_a_member_that_starts_or_leaves_is_not_paused() -> None:
    started: list[Event] = [Joining(100 * MS, "b"), Assigned(200 * MS, "b", ()), Ready(200 * MS, "b")]
    started += [Assigned(3000 * MS, "b", (1,)), Ready(3010 * MS, "b")]
    left: list[Event] = [
        *_owns(0, "a", 1),
        Revoked(100 * MS, "a", (1,)),
        Ready(110 * MS, "a"),
        Gone(120 * MS, "a", False),
    ]
    assert _pauses([*left, *started]) == {}


def test_a_pause_that_ended_before_the_trigger_does_not_count() -> None:
    told: list[Event] = [*_owns(0, "a", 1), Revoked(50 * MS, "a", (1,)), Assigned(60 * MS, "a", (1,))]
    assert _pauses([*told, Ready(89 * MS, "a")]) == {}
    assert _pauses([*told, Ready(90 * MS, "a")]) == {"a": [40]}


def test_a_restarted_member_is_a_new_one_and_not_paused_before_its_first_partition() -> None:
    told: list[Event] = [*_owns(0, "a", 1), Revoked(100 * MS, "a", (1,)), Gone(120 * MS, "a", False)]
    told += [Joining(500 * MS, "a"), Assigned(600 * MS, "a", (1,)), Ready(700 * MS, "a")]
    assert _pauses(told) == {}
    killed: list[Event] = [*_owns(0, "a", 1), Gone(120 * MS, "a", True), Joining(500 * MS, "a")]
    killed += [Assigned(550 * MS, "a", ()), Ready(560 * MS, "a"), Assigned(600 * MS, "a", (1,))]
    assert _pauses([*killed, Ready(700 * MS, "a")]) == {}


def test_of_members_that_join_together_the_last_one_counts() -> None:
    told: list[Event] = [Joining(700 * MS, "b"), Joining(760 * MS, "c"), Assigned(900 * MS, "b", (1,))]
    measured = measure(told, [Trigger(100 * MS, "two join", settled_at=950 * MS)])
    assert measured.after_joins == [190 * MS]


def test_a_started_members_wait_ends_with_its_first_partition() -> None:
    told: list[Event] = [Joining(100 * MS, "b"), Assigned(200 * MS, "b", ()), Assigned(900 * MS, "b", (1,))]
    assert _measured(told, triggered_at=50).first_assignments == {"b": 800 * MS}


def test_how_long_it_took_after_the_join_leaves_out_the_start_of_the_process() -> None:
    told: list[Event] = [*_owns(0, "a", 1), Joining(700 * MS, "b"), Assigned(900 * MS, "b", (1,))]
    measured = measure(told, [Trigger(100 * MS, "one joins", settled_at=950 * MS)])
    assert (measured.walls, measured.after_joins) == ([850 * MS], [250 * MS])


def test_repeated_and_missing_records_are_counted() -> None:
    told: list[Event] = [
        *_owns(0, "a", 1),
        _read(50, "a", 1, 1, 9),
        Lost(60 * MS, "a", (1,)),
        Assigned(70 * MS, "b", (1,)),
    ]
    told += [_read(80, "b", 1, 7, 12), _read(90, "b", 1, 15, 15)]
    reading = _measured(told, triggered_at=40).reading
    assert (reading.duplicated, reading.skipped, reading.out_of_order) == (3, 2, 0)


def test_a_reread_committed_record_is_distinguished_from_an_uncommitted_one() -> None:
    told: list[Event] = [*_owns(0, "a", 1), _read(50, "a", 1, 1, 9), Committed(55 * MS, "a", ((1, 6),))]
    told += [Gone(60 * MS, "a", True), Assigned(70 * MS, "b", (1,)), _read(80, "b", 1, 6, 12)]
    reading = _measured(told, triggered_at=40).reading
    assert (reading.duplicated, reading.committed_again) == (4, 0)
    told += [Assigned(90 * MS, "c", (1,)), _read(95, "c", 1, 4, 12)]
    assert _measured(told, triggered_at=40).reading.committed_again == 2


def test_a_commit_that_is_lower_does_not_make_records_uncommitted() -> None:
    told: list[Event] = [*_owns(0, "a", 1), _read(50, "a", 1, 1, 9), Committed(55 * MS, "a", ((1, 8),))]
    told += [Committed(56 * MS, "a", ((1, 3),)), Assigned(70 * MS, "b", (1,)), _read(80, "b", 1, 6, 12)]
    assert _measured(told, triggered_at=40).reading.committed_again == 2


def test_going_back_without_a_new_assignment_is_out_of_order() -> None:
    told = [*_owns(0, "a", 1), _read(50, "a", 1, 1, 9), _read(60, "a", 1, 4, 10)]
    reading = _measured(told, triggered_at=40).reading
    assert (reading.duplicated, reading.out_of_order) == (6, 1)


def test_rebalances_are_those_that_the_member_saw_that_saw_most() -> None:
    told = [*_owns(0, "a", 1), *(Assigned(at * MS, "a", ()) for at in (100, 200)), Assigned(150 * MS, "b", (2,))]
    assert _measured(told, triggered_at=90).rebalances == [2]


def test_every_event_survives_its_line() -> None:
    told: list[Event] = [Joining(1, "a"), Assigned(2, "a", (1, 2)), Ready(3, "a"), Revoked(4, "a", (1,))]
    told += [Lost(5, "a", (2,)), Read(6, "a", ((1, 0, 9), (2, 4, 4))), Serving(7, "a", 1234), Gone(8, "a", True)]
    told += [Committed(9, "a", ((1, 6), (2, 0))), Restored(9, "a", 7)]
    assert [parse(line(event)) for event in told] == told


def _owns(at: int, member: str, *partitions: int) -> list[Event]:
    runs = tuple((partition, 0, 0) for partition in partitions)
    return [Assigned(at * MS, member, partitions), Ready((at + 1) * MS, member), Read((at + 2) * MS, member, runs)]


def _read(at: int, member: str, partition: int, first: int, last: int | None = None) -> Event:
    return Read(at * MS, member, ((partition, first, first if last is None else last),))


def _measured(told: Sequence[Event], triggered_at: int) -> Measures:
    return measure(told, [Trigger(triggered_at * MS, "something", None)])


def _pauses(told: Sequence[Event]) -> dict[str, list[int]]:
    measured = _measured(told, triggered_at=90)
    return {name: [_ms(*pause) for pause in found] for name, found in measured.pauses.items()}


def _ms(begin: int, end: int) -> int:
    return (end - begin) // MS
