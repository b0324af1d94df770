from collections.abc import Iterable

import pytest

from kohort.group_events import (
    AssignmentMade,
    Cause,
    MemberFacts,
    MemberGone,
    MemberRejoined,
    RebalanceStarted,
)
from kohort.model import Millis, TopicPartition
from kohort.recorder import Journal, PartitionChange, RebalanceRecord, Trigger


def parts(text: str) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", int(number)) for number in text.split())


def facts(name: str) -> MemberFacts:
    return MemberFacts(f"{name}-id", name, "10.0.0.1")


class Told:
    """The journal of one group, told by hand; `out` is what it wrote."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.out: list[RebalanceRecord] = []

    def begin(self, at: Millis, cause: Cause, by: str | None, generation: int = 0, reason: str | None = None) -> None:
        member_id = f"{by}-id" if by else None
        event = RebalanceStarted("g", generation, cause, member_id, reason, "range")
        self.out += self.journal.observe(event, at)

    def join(self, at: Millis, name: str, owned: str | None = None) -> None:
        kept = None if owned is None else parts(owned)
        self.out += self.journal.observe(MemberRejoined("g", facts(name), kept), at)

    def gone(self, at: Millis, name: str, cause: Cause, silent_since: Millis | None = None) -> None:
        self.out += self.journal.observe(MemberGone("g", facts(name), cause, None, silent_since), at)

    def assign(self, at: Millis, generation: int, **shares: str) -> None:
        event = AssignmentMade(
            group_id="g",
            generation=generation,
            protocol="range" if shares else None,
            leader_id=f"{next(iter(shares))}-id" if shares else "",
            members=tuple(facts(name) for name in shares),
            assignment={f"{name}-id": parts(share) for name, share in shares.items()},
        )
        self.out += self.journal.observe(event, at)

    def read(self, at: Millis, name: str, numbers: str) -> None:
        for _, number in sorted(parts(numbers)):
            self.out += self.journal.fetched(name, "10.0.0.1", "orders", number, at)

    def take(self) -> list[RebalanceRecord]:
        out, self.out = self.out, []
        return out


def shown(changes: Iterable[PartitionChange]) -> list[str]:
    """`0 a>b dark 30` for each."""
    return [
        f"{change.partition} {_name(change.previous_owner)}>{_name(change.owner)} dark {change.dark_ms}"
        for change in changes
    ]


def _name(member_id: str | None) -> str:
    return "-" if member_id is None else member_id.removesuffix("-id")


def first_member(told: Told, owned: str | None = None) -> None:
    told.begin(0, Cause.FIRST_MEMBER, "a")
    told.join(0, "a", owned)
    told.assign(10, 1, a="0 1 2")
    told.read(20, "a", "0 1 2")


def test_the_first_generation_has_moves_but_no_darkness() -> None:
    told = Told()
    first_member(told)
    [record] = told.take()
    assert (record.generation, record.started_at, record.ended_at, record.wall_ms) == (1, 0, 10, 10)
    assert record.triggers == (Trigger("first member", "a-id"),)
    assert (record.before, record.came, record.went, record.moved) == ((), (facts("a"),), (), ())
    assert shown(record.partitions) == ["0 ->a dark None", "1 ->a dark None", "2 ->a dark None"]
    assert [change.first_read_at for change in record.partitions] == [20, 20, 20]


def test_an_eager_rebalance_darkens_every_partition_from_its_owners_join_to_the_next_owners_read() -> None:
    told = Told()
    first_member(told)
    told.take()
    told.begin(1000, Cause.MEMBER_JOINED, "b", 1, "joining")
    told.join(1000, "b")
    told.join(1300, "a")
    told.assign(1310, 2, a="0 1", b="2")
    told.read(1400, "a", "0 1")
    assert told.take() == []
    told.read(1500, "b", "2")
    [record] = told.take()
    assert shown(record.partitions) == ["0 a>a dark 100", "1 a>a dark 100", "2 a>b dark 200"]
    assert shown(record.moved) == ["2 a>b dark 200"]
    assert (record.came, record.went) == ((facts("b"),), ())
    assert record.triggers == (Trigger("member joined", "b-id", "joining"),)
    assert (record.partitions[2].revoked_at, record.partitions[2].assigned_at) == (1300, 1310)


def test_darkness_spans_the_two_generations_of_a_cooperative_rebalance() -> None:
    told = Told()
    first_member(told, owned="")
    told.take()
    told.begin(1000, Cause.MEMBER_JOINED, "b", 1)
    told.join(1000, "b", "")
    told.join(1300, "a", "0 1 2")
    told.assign(1310, 2, a="0 1", b="")
    # Nothing is dark: a keeps processing orders-2 until it joins again without it.
    [taking] = told.take()
    assert shown(taking.partitions) == ["2 a>- dark None"]
    assert (taking.moved, taking.follow_up_of) == ((), None)

    told.begin(1400, Cause.OWNED_CHANGED, "a", 2)
    told.join(1400, "a", "0 1")
    told.join(1600, "b", "")
    told.assign(1610, 3, a="0 1", b="2")
    told.read(1650, "a", "0 1")
    assert told.take() == []
    told.read(1700, "b", "2")
    [giving] = told.take()
    assert shown(giving.partitions) == ["2 a>b dark 300"]
    assert giving.follow_up_of == 2


def test_a_follow_up_that_came_too_early_for_one_member_has_a_follow_up_of_its_own() -> None:
    told = Told()
    first_member(told, owned="")
    told.begin(1000, Cause.MEMBER_JOINED, "b", 1)
    told.join(1000, "b", "")
    told.join(1000, "a", "0 1 2")
    told.assign(1010, 2, a="0 1", b="")
    told.begin(1020, Cause.MEMBER_JOINED, "c", 2)
    # a does not know generation 2 yet, so it still has everything.
    told.join(1020, "c", "")
    told.join(1030, "b", "")
    told.join(1040, "a", "0 1 2")
    told.assign(1050, 3, a="0", b="", c="")
    told.begin(1060, Cause.OWNED_CHANGED, "a", 3)
    told.join(1060, "a", "0")
    told.join(1070, "b", "")
    told.join(1070, "c", "")
    told.assign(1080, 4, a="0", b="1", c="2")
    told.read(1090, "b", "1")
    told.read(1100, "c", "2")
    records = told.take()[1:]
    assert [record.follow_up_of for record in records] == [None, None, 3]
    assert shown(records[-1].partitions) == ["1 a>b dark 30", "2 a>c dark 40"]


def test_a_partition_taken_two_generations_ago_still_makes_a_follow_up() -> None:
    told = Told()
    first_member(told, owned="")
    told.begin(1000, Cause.MEMBER_JOINED, "b", 1)
    told.join(1000, "b", "")
    told.join(1000, "a", "0 1 2")
    told.assign(1010, 2, a="0 1", b="")
    told.begin(1020, Cause.SUBSCRIPTION_CHANGED, "b", 2)
    told.join(1020, "b", "")
    told.join(1040, "a", "0 1 2")
    told.assign(1050, 3, a="0 1", b="")
    told.begin(1060, Cause.OWNED_CHANGED, "a", 3)
    assert [record.partitions for record in told.take()[2:]] == [()]
    told.join(1060, "a", "0 1")
    told.join(1070, "b", "")
    told.assign(1080, 4, a="0 1", b="2")
    told.read(1090, "b", "2")
    [record] = told.take()
    assert (record.follow_up_of, shown(record.partitions)) == (3, ["2 a>b dark 30"])


def test_a_member_that_is_removed_leaves_its_partitions_dark_from_then_on() -> None:
    told = Told()
    first_member(told)
    told.begin(100, Cause.MEMBER_JOINED, "b", 1)
    told.join(100, "b", "")
    told.join(100, "a", "0 1 2")
    told.assign(110, 2, a="0 1", b="")
    told.begin(120, Cause.OWNED_CHANGED, "a", 2)
    told.join(120, "a", "0 1")
    told.join(120, "b", "")
    told.assign(130, 3, a="0 1", b="2")
    told.read(140, "b", "2")
    told.take()

    told.gone(5000, "a", Cause.SESSION_EXPIRED)
    told.begin(5000, Cause.SESSION_EXPIRED, "a", 3)
    told.join(5400, "b", "2")
    told.assign(5410, 4, b="0 1 2")
    told.read(5500, "b", "0 1 2")
    [record] = told.take()
    assert shown(record.partitions) == ["0 a>b dark 500", "1 a>b dark 500"]
    assert record.went == (facts("a"),)
    assert record.gone == (Trigger("session expired", "a-id"),)


@pytest.mark.parametrize(("silent_since", "dark_ms"), [(1_000, 4_500), (60, 5_395), (105, 5_395), (9_999, 500)])
def test_a_crashed_member_leaves_its_partitions_dark_since_its_last_sign_of_life(
    silent_since: Millis, dark_ms: int
) -> None:
    told = Told()
    first_member(told)
    told.begin(100, Cause.MEMBER_JOINED, "b", 1)
    told.join(100, "b", "")
    told.join(100, "a", "0 1 2")
    told.assign(105, 2, a="0 1 2", b="")  # until here, no sign of life is too old to count
    told.take()
    told.gone(5_000, "a", Cause.CONNECTION_LOST, silent_since)
    told.begin(5_000, Cause.CONNECTION_LOST, "a", 2)
    told.join(5_400, "b", "")
    told.assign(5_410, 3, b="0 1 2")
    told.read(5_500, "b", "0 1 2")
    [record] = told.take()
    assert shown(record.partitions) == [f"{partition} a>b dark {dark_ms}" for partition in range(3)]


def test_a_group_that_becomes_empty_is_recorded_at_once_and_its_partitions_stay_dark() -> None:
    told = Told()
    first_member(told)
    told.take()
    told.gone(100, "a", Cause.MEMBER_LEFT)
    told.begin(100, Cause.MEMBER_LEFT, "a", 1)
    told.assign(100, 2)
    [record] = told.take()
    assert shown(record.partitions) == ["0 a>- dark None", "1 a>- dark None", "2 a>- dark None"]
    assert (record.after, record.protocol, record.leader_id) == ((), None, None)

    told.begin(700, Cause.FIRST_MEMBER, "b", 2)
    told.join(700, "b")
    told.assign(710, 3, b="0 1 2")
    told.read(800, "b", "0 1 2")
    [record] = told.take()
    assert shown(record.partitions) == ["0 a>b dark 700", "1 a>b dark 700", "2 a>b dark 700"]


def test_partitions_unread_when_the_next_rebalance_begins_are_part_of_it() -> None:
    told = Told()
    first_member(told, owned="")
    told.take()
    told.gone(1000, "a", Cause.MEMBER_LEFT)
    told.begin(1000, Cause.MEMBER_LEFT, "a", 1)
    told.join(1000, "b", "")
    told.assign(1010, 2, b="0 1 2")
    told.read(1100, "b", "0")

    told.begin(1200, Cause.MEMBER_JOINED, "c", 2)
    [cut_short] = told.take()
    assert shown(cut_short.partitions) == ["0 a>b dark 100", "1 a>b dark None", "2 a>b dark None"]
    told.join(1200, "c", "")
    told.read(1250, "b", "1")
    told.join(1300, "b", "0 1 2")
    told.assign(1310, 3, b="0 1 2", c="")
    told.read(1400, "b", "2")
    [record] = told.take()
    assert shown(record.partitions) == ["1 a>b dark 250", "2 a>b dark 400"]
    assert [change.assigned_at for change in record.partitions] == [1010, 1010]


def test_an_eager_owner_that_never_read_does_not_shorten_the_darkness() -> None:
    told = Told()
    first_member(told)
    told.begin(1000, Cause.MEMBER_JOINED, "b", 1)
    told.join(1000, "b")
    told.join(1000, "a")
    told.assign(1010, 2, a="0 1", b="2")
    told.read(1020, "a", "0 1")
    told.begin(1100, Cause.MEMBER_JOINED, "c", 2)
    told.join(1100, "c")
    told.join(1100, "b")
    told.join(1100, "a")
    told.assign(1110, 3, a="0", b="1", c="2")
    told.take()
    told.read(1200, "a", "0")
    told.read(1200, "b", "1")
    told.read(1300, "c", "2")
    [record] = told.take()
    assert shown(record.partitions) == ["0 a>a dark 100", "1 a>b dark 100", "2 a>c dark 300"]


def test_only_the_new_owners_fetch_ends_darkness() -> None:
    told = Told()
    first_member(told)
    told.begin(100, Cause.MEMBER_JOINED, "b", 1)
    told.join(100, "b")
    told.join(100, "a")
    told.assign(110, 2, a="0 1", b="2")
    told.read(115, "a", "0 1 2")
    told.read(120, "somebody", "2")
    told.take()
    assert told.journal.watched == {TopicPartition("orders", 2)}
    told.read(130, "b", "2")
    [record] = told.take()
    assert shown(record.partitions)[2] == "2 a>b dark 30"


def test_nothing_is_watched_when_nothing_is_dark() -> None:
    told = Told()
    assert not told.journal.watching
    told.begin(0, Cause.FIRST_MEMBER, "a")
    told.join(0, "a")
    told.assign(10, 1, a="0")
    assert told.journal.watching and told.journal.watched == {TopicPartition("orders", 0)}
    told.read(20, "a", "0")
    assert not told.journal.watching and told.journal.watched == set()
    assert told.journal.next_expiry is None


def test_a_record_does_not_wait_for_ever() -> None:
    told = Told()
    first_member(told)
    told.take()
    told.begin(100, Cause.MEMBER_JOINED, "b", 1)
    told.join(100, "b")
    told.join(100, "a")
    told.assign(110, 2, a="0 1", b="2")
    told.read(120, "a", "0 1")
    due = told.journal.next_expiry
    assert due is not None
    assert told.journal.expire(due - 1) == []
    [record] = told.journal.expire(due)
    assert shown(record.partitions) == ["0 a>a dark 20", "1 a>a dark 20", "2 a>b dark None"]
    assert not told.journal.watching


def test_triggers_that_come_before_the_assignment_belong_to_one_rebalance() -> None:
    told = Told()
    first_member(told)
    told.take()
    told.begin(100, Cause.MEMBER_JOINED, "b", 1)
    told.join(100, "b")
    told.join(100, "a")
    told.gone(900, "a", Cause.SYNC_MISSED)
    told.begin(900, Cause.SYNC_MISSED, "a", 2)
    told.join(900, "b")
    told.assign(910, 3, b="0 1 2")
    told.read(920, "b", "0 1 2")
    [record] = told.take()
    assert [trigger.cause for trigger in record.triggers] == ["member joined", "sync missed"]
    assert (record.started_at, record.wall_ms) == (100, 810)
    assert shown(record.partitions)[0] == "0 a>b dark 820"


def test_a_static_member_that_takes_over_its_earlier_life_needs_no_rebalance() -> None:
    told = Told()
    first_member(told)
    told.take()
    told.gone(500, "a", Cause.STATIC_MEMBER_RETURNED)
    told.assign(500, 1, a2="0 1 2")
    told.read(600, "a2", "0 1 2")
    [record] = told.take()
    assert (record.generation, record.wall_ms, record.cause) == (1, 0, "static member returned")
    assert shown(record.moved) == ["0 a>a2 dark 100", "1 a>a2 dark 100", "2 a>a2 dark 100"]


def test_after_a_failover_cooperative_members_report_owned_partitions() -> None:
    told = Told()
    told.begin(1000, Cause.MEMBER_LEFT, "b", 7)
    told.join(1000, "a", "0 1")
    told.assign(1010, 8, a="0 1 2")
    told.read(1020, "a", "2")
    [record] = told.take()
    assert shown(record.partitions) == ["2 ->a dark None"]
    assert (record.before, record.came) == ((facts("a"),), ())


def test_an_empty_group_is_forgotten() -> None:
    told = Told()
    first_member(told)
    told.gone(100, "a", Cause.MEMBER_LEFT)
    told.begin(100, Cause.MEMBER_LEFT, "a", 1)
    told.assign(100, 2)
    due = told.journal.next_expiry
    assert due is not None
    assert told.journal.expire(due) == []
    assert told.journal.next_expiry is None


def test_closing_writes_what_is_unfinished() -> None:
    told = Told()
    told.begin(0, Cause.FIRST_MEMBER, "a")
    told.join(0, "a")
    told.assign(10, 1, a="0 1")
    told.read(15, "a", "1")
    [record] = told.journal.close(20)
    assert [change.first_read_at for change in record.partitions] == [None, 15]
    assert not told.journal.watching


def test_two_groups_wait_for_one_partition_each_on_its_own() -> None:
    journal = Journal()
    for group_id, name in (("g1", "a"), ("g2", "b")):
        journal.observe(RebalanceStarted(group_id, 0, Cause.FIRST_MEMBER, f"{name}-id", None, None), 0)
        members = (facts(name),)
        assert journal.observe(AssignmentMade(group_id, 1, "range", "", members, {f"{name}-id": parts("0")}), 5) == []
    [first] = journal.fetched("b", "10.0.0.1", "orders", 0, 10)
    [second] = journal.fetched("a", "10.0.0.1", "orders", 0, 20)
    assert (first.group_id, second.group_id, journal.watching) == ("g2", "g1", False)
