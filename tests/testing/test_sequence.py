"""The audit of sequences: what was skipped, read twice or reordered, and what happened then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.errors import KohortError
from kohort.group_events import Cause, MemberFacts, MemberGone, RebalanceStarted
from kohort.model import TopicPartition
from kohort.testing import Broker, GroupChanged, RecordsAppended
from kohort.testing.sequence import HEADER, At, Finding, Kind, SequenceAudit, SequenceNumbers
from kohort.wire.group_log import group_record
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue


class Audited:
    """A partition of one producer's records, whose offsets are their numbers plus 100."""

    def __init__(self) -> None:
        self.audit = SequenceAudit("g")

    def reads(self, member: str, *numbers: int) -> None:
        for number in numbers:
            self.audit.processed(member, "orders", 0, 100 + number, [("other", b"x"), (HEADER, b"p:%d" % number)])

    def rebalances(self, cause: Cause = Cause.MEMBER_JOINED) -> None:
        self.audit.observe(GroupChanged(0, 1, RebalanceStarted("g", 1, cause, None, None, None)))

    def crashes(self, member: str) -> None:
        gone = MemberGone("g", MemberFacts(f"{member}-1", member, "host"), Cause.SESSION_EXPIRED, None)
        self.audit.observe(GroupChanged(0, 1, gone))

    def commits(self, offset: int, group: str = "g") -> None:
        key = OffsetCommitKey(group=group, topic="orders", partition=0)
        self.audit.observe(RecordsAppended(0, 1, 0, [group_record(key, OffsetCommitValue(offset=offset))]))

    def found(self) -> list[tuple[Kind, int, int, At]]:
        return [(each.kind, each.first, each.last, each.at) for each in self.audit.findings()]


def test_records_in_order_are_as_they_should_be_even_across_members() -> None:
    audited = Audited()
    audited.reads("a", 0, 1, 2)
    audited.commits(103)
    audited.rebalances()
    audited.reads("b", 3, 4)
    assert audited.found() == []


def test_skipped_records_are_attributed_to_the_commit_that_came_too_early() -> None:
    audited = Audited()
    audited.reads("a", 0, 1)
    audited.commits(105)
    audited.rebalances()
    audited.reads("b", 5)
    (finding,) = audited.audit.findings()
    assert finding.event is not None
    assert (finding.kind, finding.first, finding.last, finding.at) == (Kind.SKIPPED, 2, 4, At.COMMIT)
    assert str(finding) == "orders-0: records 2 to 4 of p skipped. The group committed offset 105. b began there."


def test_skipped_records_without_a_commit_are_attributed_to_the_rebalance() -> None:
    audited = Audited()
    audited.reads("a", 0, 1)
    audited.commits(101)
    audited.rebalances(Cause.MEMBER_LEFT)
    audited.reads("b", 3)
    (finding,) = audited.audit.findings()
    assert (finding.before, finding.member, finding.at) == ("a", "b", At.REBALANCE)
    assert "member left" in finding.why and "committed offset 101" in finding.why


def test_records_that_are_read_twice_are_attributed_to_the_crash() -> None:
    audited = Audited()
    audited.reads("a", 0, 1, 2, 3)
    audited.commits(102)
    audited.crashes("a")
    audited.rebalances(Cause.SESSION_EXPIRED)
    audited.reads("b", 2, 3, 4)
    assert audited.found() == [(Kind.TWICE, 2, 3, At.CRASH)]


def test_a_member_that_reads_again_by_itself_is_said_to() -> None:
    audited = Audited()
    audited.reads("a", 0, 1, 0, 1, 2)
    (finding,) = audited.audit.findings()
    assert (finding.kind, finding.first, finding.last, finding.at) == (Kind.TWICE, 0, 1, At.NOTHING)
    assert "by itself" in finding.why


def test_records_that_arrive_late_are_reordered_and_not_skipped() -> None:
    audited = Audited()
    audited.reads("a", 0, 2, 1, 3)
    assert audited.found() == [(Kind.REORDERED, 1, 1, At.NOTHING)]


def test_events_of_other_groups_and_records_without_markers_do_not_count() -> None:
    audited = Audited()
    audited.reads("a", 0)
    audited.commits(102, "other")
    audited.audit.processed("a", "orders", 0, 101, None)
    audited.reads("a", 2)
    assert audited.found() == [(Kind.SKIPPED, 1, 1, At.NOTHING)]


def test_a_header_that_is_no_marker_is_an_error() -> None:
    with pytest.raises(KohortError, match="offset 7 of orders-0 is no marker: b'7'"):
        SequenceAudit("g").processed("a", "orders", 0, 7, [(HEADER, b"7")])


def test_records_that_nobody_read_are_found_by_what_was_sent() -> None:
    numbers, audit = SequenceNumbers("p"), SequenceAudit("g")
    headers = [numbers.next("orders", partition) for partition in (0, 0, 0, 1)]
    audit.processed("a", "orders", 0, 5, [headers[0]])
    found = audit.findings(numbers)
    assert [(each.kind, each.place, each.first, each.last) for each in found] == [
        (Kind.UNREAD, TopicPartition("orders", 0), 1, 2),
        (Kind.UNREAD, TopicPartition("orders", 1), 0, 0),
    ]


def test_the_producer_of_the_kit_marks_records() -> None:
    numbers = SequenceNumbers("p")
    with Broker(topics={"orders": 2}) as broker:
        broker.topic("orders").produce(*"abcde", numbers=numbers, headers=[("other", b"x")])
        found = [(record.partition, record.headers) for record in broker.topic("orders").records()]
    assert [(partition, headers[1]) for partition, headers in found] == [
        (0, (HEADER, b"p:0")),
        (0, (HEADER, b"p:1")),
        (0, (HEADER, b"p:2")),
        (1, (HEADER, b"p:0")),
        (1, (HEADER, b"p:1")),
    ]
    assert {headers[0] for _, headers in found} == {("other", b"x")}
    assert numbers.sent == {TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 2}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 8)), max_size=30))
def test_findings_are_what_a_plain_count_says(reads: list[tuple[str, int]]) -> None:
    audited = Audited()
    for member, number in reads:
        audited.reads(member, number)
    found = audited.audit.findings()
    read = [number for _, number in reads]
    missing = set(range(max(read, default=-1) + 1)) - set(read)
    assert numbers_of(found, Kind.SKIPPED) == sorted(missing)
    again = [number for index, number in enumerate(read) if number in read[:index]]
    late = [n for index, n in enumerate(read) if n not in read[:index] and n < max(read[:index], default=-1)]
    assert numbers_of(found, Kind.TWICE) == sorted(again)
    assert numbers_of(found, Kind.REORDERED) == sorted(late)


def numbers_of(findings: list[Finding], kind: Kind) -> list[int]:
    return sorted(n for each in findings if each.kind is kind for n in range(each.first, each.last + 1))
