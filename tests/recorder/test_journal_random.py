"""The journal told anything in any order: it must not fail, lose count of what it watches, or invent darkness."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.group_events import (
    AssignmentMade,
    Cause,
    GroupEvent,
    MemberFacts,
    MemberGone,
    MemberRejoined,
    RebalanceStarted,
)
from kohort.model import TopicPartition
from kohort.recorder import Journal, RebalanceRecord
from kohort.recorder.journal import WAIT_MS

steady = settings(deadline=None, derandomize=True, database=None)

NAMES = ("a", "b", "c")
PARTITIONS = [TopicPartition("t", number) for number in range(4)]


def facts(name: str) -> MemberFacts:
    return MemberFacts(f"{name}-id", name, "h")


names = st.sampled_from(NAMES)
causes = st.sampled_from(Cause)
some_partitions = st.frozensets(st.sampled_from(PARTITIONS))


@st.composite
def assignments(draw: st.DrawFn) -> AssignmentMade:
    members = draw(st.lists(names, unique=True))
    shares: dict[str, set[TopicPartition]] = {f"{name}-id": set() for name in members}
    for partition in draw(some_partitions) if members else ():
        shares[f"{draw(st.sampled_from(members))}-id"].add(partition)
    assigned = {member_id: frozenset(share) for member_id, share in shares.items()}
    return AssignmentMade("g", draw(st.integers(1, 9)), "range", "", tuple(map(facts, members)), assigned)


events: st.SearchStrategy[GroupEvent] = st.one_of(
    st.builds(RebalanceStarted, st.just("g"), st.just(0), causes, names.map("{}-id".format), st.none(), st.none()),
    st.builds(MemberRejoined, st.just("g"), names.map(facts), st.none() | some_partitions),
    st.builds(MemberGone, st.just("g"), names.map(facts), causes, st.none()),
    assignments(),
)
reads = st.tuples(names, st.sampled_from(PARTITIONS))
pauses = st.sampled_from([0, 5, WAIT_MS])


def check(record: RebalanceRecord) -> None:
    assert RebalanceRecord.from_json(record.to_json()) == record
    assert len({str(change) for change in record.partitions}) == len(record.partitions)
    for change in record.partitions:
        if change.first_read_at is not None:
            assert change.owner is not None and change.assigned_at is not None
            assert change.first_read_at >= change.assigned_at
        if change.revoked_at is not None:
            assert change.previous_owner is not None
            assert change.assigned_at is None or change.assigned_at >= change.revoked_at


@steady
@given(st.lists(st.one_of(events, reads, pauses), max_size=40))
def test_records_are_valid_for_any_sequence_of_events(
    steps: list[GroupEvent | tuple[str, TopicPartition] | int],
) -> None:
    journal, now, written = Journal(), 1_000, list[RebalanceRecord]()
    assignments_told = 0
    for step in steps:
        now += 1
        match step:
            case int():
                now += step
                written += journal.expire(now)
            case (str(name), TopicPartition(topic, number)):
                written += journal.fetched(name, "h", topic, number, now)
            case _:
                assignments_told += isinstance(step, AssignmentMade)
                written += journal.observe(step, now)
    written += journal.close(now)
    assert len(written) == assignments_told
    assert not journal.watching
    assert [record.ended_at for record in written] == sorted(record.ended_at for record in written)
    for record in written:
        check(record)
