"""Steps of members in rebalances, and who waited for whom."""

from __future__ import annotations

from kohort.group_events import (
    Cause,
    GroupEpochBumped,
    GroupEvent,
    GroupSettled,
    MemberCame,
    MemberFacts,
    MemberGone,
    MemberMoved,
)
from kohort.model import Millis, TopicPartition
from kohort.recorder import Journal, PartitionChange, RebalanceRecord
from kohort.watch import waterfall
from tests.recorder.stories import a_day

NONE = frozenset[TopicPartition]()
FIRST, SECOND = frozenset({TopicPartition("orders", 0)}), frozenset({TopicPartition("orders", 1)})
A, B, C = (MemberFacts(f"{name}-1", name, "10.0.0.1") for name in "abc")


def table(record: RebalanceRecord) -> list[str]:
    """The steps as lines, with times since the start of the rebalance, and members by client ID."""
    zero = record.started_at or record.ended_at
    names = {member.member_id: member.client_id for member in record.members()}
    lines = []
    for member in waterfall(record):
        for step in member.steps:
            start, end = ("?" if time is None else str(time - zero) for time in (step.start, step.end))
            line = f"{member.client_id} {step.name.value} {start}..{end} {step.partitions}"
            lines.append(line if step.waits_for is None else f"{line} waits for {names[step.waits_for]}")
    return lines


def record_of(cause: Cause, assignor: str, number: int = 0) -> RebalanceRecord:
    return [record for record in a_day(assignor) if record.cause == cause.value][number]


def test_eager_members_wait_for_the_last_one_that_joins_and_then_for_the_leader() -> None:
    assert table(record_of(Cause.MEMBER_JOINED, "range", 1)) == [
        "a revoke 0..20 3",
        "a join 20..30 0 waits for b",
        "a assign 30..31 2",
        "a first read 31..61 2",
        "b revoke 0..30 3",
        "b join 30..30 0",
        "b assign 30..31 2 waits for a",
        "b first read 31..71 2",
        "c join 0..30 0 waits for b",
        "c assign 30..31 2 waits for a",
        "c first read 31..81 2",
    ]


def test_a_member_that_is_gone_leaves() -> None:
    assert table(record_of(Cause.SESSION_EXPIRED, "range"))[0] == "a leave 0..0 2"


def test_members_that_keep_their_partitions_have_no_steps() -> None:
    # Nothing tells when b joined, so nobody can be said to have waited for the last member.
    assert table(record_of(Cause.OWNED_CHANGED, "cooperative-sticky")) == [
        "a revoke 0..10 3",
        "a join 10..? 0",
        "b assign ?..21 3 waits for a",
        "b first read 21..71 3",
    ]


def settled_by(*events: tuple[Millis, GroupEvent], at: Millis) -> RebalanceRecord:
    """The record of a consumer group's rebalance; before it, the member a reads both partitions."""
    journal = Journal()
    for early in (
        MemberCame("g", A),
        MemberMoved("g", A, 1, NONE, NONE, FIRST | SECOND),
        GroupSettled("g", 1, "uniform"),
    ):
        journal.observe(early, 0)
    for number in (0, 1):
        journal.fetched("a", "10.0.0.1", "orders", number, 10)
    for time, event in (*events, (at, GroupSettled("g", 2, "uniform"))):
        journal.observe(event, time)
    (record,) = journal.unfinished
    return record


def test_a_member_of_a_consumer_group_waits_for_the_owner_of_its_partition() -> None:
    record = settled_by(
        (100, GroupEpochBumped("g", 2, Cause.MEMBER_JOINED, B.member_id, None)),
        (100, MemberCame("g", B)),
        (110, MemberMoved("g", A, 1, SECOND, NONE, NONE)),
        (400, MemberMoved("g", A, 2, NONE, SECOND, NONE)),
        (450, MemberMoved("g", B, 2, NONE, NONE, SECOND)),
        at=450,
    )
    assert table(record) == [
        "a revoke 0..300 1",
        "b join 0..0 0",
        "b assign 0..350 1 waits for a",
        "b first read 350..? 1",
    ]


def test_nobody_waits_for_a_member_that_was_gone_when_the_rebalance_began() -> None:
    record = settled_by(
        (100, GroupEpochBumped("g", 2, Cause.SESSION_EXPIRED, A.member_id, None)),
        (100, MemberCame("g", C)),
        (100, MemberGone("g", A, Cause.SESSION_EXPIRED, None)),
        (130, MemberMoved("g", C, 2, NONE, NONE, FIRST | SECOND)),
        at=130,
    )
    assert table(record) == ["a leave 0..0 2", "c join ?..? 0", "c assign 0..30 2", "c first read 30..? 2"]


def test_a_record_without_times_has_the_result_only() -> None:
    record = RebalanceRecord(
        "g",
        3,
        None,
        500,
        leader_id=A.member_id,
        before=(A,),
        after=(A, B),
        partitions=(PartitionChange("orders", 1, A.member_id, B.member_id, assigned_at=500),),
    )
    assert table(record) == ["b join ?..? 0", "b assign ?..0 1", "b first read 0..? 1"]


def test_what_an_earlier_rebalance_left_is_not_a_step_of_this_one() -> None:
    record = RebalanceRecord(
        "g",
        3,
        1000,
        1100,
        leader_id=A.member_id,
        before=(A, B),
        after=(A, B),
        partitions=(PartitionChange("orders", 1, A.member_id, B.member_id, 600, 700, 1050),),
    )
    assert table(record) == ["b first read -300..50 1"]


def test_unknown_members_and_an_empty_record_are_harmless() -> None:
    assert waterfall(RebalanceRecord("g", 0, None, 500)) == []
    (member,) = waterfall(RebalanceRecord("g", 1, 1, 9, partitions=(PartitionChange("orders", 0, None, "x", 2, 3, 4),)))
    assert member.to_json() == {
        "member_id": "x",
        "client_id": "",
        "steps": [
            {"name": "assign", "from": 1, "to": 3, "partitions": 1, "waits_for": None},
            {"name": "first read", "from": 3, "to": 4, "partitions": 1, "waits_for": None},
        ],
    }
