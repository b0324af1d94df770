"""Consumer groups (KIP-848) in the journal: what the coordinator's own events say of whole conversations."""

from __future__ import annotations

import pytest

from kohort.group_events import (
    AssignmentMade,
    Cause,
    GroupEpochBumped,
    GroupSettled,
    MemberCame,
    MemberFacts,
    MemberGone,
    MemberMoved,
    Refused,
    TargetRefused,
    Weighed,
)
from kohort.model import TopicPartition
from kohort.recorder.journal import WAIT_MS, Journal
from kohort.recorder.record import RebalanceRecord

A, B = MemberFacts("a-1", "a", "/a"), MemberFacts("b-1", "b", "/b")


def orders(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


NOTHING = orders()


def moved(member: MemberFacts, epoch: int, **steps: frozenset[TopicPartition]) -> MemberMoved:
    return MemberMoved("g", member, epoch, **{"owes": NOTHING, "gave_up": NOTHING, "took": NOTHING, **steps})


def first_member(journal: Journal) -> RebalanceRecord:
    """Member a joins at 1,000, takes two partitions and reads both at 1,200."""
    assert not journal.observe(MemberCame("g", A), 1_000)
    assert not journal.observe(GroupEpochBumped("g", 2, Cause.FIRST_MEMBER, "a-1", None), 1_000)
    assert not journal.observe(moved(A, 2, took=orders(0, 1)), 1_000)
    assert not journal.observe(GroupSettled("g", 2, "uniform"), 1_000)
    assert not journal.fetched("a", "/a", "orders", 0, 1_100)
    (record,) = journal.fetched("a", "/a", "orders", 1, 1_200)
    assert not journal.watching
    return record


def test_the_first_member_gets_unowned_partitions() -> None:
    record = first_member(Journal())
    assert (record.generation, record.cause, record.protocol, record.wall_ms) == (2, "first member", "uniform", 0)
    assert (record.came, record.went, record.moved) == ((A,), (), ())
    assert [(str(c), c.owner, c.previous_owner, c.dark_ms) for c in record.partitions] == [
        ("orders-0", "a-1", None, None),
        ("orders-1", "a-1", None, None),
    ]


def test_a_partition_is_dark_from_the_report_to_the_first_read() -> None:
    # Not from the request to revoke it: its owner processes it until then.
    journal = Journal()
    first_member(journal)
    journal.observe(MemberCame("g", B), 2_000)
    journal.observe(GroupEpochBumped("g", 3, Cause.MEMBER_JOINED, "b-1", None), 2_000)
    journal.observe(moved(A, 2, owes=orders(1)), 3_000)
    journal.observe(moved(A, 3, gave_up=orders(1)), 4_000)
    journal.observe(moved(B, 3, took=orders(1)), 6_000)
    assert not journal.observe(GroupSettled("g", 3, "uniform"), 6_000)
    (record,) = journal.fetched("b", "/b", "orders", 1, 6_300)
    assert (record.started_at, record.ended_at, record.cause) == (2_000, 6_000, "member joined")
    assert (record.before, record.after) == ((A,), (A, B))
    (change,) = record.partitions
    assert (change.previous_owner, change.owner, change.revoked_at, change.assigned_at) == ("a-1", "b-1", 4_000, 6_000)
    assert change.dark_ms == 2_300


def test_the_first_read_of_a_partition_ends_its_dark_time_before_the_others() -> None:
    journal = Journal()
    first_member(journal)
    journal.observe(MemberCame("g", B), 2_000)
    journal.observe(GroupEpochBumped("g", 3, Cause.MEMBER_JOINED, "b-1", None), 2_000)
    journal.observe(moved(A, 3, gave_up=orders(0, 1)), 3_000)
    journal.observe(moved(B, 3, took=orders(1)), 4_000)
    assert not journal.fetched("b", "/b", "orders", 1, 4_500)
    journal.observe(moved(A, 3, took=orders(0)), 8_000)
    assert not journal.observe(GroupSettled("g", 3, "uniform"), 8_000)
    (record,) = journal.fetched("a", "/a", "orders", 0, 8_100)
    assert [(str(c), c.owner, c.dark_ms) for c in record.partitions] == [
        ("orders-0", "a-1", 5_100),
        ("orders-1", "b-1", 1_500),
    ]


def test_partitions_of_a_dead_member_are_dark_since_its_removal() -> None:
    journal = Journal()
    first_member(journal)
    journal.observe(MemberCame("g", B), 2_000)
    journal.observe(GroupEpochBumped("g", 3, Cause.MEMBER_JOINED, "b-1", None), 2_000)
    journal.observe(MemberGone("g", A, Cause.SESSION_EXPIRED, None), 47_000)
    journal.observe(GroupEpochBumped("g", 4, Cause.SESSION_EXPIRED, "a-1", None), 47_000)
    journal.observe(moved(B, 4, took=orders(0, 1)), 50_000)
    journal.observe(GroupSettled("g", 4, "uniform"), 50_000)
    journal.fetched("b", "/b", "orders", 0, 50_050)
    (record,) = journal.fetched("b", "/b", "orders", 1, 50_100)
    assert [trigger.cause for trigger in record.triggers] == ["member joined", "session expired"]
    assert [(member.member_id, member.cause) for member in record.gone] == [("a-1", "session expired")]
    assert (record.came, record.went) == ((B,), (A,))
    assert [change.dark_ms for change in record.partitions] == [3_050, 3_100]


@pytest.mark.parametrize(("silent_since", "dark_ms"), [(5_000, 45_050), (1_000, 48_850)])
def test_partitions_of_a_crashed_member_are_dark_since_its_last_sign_of_life(silent_since: int, dark_ms: int) -> None:
    # It read its partitions until 1,100 and 1,200: before that they were not dark.
    journal = Journal()
    first_member(journal)
    journal.observe(MemberCame("g", B), 2_000)
    journal.observe(MemberGone("g", A, Cause.CONNECTION_LOST, None, silent_since), 47_000)
    journal.observe(GroupEpochBumped("g", 4, Cause.CONNECTION_LOST, "a-1", None), 47_000)
    journal.observe(moved(B, 4, took=orders(0, 1)), 50_000)
    journal.observe(GroupSettled("g", 4, "uniform"), 50_000)
    journal.fetched("b", "/b", "orders", 0, 50_050)
    (record,) = journal.fetched("b", "/b", "orders", 1, 50_150)
    assert [change.dark_ms for change in record.partitions] == [dark_ms, dark_ms + 100]


def test_a_static_member_that_returns_was_away_since_it_left() -> None:
    journal = Journal()
    first_member(journal)
    again = MemberFacts("a-2", "a", "/a", "i")
    journal.observe(moved(A, -2, gave_up=orders(0, 1)), 2_000)
    journal.observe(MemberGone("g", A, Cause.STATIC_MEMBER_RETURNED, None), 5_000)
    journal.observe(MemberCame("g", again), 5_000)
    journal.observe(moved(again, 2, took=orders(0, 1)), 5_000)
    journal.observe(GroupSettled("g", 2, "uniform"), 5_000)
    journal.fetched("a", "/a", "orders", 0, 5_010)
    (record,) = journal.fetched("a", "/a", "orders", 1, 5_020)
    assert record.cause == "static member returned"
    assert [(change.previous_owner, change.owner, change.dark_ms) for change in record.partitions] == [
        ("a-1", "a-2", 3_010),
        ("a-1", "a-2", 3_020),
    ]


def test_unsubscribed_partitions_are_recorded_once() -> None:
    journal = Journal()
    first_member(journal)
    journal.observe(GroupEpochBumped("g", 3, Cause.SUBSCRIPTION_CHANGED, "a-1", None), 2_000)
    journal.observe(moved(A, 3, gave_up=orders(0, 1)), 3_000)
    (record,) = journal.observe(GroupSettled("g", 3, "uniform"), 3_000)
    assert [(str(c), c.previous_owner, c.owner) for c in record.partitions] == [
        ("orders-0", "a-1", None),
        ("orders-1", "a-1", None),
    ]
    journal.observe(GroupEpochBumped("g", 4, Cause.TOPICS_CHANGED, None, None), 4_000)
    (record,) = journal.observe(GroupSettled("g", 4, "uniform"), 4_000)
    assert record.partitions == ()


def test_a_group_that_everybody_left_is_written_without_members() -> None:
    journal = Journal()
    first_member(journal)
    journal.observe(MemberGone("g", A, Cause.MEMBER_LEFT, None), 2_000)
    journal.observe(GroupEpochBumped("g", 3, Cause.MEMBER_LEFT, "a-1", None), 2_000)
    (record,) = journal.observe(GroupSettled("g", 3, ""), 2_000)
    assert (record.after, record.went, record.protocol) == ((), (A,), None)
    assert [change.owner for change in record.partitions] == [None, None]


def test_a_read_that_never_comes_is_not_waited_for_for_ever() -> None:
    journal = Journal()
    journal.observe(MemberCame("g", A), 1_000)
    journal.observe(GroupEpochBumped("g", 2, Cause.FIRST_MEMBER, "a-1", None), 1_000)
    journal.observe(moved(A, 2, took=orders(0)), 1_000)
    journal.observe(GroupSettled("g", 2, "uniform"), 1_000)
    assert journal.watching
    (record,) = journal.expire(1_000 + WAIT_MS)
    assert record.partitions[0].first_read_at is None
    assert not journal.watching


def test_a_large_group_is_not_named_for_one_that_came() -> None:
    journal = Journal()
    first_member(journal)
    others = [MemberFacts(f"m-{number}", "m", "/m") for number in range(100)]
    for number, member in enumerate(others):
        journal.observe(MemberCame("g", member), 2_000)
        journal.observe(moved(member, 3, took=orders(10 + number)), 2_000)
    journal.observe(GroupSettled("g", 3, "uniform"), 2_000)
    journal.expire(2_000 + WAIT_MS)
    journal.observe(MemberCame("g", B), 90_000)
    journal.observe(GroupEpochBumped("g", 4, Cause.MEMBER_JOINED, "b-1", None), 90_000)
    journal.observe(moved(others[7], 4, gave_up=orders(17)), 91_000)
    journal.observe(moved(B, 4, took=orders(17)), 92_000)
    journal.observe(GroupSettled("g", 4, "uniform"), 92_000)
    (record,) = journal.fetched("b", "/b", "orders", 17, 92_010)
    assert (record.before, set(record.after)) == ((others[7],), {others[7], B})
    assert (record.size, record.members_after) == (102, 102)
    assert RebalanceRecord.from_json(record.to_json()) == record


def test_a_member_without_partitions_leaves_and_the_group_continues() -> None:
    journal = Journal()
    first_member(journal)
    journal.observe(MemberCame("g", B), 2_000)
    journal.observe(GroupEpochBumped("g", 3, Cause.MEMBER_JOINED, "b-1", None), 2_000)
    journal.observe(GroupSettled("g", 3, "uniform"), 2_500)
    journal.observe(MemberGone("g", B, Cause.MEMBER_LEFT, None), 3_000)
    journal.observe(GroupEpochBumped("g", 4, Cause.MEMBER_LEFT, "b-1", None), 3_000)
    (record,) = journal.observe(GroupSettled("g", 4, "uniform"), 4_000)
    assert (record.after, record.went, record.members_after) == ((), (B,), 1)


def test_a_classic_group_that_migrates_keeps_who_has_what() -> None:
    journal = Journal()
    journal.observe(AssignmentMade("g", 1, "range", "a-1", (A,), {"a-1": orders(0, 1)}), 1_000)
    journal.fetched("a", "/a", "orders", 0, 1_010)
    journal.fetched("a", "/a", "orders", 1, 1_010)
    journal.observe(MemberCame("g", B), 2_000)
    journal.observe(GroupEpochBumped("g", 2, Cause.MEMBER_JOINED, "b-1", None), 2_000)
    journal.observe(moved(A, 2, gave_up=orders(1)), 3_000)
    journal.observe(moved(B, 2, took=orders(1)), 4_000)
    journal.observe(GroupSettled("g", 2, "uniform"), 4_000)
    (record,) = journal.fetched("b", "/b", "orders", 1, 4_100)
    assert [(c.previous_owner, c.owner, c.dark_ms) for c in record.partitions] == [("a-1", "b-1", 1_100)]


def test_the_record_has_the_weights_of_the_assignor() -> None:
    journal = Journal()
    first_member(journal)
    weighed = (Weighed("a-1", "1 partitions; its fair share by weight 1 is 1.0"),)
    journal.observe(GroupEpochBumped("g", 3, Cause.WEIGHT_CHANGED, "a-1", None), 5_000)
    journal.observe(moved(A, 3, gave_up=orders(1)), 5_100)
    (record,) = journal.observe(GroupSettled("g", 3, "weighted", weighed), 5_200)
    assert (record.cause, record.protocol, record.weighed) == ("weight changed", "weighted", weighed)
    assert RebalanceRecord.from_json(record.to_json()) == record


def test_a_target_that_does_not_count_is_on_record_with_its_reason() -> None:
    journal = Journal()
    first_member(journal)
    refused = Refused("mine", "a-1", "it assigns orders-0 to no member")
    journal.observe(GroupEpochBumped("g", 3, Cause.REBALANCE_ENFORCED, "a-1", None), 5_000)
    journal.observe(TargetRefused("g", 3, refused), 5_050)
    journal.observe(moved(A, 3, gave_up=orders(1)), 5_100)
    (record,) = journal.observe(GroupSettled("g", 3, "uniform"), 5_200)
    assert record.refused == (refused,)
    assert RebalanceRecord.from_json(record.to_json()) == record
    journal.observe(GroupEpochBumped("g", 4, Cause.REBALANCE_ENFORCED, "a-1", None), 6_000)
    journal.observe(moved(A, 4, took=orders(1)), 6_100)
    journal.observe(GroupSettled("g", 4, "uniform"), 6_200)
    (record,) = journal.fetched("a", "/a", "orders", 1, 6_300)
    assert (record.generation, record.refused) == (4, ())
