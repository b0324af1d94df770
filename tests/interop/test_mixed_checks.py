"""The checks of the mixed group's history find what they are for."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.interop.mixed.checks import (
    commits_going_back,
    generations_going_back,
    given_twice,
    misassigned,
    owned_twice,
    read_again,
    unread,
    wrong_records,
)
from tests.interop.mixed.clients.said import runs
from tests.interop.mixed.events import Assigned, Committed, Event, Lost, Read, Revoked, Span, Wrong, parse
from tests.interop.mixed.offsets_log import Generation


@dataclass(frozen=True, slots=True)
class Life:
    """A member that was invented."""

    name: str
    events: tuple[Event, ...]
    killed_at: int | None = None


def had(name: str, *, since: int, until: int | None = None, killed_at: int | None = None) -> Life:
    """It owned partition 0."""
    end = () if until is None else (Revoked(until, frozenset({0})),)
    return Life(name, (Assigned(since, frozenset({0})), *end), killed_at)


def read(name: str, at: int, first: int, last: int, *more: Event, killed_at: int | None = None) -> Life:
    """It was given these offsets of partition 0."""
    return Life(name, (Read(at, (Span(0, first, last),)), *more), killed_at)


def generation(number: int, **owners: set[int]) -> Generation:
    return Generation(number, "range", tuple((name, frozenset(given)) for name, given in owners.items()))


def test_a_partition_changes_hands_only_after_it_was_given_up() -> None:
    assert owned_twice([had("a", since=0, until=10), had("b", since=10, until=20)]) == []
    assert owned_twice([had("a", since=0, until=10), had("b", since=9)]) == [
        "partition 0: b had it 1 ms before a gave it up"
    ]
    assert owned_twice([had("a", since=0), had("b", since=50)]) != []


def test_a_killed_member_owns_nothing() -> None:
    assert owned_twice([had("a", since=0, killed_at=10), had("b", since=6000)]) == []
    assert owned_twice([had("a", since=0, killed_at=7000), had("b", since=6000)]) != []


def test_a_generation_gives_each_partition_once_and_fairly() -> None:
    assert misassigned([generation(1), generation(2, a={0, 1}, b={2})], 3) == []
    assert misassigned([generation(3, a={0, 1}, b={1, 2})], 3) == ["generation 3 gives partitions [0, 1, 1, 2]"]
    assert misassigned([generation(4, a={0}, b={2})], 3) == ["generation 4 gives partitions [0, 2]"]
    assert misassigned([generation(5, a={0, 1, 2}, b=set())], 3) == ["generation 5 gives between 0 and 3 partitions"]


def test_a_cooperative_generation_may_leave_partitions_out_but_gives_none_twice() -> None:
    assert given_twice([generation(1), generation(2, a={0, 1}, b=set())]) == []
    assert given_twice([generation(3, a={0, 1}, b={1})]) == ["generation 3 gives partitions [0, 1, 1]"]


def test_a_leader_that_does_not_know_the_topic_gives_nothing_rather_than_a_part() -> None:
    assert misassigned([generation(1, a=set(), b=set())], 3) == []
    assert misassigned([generation(1, a={0}, b=set())], 3) != []


def test_numbers_and_commits_only_grow() -> None:
    assert generations_going_back([generation(1), generation(1), generation(2)]) == []
    assert generations_going_back([generation(2), generation(1)]) == ["generation 1 follows 2"]
    assert commits_going_back({0: [1, 1, 5], 1: [2]}) == []
    assert commits_going_back({0: [1, 5, 4]}) == ["partition 0: 4 was committed after 5"]


def test_every_record_must_have_been_read() -> None:
    assert unread([read("a", 1, 0, 4), read("b", 2, 5, 9)], {0: 10}) == []
    assert unread([read("a", 1, 0, 4), read("b", 2, 6, 9)], {0: 10}) == ["nobody read partition 0 at offset 5"]
    assert unread([], {1: 1}) == ["nobody read partition 1 at offset 0"]


def test_a_record_comes_again_only_where_its_first_reader_could_not_commit() -> None:
    assert read_again([read("a", 1, 0, 4), read("b", 2, 5, 9)]) == []
    assert read_again([read("a", 1, 0, 4), read("b", 2, 4, 9)]) == ["partition 0 at offset 4: read by a and then by b"]
    assert read_again([read("a", 1, 0, 4, killed_at=2), read("b", 3, 4, 9)]) == []
    assert read_again([read("a", 1, 0, 4, Lost(2, frozenset({0}))), read("b", 3, 4, 9)]) == []
    assert read_again([read("a", 4, 0, 4, killed_at=5), read("b", 3, 4, 9)]) != []


def test_a_record_comes_again_where_the_coordinator_refused_the_commit_until_its_partition_was_given_up() -> None:
    refused, taken, revoked = Committed(2, "ILLEGAL_GENERATION"), Committed(3, ""), Revoked(4, frozenset({0}))
    again = [read("b", 5, 0, 9)]
    assert read_again([read("a", 1, 0, 4, refused, revoked), *again]) == []
    assert read_again([read("a", 1, 0, 4, refused, taken, revoked), *again]) != []
    assert read_again([read("a", 1, 0, 4, taken, refused, revoked), *again]) != []
    assert read_again([read("a", 1, 0, 4, revoked), *again]) != []
    assert read_again([read("a", 1, 0, 4, refused, Revoked(4, frozenset({1}))), *again]) != []
    assert read_again([read("a", 1, 0, 4, refused), *again]) != []


def test_only_a_member_of_librdkafka_may_start_over_and_only_after_a_rebalance() -> None:
    def life(name: str, *later: Event) -> Life:
        return Life(name, (Assigned(1, frozenset({0})), Read(2, (Span(0, 5, 9),)), Committed(3, ""), *later))

    rebalance = Assigned(4, frozenset())
    again, from_elsewhere = Read(5, (Span(0, 5, 7),)), Read(5, (Span(0, 6, 7),))
    commits = {0: [10, 8, 10]}
    started_over = life("librdkafka-1", rebalance, again)
    assert read_again([started_over]) == []
    assert commits_going_back(commits, [started_over]) == []
    assert commits_going_back({0: [11, 8]}, [started_over]) != []
    assert commits_going_back({0: [10, 5]}, [started_over]) != []
    assert commits_going_back({1: [10, 8]}, [started_over]) != []
    for other in (
        life("kafka-python-1", rebalance, again),
        life("librdkafka-1", again),
        life("librdkafka-1", rebalance, from_elsewhere),
        life("librdkafka-1", rebalance, again, again),
    ):
        assert read_again([other]) != []
    assert commits_going_back(commits, [life("librdkafka-1", again)]) != []
    moved = Revoked(4, frozenset({0}))
    assert read_again([life("librdkafka-1", moved, Assigned(4, frozenset({0})), again)]) != []


def test_complaints_of_members_are_reported() -> None:
    assert wrong_records([Life("a", (Wrong(1, "a gap"),))]) == ["a: a gap"]


def test_offsets_that_one_poll_left_out_are_wrong_and_those_that_it_gave_twice_are_read_twice() -> None:
    spots = [(("t", partition), offset) for partition, offset in ((3, 2), (4, 7), (3, 0), (3, 1), (3, 2), (4, 9))]
    read = parse(json.dumps({"timestamp": 1, "name": "records_consumed", "partitions": runs(spots)}))
    assert read == Read(1, (Span(3, 2, 2), Span(4, 7, 7), Span(3, 0, 2), Span(4, 9, 9)))
    assert isinstance(read, Read)
    life = Life("a", (read,))
    assert wrong_records([life]) == ["a: offset 9 of partition 4 after 7"]
    assert read_again([life]) == ["partition 3 at offset 2: read by a and then by a"]


def test_the_lines_of_a_member_are_understood() -> None:
    place = '{"topic": "t", "partition": 3}'
    span = '{"topic": "t", "partition": 3, "count": 5, "minOffset": 10, "maxOffset": 14}'
    record = '"topic": "t", "partition": 3, "offset": 10'
    assert parse(f'{{"timestamp": 1, "name": "partitions_assigned", "partitions": [{place}]}}') == Assigned(
        1, frozenset({3})
    )
    assert parse(f'{{"timestamp": 1, "name": "records_consumed", "partitions": [{span}]}}') == Read(
        1, (Span(3, 10, 14),)
    )
    assert parse('{"timestamp": 1, "name": "offsets_committed", "success": true}') == Committed(1, "")
    assert parse('{"timestamp": 1, "name": "offsets_committed", "success": false}') == Committed(1, "refused")
    assert parse('{"timestamp": 1, "name": "startup_complete"}') is None
    assert parse(f'{{"timestamp": 1, "name": "record_data", {record}, "value": "3:10"}}') is None
    assert isinstance(parse(f'{{"timestamp": 1, "name": "record_data", {record}, "value": "3:9"}}'), Wrong)
    assert isinstance(
        parse(f'{{"timestamp": 1, "name": "records_consumed", "partitions": [{span.replace("14", "15")}]}}'), Wrong
    )
