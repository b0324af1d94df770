"""Dark times that commits prove: bounds of stops and of first reads, records that are reported again, and their end."""

from __future__ import annotations

import json

import pytest

from kohort.model import TopicPartition
from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.watch import Commit, EndOffsets, GroupFound, WatchedMember
from kohort.watch.commits import Stop, first_read, proves_reading, stopped
from kohort.watch.darkness import MOST_PENDING, WAIT_MS
from kohort.watch.group.state import AWAY
from tests.watch.log import ORDERS, Log, orders


@pytest.fixture
def log() -> Log:
    log = Log()
    log.watcher.name_topics({ORDERS: "orders"})
    return log


def commits(log: Log, partition: int, *times: int, start: int = 0) -> None:
    """Commits that advance by ten records each."""
    for number, at in enumerate(times, start + 1):
        log.commit(at, partition, 10 * number)


def change_of(record: RebalanceRecord, partition: int) -> PartitionChange:
    (found,) = [change for change in record.partitions if change.partition == partition]
    return found


def times_of(record: RebalanceRecord, partition: int) -> tuple[int | None, int | None, int | None]:
    change = change_of(record, partition)
    return change.revoked_at, change.first_read_at, change.dark_ms


def test_the_last_commit_of_an_owner_that_stops_begins_the_dark_time(log: Log) -> None:
    log.generation(1_000, 1, a=(0,))
    commits(log, 0, 3_000, 5_000, 7_000, 9_000, 9_700)  # the last one is made as it stops
    [record] = log.generation(11_000, 2, a=(), b=(0,))
    assert times_of(record, 0) == (9_700, None, None)
    assert log.group.is_pending(record)
    [amended] = log.commit(12_500, 0, 70)
    assert times_of(amended, 0) == (9_700, 11_000, 1_300)  # it read between the assignment and its commit
    assert (amended.generation, amended.ended_at) == (2, 11_000)
    assert list(log.group.rebalances)[-1] == amended
    assert len(log.group.rebalances) == 2
    assert not log.group.is_pending(amended)


def test_a_crashed_owner_stopped_before_its_next_commit(log: Log) -> None:
    log.generation(1_000, 1, a=(), b=(0,))
    commits(log, 0, 3_000, 5_000, 7_000, 9_000)
    [record] = log.generation(54_000, 2, a=(0,))
    # It stopped between its last commit and the one that it did not make.
    assert times_of(record, 0) == (10_000, None, None)
    [amended] = log.commit(55_000, 0, 900)
    assert times_of(amended, 0) == (10_000, 54_000, 44_000)
    # Nothing but the session timeout of the client could tell that it did not stop at the new generation.
    assert change_of(amended, 0).dark_error_ms == 44_000


def test_the_error_is_the_distance_to_the_bounds(log: Log) -> None:
    log.generation(1_000, 1, a=(0,))
    commits(log, 0, 3_000, 5_000, 7_000, 7_500)
    log.generation(8_000, 2, a=(), b=(0,))
    [record] = log.commit(9_000, 0, 900)
    # The stop was from 7.5 s to 8 s, the first read from 8 s to 9 s.
    assert (change_of(record, 0).dark_ms, change_of(record, 0).dark_error_ms) == (500, 1_000)
    assert json.loads(record.to_json())["partitions"][0]["dark_error_ms"] == 1_000
    assert RebalanceRecord.from_json(record.to_json()) == record


def test_members_of_an_eager_group_stop_all_their_partitions(log: Log) -> None:
    log.generation(1_000, 1, a=(0, 1))
    for partition in (0, 1):
        commits(log, partition, 3_000, 5_000, 7_000, 9_000)
    [record] = log.generation(9_500, 2, a=(0,), b=(1,))
    assert [(change.previous_owner, change.owner) for change in record.partitions] == [("a", "a"), ("a", "b")]
    assert len(record.moved) == 1


def test_members_of_a_cooperative_group_go_on(log: Log) -> None:
    log.generation(1_000, 1, "cooperative-sticky", a=(0, 1))
    for partition in (0, 1):
        commits(log, partition, 3_000, 5_000, 7_000, 9_000)
    [taken] = log.generation(10_000, 2, "cooperative-sticky", kept={"a": (0, 1)}, a=(0,), b=())
    assert [(change.partition, change.owner, change.revoked_at) for change in taken.partitions] == [(1, None, None)]
    assert log.group.dark_now == {TopicPartition("orders", 1): 10_000}
    log.commit(10_100, 1, 45)  # as it gives it up
    [given] = log.generation(10_400, 3, "cooperative-sticky", kept={"a": (0,)}, a=(0,), b=(1,))
    assert [(trigger.cause, trigger.member_id) for trigger in given.triggers] == [("owned partitions changed", "a")]
    assert given.follow_up_of == 2
    assert log.group.dark_now == {}
    [amended] = log.commit(11_000, 1, 60)
    assert times_of(amended, 1) == (10_100, 10_400, 300)
    assert change_of(amended, 1).previous_owner == "a"


def test_a_new_owner_that_must_stop_at_once_reads_and_commits_as_it_stops(log: Log) -> None:
    log.generation(1_000, 1, "cooperative-sticky", a=(0,), b=(1,))
    commits(log, 0, 3_000, 5_000, 7_000, 9_000, 9_900)
    log.generation(10_000, 2, "cooperative-sticky", kept={"b": (1,)}, b=(0, 1))
    log.generation(11_000, 3, "cooperative-sticky", kept={"b": (0, 1)}, b=(1,), c=())
    [amended] = log.commit(11_002, 0, 60)
    assert (amended.generation, times_of(amended, 0)) == (2, (9_900, 10_000, 100))
    [given] = log.generation(11_500, 4, "cooperative-sticky", kept={"b": (1,)}, b=(1,), c=(0,))
    assert change_of(given, 0).revoked_at == 11_002
    [amended] = log.commit(12_500, 0, 90)
    assert times_of(amended, 0) == (11_002, 11_500, 498)


def test_the_last_commit_of_an_owner_does_not_shorten_the_usual_interval(log: Log) -> None:
    log.generation(1_000, 1, a=(0,))
    commits(log, 0, 3_000, 3_200)  # it is the second one, so nothing shows that it came early
    log.generation(3_300, 2, b=(0,))
    log.commit(5_300, 0, 40)
    assert log.group.commits[TopicPartition("orders", 0)].usual is None


def test_a_generation_without_changes_after_new_partitions_is_a_member_that_noticed_them_later(log: Log) -> None:
    log.generation(1_000, 1, a=(0,), b=(1,))
    [grown] = log.generation(2_000, 2, a=(0, 2), b=(1,))
    [echo] = log.generation(3_000, 3, a=(0, 2), b=(1,))
    [late] = log.generation(302_001, 4, a=(0, 2), b=(1,))
    assert [[trigger.cause for trigger in record.triggers] for record in (grown, echo, late)] == [
        ["topics changed"],
        ["topics changed"],
        [],
    ]


def test_a_partition_that_waits_for_two_generations_is_not_a_new_one(log: Log) -> None:
    log.generation(1_000, 1, "cooperative-sticky", a=(0, 1), b=(2,))
    log.generation(2_000, 2, "cooperative-sticky", kept={"a": (0, 1), "b": (2,)}, a=(0,), b=(2,))
    log.generation(3_000, 3, "cooperative-sticky", kept={"a": (0,), "b": (2,)}, a=(0,), b=(2,))
    [given] = log.generation(4_000, 4, "cooperative-sticky", kept={"a": (0,), "b": (2,)}, a=(0,), b=(2, 1))
    assert [trigger.cause for trigger in given.triggers] == ["owned partitions changed"]
    [grown] = log.generation(5_000, 5, "cooperative-sticky", kept={"a": (0,), "b": (2, 1)}, a=(0, 3), b=(2, 1))
    assert [trigger.cause for trigger in grown.triggers] == ["topics changed"]


def test_an_owner_in_a_consumer_group_goes_on_until_it_is_told(log: Log) -> None:
    log.member(1_000, "a")
    log.epoch(1_000, 1)
    log.target(1_000, 1)
    log.current(1_000, "a", (0, 1), (0, 1))
    commits(log, 1, 3_000, 5_000)
    log.member(6_000, "b")
    log.epoch(6_000, 2)
    log.target(6_000, 2)
    log.current(6_000, "b", (0, 2), (), waits=True)
    log.current(6_500, "a", (1, 1), (0,), revoking=(1,))
    assert log.group.dark_now == {}
    log.current(7_200, "a", (1, 2), (0,))
    assert log.group.dark_now == {TopicPartition("orders", 1): 7_200}
    assert log.group.members["a"].slowest_revocation_ms == 700
    [record] = log.current(7_300, "b", (2, 2), (1,))
    assert times_of(record, 1) == (6_500, None, None)  # it made no commit after it was told
    assert log.group.dark_now == {}


def test_an_owner_that_may_keep_a_partition_after_all_was_not_told_to_stop(log: Log) -> None:
    log.member(1_000, "a")
    log.epoch(1_000, 1)
    log.target(1_000, 1)
    log.current(1_000, "a", (0, 1), (0, 1))
    commits(log, 1, 3_000, 5_000, 7_000, 9_000)
    log.member(10_000, "b")
    log.epoch(10_000, 2)
    log.target(10_000, 2)
    log.current(10_000, "b", (0, 2), (), waits=True)
    log.current(10_500, "a", (1, 1), (0,), revoking=(1,))
    log.member_deleted(11_000, "b")
    log.epoch(11_000, 3)
    log.target(11_000, 3)
    log.current(11_000, "a", (1, 3), (0, 1))
    commits(log, 1, 11_500, 13_500, 15_500, start=4)
    log.member(60_000, "c")
    log.member_deleted(60_000, "a")
    log.epoch(60_000, 4)
    log.target(60_000, 4)
    [record] = log.current(60_000, "c", (0, 4), (0, 1))
    # It crashed between its last commit and the one that it did not make.
    assert times_of(record, 1) == (16_687, None, None)


def test_partitions_of_a_static_member_that_is_away_are_dark_until_it_returns(log: Log) -> None:
    log.member(1_000, "a")
    log.epoch(1_000, 1)
    log.target(1_000, 1)
    log.current(1_000, "a", (0, 1), (0, 1))
    log.member(2_000, "b")
    log.epoch(2_000, 2)
    log.target(2_000, 2)
    log.current(2_500, "a", (1, 2), (0,))
    log.current(3_000, "b", (0, 2), (1,))
    log.current(5_000, "a", (2, AWAY), (0,))
    log.current(6_000, "a", (2, AWAY), (0,))
    assert log.group.dark_now == {TopicPartition("orders", 0): 5_000}
    described = log.group.members["a"]
    described = WatchedMember(described.facts, described.topics, epoch=AWAY, owned=described.owned)
    members = described, log.group.members["b"]
    log.group.found(GroupFound("g", "consumer", "Stable", 2, 2, None, "consumer", members, {}), 7_000)
    assert log.group.dark_now == {TopicPartition("orders", 0): 5_000}
    log.member_deleted(9_000, "a")  # it returns with another member ID
    log.member(9_000, "c")
    log.current(9_000, "c", (0, 2), (0,))
    assert log.group.dark_now == {}


def test_a_new_owner_may_commit_long_before_the_rebalance_is_over(log: Log) -> None:
    log.member(1_000, "a")
    log.epoch(1_000, 1)
    log.target(1_000, 1)
    log.current(1_000, "a", (0, 1), (0, 1))
    for partition in (0, 1):
        commits(log, partition, 2_000, 3_000, 4_000)
    for name in "bc":
        log.member(5_000, name)
    log.epoch(5_000, 3)
    log.target(5_000, 3)
    log.current(5_000, "b", (0, 3), (), waits=True)
    log.current(5_100, "a", (1, 1), (), revoking=(0, 1))
    log.commit(5_200, 0, 32)
    log.commit(5_200, 1, 32)
    log.current(5_300, "a", (1, 3), ())
    log.current(5_400, "b", (3, 3), (0,))
    assert log.commit(6_000, 0, 40) == []
    assert log.commit(7_000, 0, 50) == []
    log.current(39_000, "c", (0, 3), ())  # it is slow to join
    assert len(log.group.rebalances) == 2
    [record] = [record for record in log.group.rebalances if record.generation == 3]
    assert times_of(record, 0) == (5_200, 5_400, 200)
    assert change_of(record, 0).dark_error_ms == 600  # given up from 5.2 s to 5.3 s, read from 5.4 s to 6 s


def test_a_commit_without_progress_is_not_a_read(log: Log) -> None:
    log.generation(1_000, 1, a=(0,))
    commits(log, 0, 3_000, 5_000, 7_000)
    log.generation(8_000, 2, a=(), b=(0,))
    log.commit(9_000, 0, 30)
    assert log.group.waits
    [record] = log.commit(9_500, 0, 31)
    assert change_of(record, 0).first_read_at == 8_000


@pytest.mark.parametrize("interval", [500, 2_000, 5_000])
def test_the_sum_of_dark_times_does_not_depend_on_the_commit_interval(log: Log, interval: int) -> None:
    # Half of each time from an assignment to its first commit, over all rebalances, would be most of the sum.
    at, offset = 1_000, 0
    log.generation(at, 1, b=(0,))
    for number in range(2, 32):
        stop = at + 53 * interval // 10
        for commit in (*range(at + interval, stop, interval), stop):
            log.commit(commit, 0, offset := offset + 10)
        at = stop + 100
        if number % 2:
            log.generation(at, number, b=(0,))
        else:
            log.generation(at, number, a=(0,))
    log.commit(at + interval, 0, offset + 10)
    known = [time for record in log.group.rebalances for time in record.dark_times]
    assert known == [100] * 30


def test_a_rebalance_that_goes_on_has_the_last_handover_of_a_partition(log: Log) -> None:
    # A record has one change for each partition. The member that had it meanwhile is left out.
    log.member(1_000, "a")
    log.epoch(1_000, 1)
    log.target(1_000, 1)
    log.current(1_000, "a", (0, 1), (0, 1))
    commits(log, 1, 2_000, 3_000, 4_000, 5_000)
    log.member(5_500, "b")
    log.epoch(5_500, 2)
    log.target(5_500, 2)
    log.current(5_600, "a", (1, 1), (0,), revoking=(1,))
    log.current(5_700, "a", (1, 2), (0,))
    log.member(5_750, "c")
    log.epoch(5_750, 3)
    log.target(5_750, 3)
    log.current(5_800, "b", (0, 2), (1,))
    commits(log, 1, 6_500, 7_500, start=4)
    log.current(7_900, "b", (2, 2), (), revoking=(1,))
    log.current(8_000, "b", (2, 3), ())
    log.current(8_100, "a", (2, 3), (0,))
    log.current(8_200, "c", (0, 3), (1,))
    [amended] = log.commit(9_000, 1, 90)
    assert (amended.started_at, amended.ended_at) == (5_500, 8_200)
    change = change_of(amended, 1)
    assert (change.previous_owner, change.owner) == ("a", "c")
    assert times_of(amended, 1) == (7_900, 8_200, 300)  # not since a stopped: b read it


def test_a_partition_without_new_records_is_not_dark(log: Log) -> None:
    log.generation(1_000, 1, a=(0, 1))
    for partition in (0, 1):
        commits(log, partition, 3_000, 5_000, 7_000)
    ends = {TopicPartition("orders", partition): EndOffsets() for partition in (0, 1)}
    for at in (7_000, 9_000, 20_000):
        ends[TopicPartition("orders", 0)].add(at, 30 if at < 20_000 else 35)
        ends[TopicPartition("orders", 1)].add(at, 40)
    log.ends = ends
    log.generation(8_000, 2, b=(0, 1))
    log.commit(9_000, 1, 40)
    [record] = log.commit(20_500, 0, 35)
    assert change_of(record, 1).dark_ms == 500  # from 7.5 s to 8 s
    assert change_of(record, 0).first_read_at is None  # its next record came after the rebalance
    assert change_of(record, 0).dark_ms is None


def test_without_ends_a_rarely_committed_partition_is_unknown() -> None:
    rare, busy = Commit(5, 1_000, usual=40_000), Commit(5, 1_000, usual=5_000)
    assert proves_reading(busy, 5_000, None, 2_000)
    assert not proves_reading(rare, 5_000, None, 2_000)
    assert not proves_reading(rare, 40_000, None, 2_000)  # so slow that commits show when records arrive
    assert not proves_reading(busy, None, None, 2_000)


def test_a_record_is_given_up_after_a_minute(log: Log) -> None:
    log.generation(1_000, 1, a=(0, 1))
    for partition in (0, 1):
        commits(log, partition, 3_000, 5_000, 7_000)
    log.generation(8_000, 2, b=(0, 1))
    assert log.commit(9_000, 0, 50) == []
    assert log.watcher.expire(8_000 + WAIT_MS - 1) == []
    [record] = log.watcher.expire(8_000 + WAIT_MS)
    assert (change_of(record, 0).first_read_at, change_of(record, 1).first_read_at) == (8_000, None)
    assert not log.group.waits
    assert log.watcher.expire(10 * WAIT_MS) == []
    assert log.commit(69_000, 1, 50) == []


def test_a_partition_that_moves_on_unread_is_dark_since_the_first_stop(log: Log) -> None:
    log.generation(1_000, 1, a=(0,))
    commits(log, 0, 3_000, 5_000, 7_000, 7_300)
    log.generation(8_000, 2, a=(), b=(0,))
    [record] = log.generation(9_000, 3, a=(), b=(), c=(0,))
    assert (record.generation, times_of(record, 0)) == (3, (7_300, None, None))
    [amended] = log.commit(10_000, 0, 90)
    assert (amended.generation, times_of(amended, 0)) == (3, (7_300, 9_000, 1_700))
    assert [times_of(record, 0)[1] for record in log.group.rebalances] == [None, None, 9_000]


def test_pending_records_are_bounded(log: Log) -> None:
    everything = tuple(range(30))
    log.generation(1_000, 1, "cooperative-sticky", a=everything, b=())
    for number in range(1, 30):  # one partition at a time moves to b
        before = {"a": everything[number - 1 :], "b": everything[: number - 1]}
        log.generation(
            1_000 + number, 1 + number, "cooperative-sticky", kept=before, a=everything[number:], b=everything[:number]
        )
    assert len(log.group.rebalances) == 30
    assert [log.group.is_pending(record) for record in log.group.rebalances] == [False] * 22 + [True] * MOST_PENDING


@pytest.mark.parametrize(
    ("commit", "owned_from", "told", "expected"),
    [
        (None, None, None, Stop(9_000, 9_000, 9_000)),
        (None, 4_000, None, Stop(9_000, 4_000, 9_000)),
        (Commit(1, 3_000), 4_000, None, Stop(9_000, 4_000, 9_000)),  # the commit is its predecessor's
        (Commit(1, 8_000, 500, 2_000), 4_000, None, Stop(8_000, 8_000, 9_000)),
        (Commit(1, 5_000, 2_000, 2_000), 4_000, None, Stop(6_000, 5_000, 9_000)),
        (Commit(1, 8_000, 2_000, 2_000), 4_000, None, Stop(8_500, 8_000, 9_000)),
        (Commit(1, 8_000, 2_000, 2_000), 4_000, 8_500, Stop(8_500, 8_500, 9_000)),
        (Commit(1, 8_600, 2_000, 2_000), 4_000, 8_500, Stop(8_600, 8_600, 9_000)),
        (Commit(1, 9_900, 2_000, 2_000), 4_000, None, Stop(9_000, 9_000, 9_000)),  # clocks differ
    ],
)
def test_an_owner_stopped_between_its_last_sign_and_what_the_coordinator_knew(
    commit: Commit | None, owned_from: int | None, told: int | None, expected: Stop
) -> None:
    assert stopped(commit, None, owned_from=owned_from, told=told, known=9_000) == expected


@pytest.mark.parametrize(
    ("assigned", "rebalanced", "committed", "expected"),
    [
        (10_000, 10_000, 11_000, 10_000),
        (10_000, 10_000, 42_000, 41_000),  # it restored its state first: it would have committed before
        (10_000, 41_000, 42_000, 10_000),  # classic members cannot commit while the group rebalances
    ],
)
def test_a_new_owner_reads_at_once_unless_its_commit_is_late(
    assigned: int, rebalanced: int, committed: int, expected: int
) -> None:
    assert first_read(2_000, assigned=assigned, rebalanced=rebalanced, committed=committed) == expected


def test_partitions_of_topics_that_nobody_subscribes_to_are_not_dark(log: Log) -> None:
    log.generation(1_000, 1, "cooperative-sticky", a=(0, 1))
    log.generation(2_000, 2, "cooperative-sticky", topic="payments", kept={"a": (0, 1)}, a=())
    assert log.group.dark_now == {}
    log.group.members["b"] = WatchedMember(log.group.members["a"].facts, expression="ord.*")
    assert log.group.dark_now.keys() == orders(0, 1)
    log.generation(3_000, 3)
    assert log.group.dark_now == {}
