"""Commits that the checks of progress permit: abandoned ones, and those of partitions of a replaced topic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from kohort.member import OffsetAndMetadata, Phase
from kohort.model import UUID, TopicPartition
from kohort.sim import Plan, Step, Violation, World
from kohort.sim.checks.group_progress import GroupProgress
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.processes.application import Application
from kohort.sim.steps import MemberStart, TopicDelete

TOPIC, ORDERS = UUID(int=1), TopicPartition("orders", 0)


def test_a_commit_decreases_only_if_its_client_had_given_it_up() -> None:
    progress = GroupProgress()
    progress.covered["g", TOPIC, ORDERS] = 110
    progress.overtaken = {"a#9"}
    progress.durable("g", TOPIC, ORDERS, OffsetAndMetadata(110, "a#11"))
    progress.durable("g", TOPIC, ORDERS, OffsetAndMetadata(90, "a#9"))
    with pytest.raises(Violation, match="S8: g goes back"):
        progress.durable("g", TOPIC, ORDERS, OffsetAndMetadata(80, "a#8"))


def mixed_group_with_a_recreated_topic() -> World:
    """A consumer member still gives up the deleted topic while a classic member is assigned the new one.

    The members request metadata, so the topic is created again at once.
    """
    classic = ApplicationSettings("g", ("audit",))
    consumer = replace(classic, protocol="consumer", callback=20_000, commit_every=60_000)
    steps: list[Step] = [MemberStart(0.5 + number, number) for number in range(3)]
    steps.append(TopicDelete(60.0, "audit"))
    settings = {"group.initial.rebalance.delay.ms": "0"}
    members, rates = [consumer, replace(consumer), classic], [1.0] * 3
    return World(Plan(0, 90.0, settings=settings, topics={"audit": 3}, members=members, rates=rates, steps=steps))


def test_a_partition_of_a_deleted_topic_is_not_that_of_the_topic_created_again_under_its_name() -> None:
    assert mixed_group_with_a_recreated_topic().run().violation is None


def test_a_partition_has_one_owner_unless_another_topic_has_its_name_now() -> None:
    world = mixed_group_with_a_recreated_topic()
    world.progress.id_of = lambda name: None
    assert str(world.run().violation).startswith("S1: member-2.0 and member-0.0 both have")


def test_only_what_a_damaged_disk_lost_may_be_missing() -> None:
    progress, clicks = GroupProgress(), TopicPartition("clicks", 0)
    member = Application("a", ApplicationSettings("g", ("orders",)), "", progress, 0)
    for partition in (ORDERS, clicks):
        progress.covered["g", TOPIC, partition] = 110
        progress.durable("g", TOPIC, partition, OffsetAndMetadata(100, "a#1"))
    since = {partition: progress.asks(member, TOPIC, partition) for partition in (ORDERS, clicks)}
    progress.damaged_place(("g", TOPIC, ORDERS))
    progress.committed(member, {ORDERS: OffsetAndMetadata(100, "a#1", topic_id=TOPIC)})
    progress.found(member, TOPIC, ORDERS, None, since[ORDERS])
    progress.committed(member, {clicks: OffsetAndMetadata(100, "a#1", topic_id=TOPIC)})
    with pytest.raises(Violation, match=r"S7: .* was acknowledged to a, but is not in the log"):
        progress.committed(member, {clicks: OffsetAndMetadata(100, "a#2", topic_id=TOPIC)})
    with pytest.raises(Violation, match=r"S7: .* no offset was read"):
        progress.found(member, TOPIC, clicks, None, progress.asks(member, TOPIC, clicks))


def test_a_commit_by_name_is_in_the_log_under_the_id_of_any_topic_of_that_name() -> None:
    progress = GroupProgress()
    member = Application("a", ApplicationSettings("g", ("orders",)), "", progress, 0)
    for topic_id, offset in ((TOPIC, 3), (UUID(int=2), 0)):
        progress.covered["g", topic_id, ORDERS] = 3
        progress.durable("g", topic_id, ORDERS, OffsetAndMetadata(offset, f"a#{offset}"))
        progress.committed(member, {ORDERS: OffsetAndMetadata(offset, f"a#{offset}")})
    assert progress.asks(member, UUID(int=2), ORDERS) == 0  # whoever looks it up by ID must find it
    for partition, value in (
        (ORDERS, OffsetAndMetadata(3, "a#4")),
        (ORDERS, OffsetAndMetadata(2, "a#3")),
        (TopicPartition("orders", 1), OffsetAndMetadata(3, "a#3")),
    ):
        with pytest.raises(Violation, match=r"S7: "):
            progress.committed(member, {partition: value})


def test_records_are_repeated_only_where_a_commit_was_rejected_and_until_they_are_committed() -> None:
    progress, clicks = GroupProgress(), TopicPartition("clicks", 0)
    progress.expects_exactly_once = True
    member = Application("a", ApplicationSettings("g", ("orders",)), "", progress, 0)
    for partition in (ORDERS, clicks):
        progress.processed(member, TOPIC, partition, 0, 10)
    progress.repeatable.add(("g", TOPIC, ORDERS))
    with pytest.raises(Violation, match=r"S11: a processes .*clicks.* again from 0"):
        progress.processed(member, TOPIC, clicks, 0, 10)
    progress.processed(member, TOPIC, ORDERS, 0, 5)
    progress.durable("g", TOPIC, ORDERS, OffsetAndMetadata(5, "a#1"))
    progress.processed(member, TOPIC, ORDERS, 5, 10)
    progress.durable("g", TOPIC, ORDERS, OffsetAndMetadata(10, "a#2"))
    with pytest.raises(Violation, match=r"S11: a processes .*orders.* again from 5"):
        progress.processed(member, TOPIC, ORDERS, 5, 10)


@dataclass
class Seen:
    """A member as the observer sees it."""

    name: str
    settings: ApplicationSettings
    membership: Any
    seen: object = None

    def owned_by_id(self) -> dict[tuple[UUID, int], TopicPartition]:
        return {}


def membership(name: str, generation: int, *owned: TopicPartition) -> SimpleNamespace:
    return SimpleNamespace(state=Phase.STABLE, generation=generation, member_id=name, assignment=frozenset(owned))


@pytest.mark.parametrize("other", ["classic", "consumer"])
def test_a_classic_member_keeps_a_recreated_topic_by_its_name_while_another_owns_the_new_one(other: str) -> None:
    classic = ApplicationSettings("g", ("orders",))
    first = Seen("first", classic, membership("first", 6, ORDERS))
    second = Seen("second", replace(classic, protocol=other), membership("second", 6))
    progress = GroupProgress()
    progress.peers = lambda: [first, second, Seen("third", replace(classic, protocol="consumer"), None)]
    progress.id_of = lambda name: TOPIC
    progress.owns(first)
    progress.id_of = lambda name: UUID(int=2)  # the topic is deleted and recreated
    first.membership = membership("first", 10, ORDERS)
    second.membership = membership("second", 10, ORDERS)
    progress.owns(first)
    progress.id_of = lambda name: TOPIC  # as if it were still the same
    first.membership = membership("first", 11, ORDERS)
    second.membership = membership("second", 11, ORDERS)
    with pytest.raises(Violation, match="S1: first and second both have"):
        progress.owns(first)


NEW_ID = UUID(int=2)


def commits(progress: GroupProgress, topic_id: UUID, *pairs: tuple[str, int]) -> None:
    for number, (writer, offset) in enumerate(pairs):
        progress.durable("g", topic_id, ORDERS, OffsetAndMetadata(offset, f"{writer}#{number}"))


def of_a_recreated_topic(protocol: str, *, is_recreated: bool = True) -> GroupProgress:
    """Return the progress of a group whose classic member `first` got the partition before its topic was recreated."""
    settings = ApplicationSettings("g", ("orders",))
    members = [
        Seen("first", settings, membership("first", 6, ORDERS)),
        Seen("second", replace(settings, protocol=protocol), membership("second", 7)),
        Seen("third", settings, membership("third", 8)),
    ]
    progress = GroupProgress()
    progress.peers = lambda: members
    progress.id_of = lambda name: TOPIC if is_recreated else NEW_ID
    for member in members:
        progress.owns(member)
    progress.id_of = lambda name: NEW_ID
    progress.covered["g", NEW_ID, ORDERS] = progress.covered["g", TOPIC, ORDERS] = 50
    return progress


def test_a_classic_member_and_another_may_commit_in_turns_for_a_recreated_topic() -> None:
    progress = of_a_recreated_topic("consumer")
    commits(progress, NEW_ID, ("second", 30), ("first", 20), ("second", 30), ("first", 50), ("second", 40))
    progress.peers = list  # the writers have ended
    commits(progress, NEW_ID, ("first", 50), ("second", 40))


@pytest.mark.parametrize(
    ("protocol", "is_recreated", "topic_id", "pairs"),
    [
        ("classic", True, NEW_ID, [("second", 1), ("first", 0)]),
        ("consumer", False, NEW_ID, [("second", 1), ("first", 0)]),
        ("consumer", True, TOPIC, [("second", 1), ("first", 0)]),  # for the topic that was deleted
        ("consumer", True, NEW_ID, [("third", 1), ("first", 0)]),  # both are classic
        ("consumer", True, NEW_ID, [("second", 1), ("third", 0)]),  # the third one never had the old topic
        ("consumer", True, NEW_ID, [("first", 20), ("first", 10)]),
        ("consumer", True, NEW_ID, [("first", 20), ("second", 30), ("first", 10)]),  # behind its own commit
    ],
)
def test_other_commits_for_a_recreated_topic_must_not_go_back(
    protocol: str, topic_id: UUID, pairs: list[tuple[str, int]], *, is_recreated: bool
) -> None:
    with pytest.raises(Violation, match="S8: g goes back"):
        commits(of_a_recreated_topic(protocol, is_recreated=is_recreated), topic_id, *pairs)
