from __future__ import annotations

import pytest

from kohort.group_events import MemberFacts
from kohort.model import TopicPartition
from kohort.recorder import RebalanceRecord, Trigger
from kohort.watch import Commit, GroupFound, WatchedMember
from kohort.wire.group_log import encode_key
from kohort.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.watch.log import ORDERS, Log, orders


@pytest.fixture
def log() -> Log:
    log = Log()
    log.watcher.name_topics({ORDERS: "orders"})
    return log


def moves(record: RebalanceRecord) -> dict[int, tuple[str | None, str | None]]:
    changes = {change.partition: (change.previous_owner, change.owner) for change in record.partitions}
    return {partition: owners for partition, owners in changes.items() if owners[0] != owners[1]}


def test_a_generation_tells_who_joined_and_what_moved(log: Log) -> None:
    assert log.generation(500, 0) == []
    [first] = log.generation(1_000, 1, a=(0, 1))
    [second] = log.generation(9_000, 2, a=(0,), b=(1,))
    assert (first.cause, first.was_empty, first.leader_id) == ("first member", True, "a")
    assert second.triggers == (Trigger("member joined", "b"),)
    assert [member.member_id for member in second.came] == ["b"]
    assert moves(second) == {1: ("a", "b")}
    assert list(log.group.rebalances) == [first, second]


def test_a_record_leaves_out_what_the_log_of_a_classic_group_cannot_tell(log: Log) -> None:
    log.generation(1_000, 1, a=(0,), b=(1,))
    [record] = log.generation(9_000, 2, a=(0, 1))
    # A leave and an expiry write the same record, and nothing says when the rebalance began.
    assert record.triggers == record.gone == (Trigger("member left or expired", "b"),)
    assert (record.started_at, record.ended_at, record.wall_ms) == (None, 9_000, None)
    # Without commits, the new generation is the latest time at which the members stopped.
    assert [(change.revoked_at, change.assigned_at, change.dark_ms) for change in record.partitions] == [
        (9_000, 9_000, None),
        (9_000, 9_000, None),
    ]


def test_a_generation_with_the_same_members_has_no_cause(log: Log) -> None:
    log.generation(1_000, 1, a=(0,), b=(1,))
    [record] = log.generation(2_000, 2, a=(1,), b=(0,))
    assert (record.triggers, record.cause) == ((), None)
    assert moves(record) == {0: ("a", "b"), 1: ("b", "a")}
    [record] = log.generation(3_000, 3, a=(1,), b=(0,), topic="payments")
    assert {trigger.cause for trigger in record.triggers} == {"subscription changed"}


def test_the_first_generation_of_a_history_is_a_rebalance_with_unknown_members_before(log: Log) -> None:
    [record] = log.generation(1_000, 17, a=(0,))
    assert (record.generation, record.triggers, record.before) == (17, (), ())
    assert moves(record) == {0: (None, "a")}


def test_a_static_member_that_returns_takes_over_without_a_rebalance(log: Log) -> None:
    log.generation(1_000, 1, a=(0,))
    assert log.generation(2_000, 1, a=(0,)) == []  # the same record, written again
    [record] = log.generation(3_000, 1, b=(0,))
    assert (record.generation, record.cause) == (1, "static member returned")
    assert moves(record) == {0: ("a", "b")}


def test_a_group_that_becomes_empty_and_is_deleted(log: Log) -> None:
    log.generation(1_000, 1, a=(0,))
    assert log.group.state == "Stable"
    [record] = log.generation(2_000, 2)
    assert (record.after, log.group.state) == ((), "Empty")
    assert log.classic_deleted(3_000) == []
    assert log.watcher.groups == {}
    [record] = log.generation(4_000, 1, a=(0,))
    assert record.cause == "first member"


def test_a_group_of_another_protocol_type_has_members_without_partitions(log: Log) -> None:
    member = MemberMetadata(member_id="worker", client_id="w", client_host="/10.0.0.1", assignment=b"\0\1connect")
    value = GroupMetadataValue(protocol_type="connect", generation=4, protocol="compatible", members=[member])
    [record] = log.write(1_000, GroupMetadataKey(group="g"), value)
    assert ([facts.client_id for facts in record.after], record.partitions) == (["w"], ())
    assert log.reader.counts.unreadable_members == 0


def test_a_consumer_group_settles_when_its_last_member_has_its_target(log: Log) -> None:
    log.member(1_000, "a")
    assert log.epoch(1_000, 1) == log.target(1_000, 1) == []
    [first] = log.current(1_000, "a", (0, 1), (0, 1))
    assert (first.cause, first.generation, first.wall_ms, first.protocol) == ("first member", 1, 0, "uniform")
    log.member(5_000, "b")
    assert log.epoch(5_000, 2) == []
    assert log.group.state == "Assigning"
    assert log.target(5_000, 2) == []
    assert log.current(5_000, "b", (0, 2), (), waits=True) == []
    assert log.current(6_000, "a", (1, 1), (0,), revoking=(1,)) == []
    assert log.group.state == "Reconciling"
    assert log.group.owners == dict.fromkeys(orders(0, 1), "a")  # it processes what it must give up
    assert log.current(7_000, "a", (1, 2), (0,)) == []
    [second] = log.current(8_500, "b", (2, 2), (1,))
    assert (second.started_at, second.ended_at, second.triggers) == (5_000, 8_500, (Trigger("member joined", "b"),))
    [change] = second.partitions
    assert (change.previous_owner, change.owner, change.revoked_at, change.assigned_at) == ("a", "b", 7_000, 8_500)
    assert log.group.state == "Stable"
    assert {name: member.facts.client_host for name, member in log.group.members.items()} == {
        "a": "/10.0.0.97",
        "b": "/10.0.0.98",
    }


def test_a_member_of_a_consumer_group_that_is_gone_leaves_its_partitions_dark(log: Log) -> None:
    log.member(1_000, "a")
    log.epoch(1_000, 1)
    log.target(1_000, 1)
    log.current(1_000, "a", (0, 1), (0,))
    log.member_deleted(3_000, "a")
    [record] = log.epoch(3_000, 2)
    assert record.triggers == record.gone == (Trigger("member left or expired", "a"),)
    assert [(change.owner, change.revoked_at) for change in record.partitions] == [(None, 3_000)]
    assert (log.group.state, log.group.epoch) == ("Empty", 2)


def test_topics_that_change_raise_the_epoch(log: Log) -> None:
    log.member(1_000, "a")
    log.epoch(1_000, 1, metadata_hash=5)
    log.target(1_000, 1)
    log.current(1_000, "a", (0, 1), (0,))
    log.epoch(2_000, 2, metadata_hash=6)
    log.target(2_000, 2)
    [record] = log.current(2_500, "a", (1, 2), (0, 1))
    assert record.triggers == (Trigger("topics changed"),)
    assert moves(record) == {1: (None, "a")}


def test_a_member_from_before_the_history_does_not_seem_to_join(log: Log) -> None:
    # Compaction or retention has removed the record of its identity.
    log.epoch(1_000, 40)
    log.target(1_000, 40)
    [record] = log.current(1_000, "a", (39, 40), (0, 1))
    assert (record.came, record.partitions, record.triggers) == ((), (), ())
    assert log.group.owners == dict.fromkeys(orders(0, 1), "a")


def test_an_epoch_that_is_read_again_after_a_truncation_is_no_rebalance(log: Log) -> None:
    log.member(1_000, "a")
    for _ in range(2):
        log.epoch(1_000, 1)
        log.target(1_000, 1)
        log.current(1_000, "a", (0, 1), (0,))
    assert len(log.group.rebalances) == 1


def test_a_group_changes_its_protocol(log: Log) -> None:
    log.generation(1_000, 3, a=(0,))
    log.classic_deleted(2_000)
    log.member(2_000, "a")
    log.epoch(2_000, 4)
    log.target(2_000, 4)
    log.current(2_000, "a", (0, 4), (0,))
    assert (log.group.type, log.group.epoch, log.group.owners) == ("consumer", 4, dict.fromkeys(orders(0), "a"))


def test_partitions_of_topics_without_a_name_are_left_out() -> None:
    log = Log()
    log.member(1_000, "a")
    log.epoch(1_000, 1)
    log.target(1_000, 1)
    [record] = log.current(1_000, "a", (0, 1), (0,))
    assert (record.partitions, log.group.owners) == ((), {})
    log.commit(2_000, 0, 5)  # names the topic
    log.epoch(3_000, 2)
    log.target(3_000, 2)
    log.current(3_000, "a", (1, 2), (0, 1))
    assert log.group.owners == dict.fromkeys(orders(0, 1), "a")


def test_commits_and_their_times(log: Log) -> None:
    log.commit(1_000, 0, 5)
    log.commit(2_000, 0, 8)
    log.commit(2_500, 1, 1)
    assert log.group.commits == {
        TopicPartition("orders", 0): Commit(8, 2_000, gap=1_000),
        TopicPartition("orders", 1): Commit(1, 2_500),
    }
    assert (log.group.type, log.group.state) == (None, "Empty")
    log.commit(3_000, 0, None)
    log.commit(3_000, 1, None)
    assert log.watcher.groups == {}


def test_what_an_admin_api_described_makes_no_record(log: Log) -> None:
    a = WatchedMember(MemberFacts("a", "a", "/10.0.0.1"), owned=orders(0, 1))
    found = GroupFound("g", "classic", "PreparingRebalance", None, None, "range", "consumer", (a,), {})
    log.watcher.found(found, 1_000)
    assert (log.group.state, list(log.group.rebalances)) == ("PreparingRebalance", [])
    [record] = log.generation(2_000, 7, a=(0,), b=(1,))
    assert (record.cause, moves(record), log.group.state) == ("member joined", {1: ("a", "b")}, "Stable")


def test_a_description_in_the_middle_of_a_rebalance_hides_no_member_of_the_log(log: Log) -> None:
    # Kafka describes the members of such a group without their topics and partitions, new ones included.
    log.generation(1_000, 1, a=(0, 1))
    a, b = (WatchedMember(MemberFacts(name, name, "/10.0.0.1")) for name in ("a", "b"))
    commits = {TopicPartition("orders", 0): 9}
    found = GroupFound("g", "classic", "PreparingRebalance", None, None, None, "consumer", (a, b), commits)
    log.watcher.found(found, 2_000)
    assert (log.group.state, log.group.owners) == ("PreparingRebalance", dict.fromkeys(orders(0, 1), "a"))
    assert log.group.commits == {TopicPartition("orders", 0): Commit(9, None)}
    [record] = log.generation(3_000, 2, a=(0,), b=(1,))
    assert (record.triggers, moves(record)) == ((Trigger("member joined", "b"),), {1: ("a", "b")})


def test_a_rebalance_that_was_under_way_at_the_start_has_no_invented_cause(log: Log) -> None:
    a = WatchedMember(MemberFacts("a", "a", "/10.0.0.1"))
    log.watcher.found(GroupFound("g", "classic", "PreparingRebalance", None, None, None, "consumer", (a,), {}), 1_000)
    [record] = log.generation(3_000, 2, a=(0, 1))
    assert record.triggers == ()


def test_a_described_consumer_group_goes_on_in_the_log(log: Log) -> None:
    a = WatchedMember(MemberFacts("a", "a", "/10.0.0.1"), epoch=4, owned=orders(0, 1))
    commits = {TopicPartition("orders", 0): 9}
    log.commit(900, 1, 3)
    log.watcher.found(GroupFound("g", "consumer", "Stable", 4, 4, "uniform", "consumer", (a,), commits), 1_000)
    assert log.group.commits == {
        TopicPartition("orders", 0): Commit(9, None),
        TopicPartition("orders", 1): Commit(3, 900),
    }
    log.member(5_000, "b")
    log.epoch(5_000, 5)
    log.target(5_000, 5)
    log.current(5_000, "b", (0, 5), (), waits=True)
    log.current(6_000, "a", (4, 5), (0,))
    [record] = log.current(7_000, "b", (5, 5), (1,))
    assert (record.triggers, moves(record)) == ((Trigger("member joined", "b"),), {1: ("a", "b")})


@pytest.mark.parametrize(
    ("key", "value", "counted"),
    [
        (None, b"x", "unreadable"),
        (b"", None, "unreadable"),
        (b"\0", None, "unreadable"),
        (b"\x03\xe8any", b"thing", "foreign"),
        (encode_key(GroupMetadataKey(group="g")), b"", "unreadable"),
        (encode_key(GroupMetadataKey(group="g")), b"\0\x63newer", "unreadable"),
        (encode_key(GroupMetadataKey(group="g"))[:-1], None, "unreadable"),
        (encode_key(OffsetCommitKey(group="g", topic="orders"))[:-1], b"\0\1", "unreadable"),
    ],
)
def test_records_that_cannot_be_read_are_counted(
    log: Log, key: bytes | None, value: bytes | None, counted: str
) -> None:
    log.generation(1_000, 1, a=(0,))
    assert log.raw(2_000, key, value) == []
    [after] = log.generation(3_000, 2)
    counts = log.reader.counts
    assert (counts.records, counts.unreadable + counts.foreign, getattr(counts, counted)) == (3, 1, 1)
    assert (counts.first_unreadable is not None) is (counted == "unreadable")
    assert after.generation == 2
    if counts.first_unreadable:
        assert "partition 3, offset 1 of __consumer_offsets" in counts.first_unreadable


def test_a_member_with_damaged_bytes_is_counted_and_kept(log: Log) -> None:
    member = MemberMetadata(member_id="a", client_id="a", subscription=b"\0", assignment=b"")
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", members=[member])
    log.write(1_000, GroupMetadataKey(group="g"), value)
    assert log.reader.counts.unreadable_members == 1
    assert log.group.members.keys() == {"a"}


@pytest.mark.parametrize("at", [-1, 1 << 62])
def test_a_record_of_an_impossible_time_is_unreadable(at: int) -> None:
    log = Log()
    log.generation(1_000, 1, a=(0,))
    assert log.generation(at, 2, b=(0,)) == []
    assert (list(log.group.members), log.reader.counts.unreadable, log.reader.counts.foreign) == (["a"], 1, 0)
    assert f"its time {at} is impossible" in (log.reader.counts.first_unreadable or "")


def test_a_commit_has_the_time_that_the_coordinator_gave_it(log: Log) -> None:
    value = OffsetCommitValue(offset=5, commit_timestamp=1_500, topic_id=ORDERS)
    log.write(2_000, OffsetCommitKey(group="g", topic="orders", partition=0), value)
    assert log.group.commits[TopicPartition("orders", 0)].at == 1_500


@pytest.mark.parametrize("at", [-1, 1 << 62])
def test_a_commit_of_an_impossible_time_has_that_of_its_record(at: int) -> None:
    log = Log()
    value = OffsetCommitValue(offset=5, commit_timestamp=at, topic_id=ORDERS)
    log.write(2_000, OffsetCommitKey(group="g", topic="orders", partition=0), value)
    assert log.group.commits[TopicPartition("orders", 0)].at == 2_000
