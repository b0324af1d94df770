"""What the watcher remembers is bounded, whatever the log of a cluster has: its text and its keys are strangers'."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.group_events import (
    Cause,
    GroupEpochBumped,
    MemberCame,
    MemberFacts,
    MemberGone,
    MemberMoved,
)
from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import Journal, RebalanceRecord
from kohort.watch import Live, ProblemFound, WatchedMember, watcher
from kohort.watch.changes import (
    AssignmentWritten,
    CommitDeleted,
    Committed,
    EpochRaised,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    MemberDeleted,
    MemberWritten,
    TopicNamed,
)
from kohort.watch.history import Histories
from kohort.watch.live import EndsSampled, LiveEvent
from kohort.watch.web.documents import ClusterName, Documents
from tests.watch.log import Log


def generation(group_id: str, number: int, at: Millis, members: int = 1, client_id: str = "c") -> GenerationWritten:
    found = tuple(
        GenerationMember(
            MemberFacts(f"{group_id}-m{member}", client_id, "/192.0.2.1"),
            frozenset({"orders"}),
            frozenset({TopicPartition("orders", member + number % 2 * members)}),
        )
        for member in range(members)
    )
    return GenerationWritten(group_id, at, number, "consumer", "range", None, found)


def test_short_lived_groups_leave_nothing_behind() -> None:
    live = Live()
    histories = Histories(live)
    documents = Documents(live, histories, ClusterName("broker.example:9092"))
    for sink in (histories.sink, documents.sink):
        live.subscribe(sink)
    for number in range(3_000):
        name, at = f"group-{number}", number * 1_000
        live.apply([generation(name, 1, at), Committed(name, at, TopicPartition("orders", 0), 1)], at)
        documents.summary(name, at)
        live.sampled({}, at)
        live.apply([CommitDeleted(name, at + 500, TopicPartition("orders", 0))], at + 500)
        live.apply([GroupDeleted(name, at + 500, "classic")], at + 500)
    assert not live.groups
    assert not (live._reported or histories.groups or histories._turn)
    assert not (documents.dirty or documents.summaries() or documents._facts)
    assert not live.watcher._waiting - {"group-2999"}


def test_a_group_that_is_created_again_and_again_has_one_turn() -> None:
    live = Live()
    histories = Histories(live)
    live.subscribe(histories.sink)
    for at in range(0, 5_000, 10):
        live.apply([generation("g", 1, at)], at)
        live.apply([GroupDeleted("g", at + 5, "classic")], at + 5)
    live.apply([generation("g", 1, 6_000)], 6_000)
    assert len(histories._turn) == 1
    histories.sink(EndsSampled(), 6_000)
    histories.sink(EndsSampled(), 16_000)
    assert len(histories._turn) == 1


@pytest.mark.parametrize("change", [MemberDeleted("g", 1, "m"), GroupDeleted("g", 1, "consumer")])
def test_tombstones_of_unknown_keys_make_no_group(change: MemberDeleted | GroupDeleted) -> None:
    live = Live()
    live.apply([change], 1)
    live.apply([CommitDeleted("g", 1, TopicPartition("orders", 0))], 1)
    assert not live.groups


def test_members_that_come_and_go_before_a_consumer_group_settles_are_bounded() -> None:
    live = Live()
    for number in range(5_000):
        facts = MemberFacts(f"m{number}", "c", "/192.0.2.1")
        live.apply([MemberWritten("g", number, facts, frozenset({"orders"}))], number)
        live.apply([MemberDeleted("g", number, f"m{number}")], number)
    group = live.groups["g"]
    assert len(group.reasons) <= 1_000
    assert not group.members
    live.apply([EpochRaised("g", 6_000, 9)], 6_000)
    assert not group.reasons


def test_the_recorder_bounds_a_rebalance_that_never_ends() -> None:
    journal = Journal(wait_ms=0)
    stays = MemberFacts("stays", "c", "/192.0.2.1")
    journal.observe(MemberCame("g", stays), 0)
    for number in range(5_000):
        facts = MemberFacts(f"m{number}", "c", "/192.0.2.1")
        journal.observe(GroupEpochBumped("g", number, Cause.MEMBER_JOINED, facts.member_id, None), number)
        journal.observe(MemberCame("g", facts), number)
        journal.observe(MemberGone("g", facts, Cause.MEMBER_GONE, None), number)
    (recorder,) = journal._groups.values()
    assert len(recorder._went) <= 1_000  # type: ignore[union-attr]
    assert not recorder._came.keys() - {"stays"}  # type: ignore[union-attr]
    assert len(recorder._gone) <= 1_000
    assert recorder._running is not None and len(recorder._running.triggers) <= 1_000


def test_partitions_of_deleted_topics_are_forgotten() -> None:
    journal = Journal(wait_ms=0)
    facts, nothing = MemberFacts("m", "c", "/192.0.2.1"), frozenset[TopicPartition]()
    for number in range(203):
        some = frozenset(TopicPartition(f"topic-{number}", partition) for partition in range(1_000))
        journal.observe(MemberMoved("g", facts, number, nothing, nothing, some), number)
        journal.observe(MemberMoved("g", facts, number, nothing, some, nothing), number)
    (recorder,) = journal._groups.values()
    assert len(recorder.holdings.dark) <= 200_000
    assert len(recorder.holdings.owner) <= 200_000


def test_an_offset_that_is_deleted_takes_its_partition_along() -> None:
    log = Log()
    live = Live(watcher=log.watcher)
    partition = TopicPartition("orders", 1)
    live.apply([generation("g", 1, 10, members=1), Committed("g", 20, partition, 5)], 20)
    live.apply([replace(generation("g", 2, 30, members=1))], 30)
    assert partition in log.group.unowned
    live.apply([CommitDeleted("g", 40, partition)], 40)
    assert partition not in log.group.unowned
    assert partition not in log.group.darkness._owned_from


def test_names_of_topics_that_no_member_reads_are_forgotten() -> None:
    live = Live()
    kept = UUID(int=1)
    facts = MemberFacts("m", "c", "/192.0.2.1")
    live.apply([TopicNamed(kept, "kept"), MemberWritten("g", 1, facts, frozenset({"kept"}))], 1)
    held = frozenset({(kept, 0)})
    live.apply([AssignmentWritten("g", 1, "m", 1, 0, stable=True, assigned=held, revoking=frozenset())], 1)
    live.apply([TopicNamed(UUID(int=number), f"topic-{number}") for number in range(2, 150_000)], 2)
    assert live.watcher.topic_names[kept] == "kept"
    assert len(live.watcher.topic_names) <= 100_000


def test_records_of_all_groups_are_bounded_and_the_oldest_are_forgotten_with_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watcher, "_MOST_ITEMS", 4_000)
    monkeypatch.setattr(watcher, "_MOST_ITEMS_OF_GROUP", 1_000)
    live = Live()
    events: list[LiveEvent] = []
    live.subscribe(lambda event, _now: events.append(event))
    for number in range(1, 81):
        at = number * 1_000
        live.apply([generation("large", number, at, members=20), generation(f"g{number % 40}", number, at)], at)
    large = live.groups["large"]
    assert 1 < len(large.rebalances) < 30  # each has 20 members before and after, and 40 partitions
    assert large.rebalances[-1].generation == 80
    assert live.watcher.forgotten_until == large.rebalances[0].ended_at - 1_000
    assert all(group.rebalances for group in live.groups.values())
    assert [event.text for event in events if isinstance(event, ProblemFound)] == [
        "There are so many rebalances that the oldest ones are forgotten."
    ]


def test_a_group_of_very_many_members_and_names_of_a_megabyte() -> None:
    live = Live()
    live.apply([generation("g", 1, 1, members=100_000)], 1)
    assert len(live.groups["g"].members) == 100_000
    log = Log()
    log.member(10, "m", client_id="x" * 1_000_000)
    (member,) = log.group.members.values()
    assert isinstance(member, WatchedMember)
    assert len(member.facts.client_id) == 1_001


def test_problems_of_a_hostile_length_are_cut() -> None:
    live = Live()
    live.problem("x" * 100_000, 1)
    (problem,) = live.problems
    assert len(problem) == 1_001


def test_very_many_problems_are_counted() -> None:
    live = Live()
    events: list[LiveEvent] = []
    live.subscribe(lambda event, _now: events.append(event))
    for number in range(300):
        for _ in range(2):
            live.problem(f"Group {number} cannot be described.", number)
    assert len(live.problems) == 201
    assert list(live.problems)[-1] == "100 further problems are left out."
    assert len([event for event in events if isinstance(event, ProblemFound)]) == 200
    for number in range(20_000):
        live.problem(f"Another group {number} cannot be described.", number)
    assert list(live.problems)[-1] == "More than 10000 further problems are left out."
    assert len(live.problems) == 201


def test_problems_that_are_solved_are_no_longer_listed_or_counted() -> None:
    live = Live()
    for number in range(203):
        live.problem(f"Group {number} cannot be described.", 1, about=f"group {number}")
    live.problem("Group 0 cannot be described: its coordinator does not answer.", 2, about="group 0")
    assert "Group 0 cannot be described." not in live.problems
    for number in (200, 201, 202):
        live.solved(f"group {number}", 3)
    assert not any("left out" in problem for problem in live.problems)
    for number in range(200):
        live.solved(f"group {number}", 4)
    assert not live.problems
    assert not live.unsolved


def test_a_problem_that_was_left_out_is_counted_no_more_when_it_is_listed() -> None:
    live = Live()

    def report(number: int) -> None:
        live.problem(f"Group {number} cannot be described.", 1, about=f"group {number}")

    for number in range(201):
        report(number)
    live.solved("group 0", 2)
    report(200)
    assert len(live.problems) == 200
    for number in range(201):
        live.solved(f"group {number}", 3)
    assert not live.problems


def test_a_problem_with_two_things_is_listed_until_both_are_solved() -> None:
    live = Live()
    for about in (None, "one", "two"):
        live.problem("It cannot be read.", 1, about=about)
    live.solved("one", 2)
    assert list(live.problems) == ["It cannot be read."]
    live.solved("two", 3)
    assert not live.problems


def test_events_after_the_end_of_a_group_are_not_remembered() -> None:
    live = Live()
    live.apply([generation("g", 1, 1)], 1)
    live.rebalanced([RebalanceRecord("g", 1, None, 1)], 1)
    live.apply([GroupDeleted("g", 2, "classic")], 2)
    assert not live._reported
