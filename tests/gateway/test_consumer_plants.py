"""The worlds of consumer groups find what they are there to find: each rule of the gateway is needed for one check."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pytest import MonkeyPatch

from kohort.gateway.groups import GroupMirror, Outcome
from kohort.gateway.groups.consumer_mirror import ConsumerMirror
from kohort.gateway.groups.consumer_probes import ConsumerProbes
from kohort.gateway.lost_members import LostMembers
from kohort.wire.messages.consumer_group_heartbeat import TopicPartitions
from tests.gateway import test_consumer_worlds as tests
from tests.gateway.consumer_world import World
from tests.gateway.test_consumer_worlds import live_through

Put = Callable[[MonkeyPatch], None]
SEEDS = range(12)


def news_of_a_probe_are_forgotten(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerMirror, "_deliver", lambda *arguments: None)


def a_heartbeat_overtakes_a_probe(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerMirror, "is_asked", lambda self, request: False)
    patch.setattr(ConsumerMirror, "ended", lambda *arguments: None)


def the_gateway_acknowledges_for_its_members(patch: MonkeyPatch) -> None:
    real = ConsumerMirror.passed_on

    def eager(self: ConsumerMirror, request: Any, now: int) -> Any:
        member, sent = self._groups.member(request), real(self, request, now)
        if member is not None and member.must_revoke and sent.topic_partitions is None:
            owned: dict[Any, list[int]] = {}
            for topic_id, partition in sorted(member.assigned):
                owned.setdefault(topic_id, []).append(partition)
            sent.topic_partitions = [
                TopicPartitions(topic_id=one, partitions=numbers) for one, numbers in owned.items()
            ]
        return sent

    patch.setattr(ConsumerMirror, "passed_on", eager)


def partitions_move_before_their_commits(patch: MonkeyPatch) -> None:
    the_gateway_acknowledges_for_its_members(patch)
    patch.setattr(World, "owners_changed", lambda self: None)


def news_of_a_probe_go_to_another_member(patch: MonkeyPatch) -> None:
    real = ConsumerMirror._deliver

    def confused(self: ConsumerMirror, group: Any, member: Any, response: Any, now: int, out: Any) -> None:
        others = [one for one in group.members.values() if self.prompt.is_held(group.group_id, one.member_id)]
        real(self, group, (others or [member])[0], response, now, out)

    patch.setattr(ConsumerMirror, "_deliver", confused)


def nobody_is_asked_when_something_happens(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerProbes, "ask_all", lambda *arguments, **named: None)


def heartbeats_are_passed_on_as_often_as_members_send_them(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerMirror, "covers", lambda *arguments: False)


def heartbeats_are_hardly_passed_on(patch: MonkeyPatch) -> None:
    patch.setattr(ConsumerMirror, "covers", lambda self, request, now: self._groups.member(request) is not None)
    patch.setattr(ConsumerMirror, "_overdue", lambda *arguments: None)
    patch.setattr(ConsumerProbes, "due", lambda *arguments: Outcome())


def news_of_a_probe_wait_for_the_end_of_the_hold(patch: MonkeyPatch) -> None:
    def quiet(self: ConsumerMirror, group: Any, member: Any, response: Any, now: int, out: Any) -> None:
        member.undelivered = response

    patch.setattr(ConsumerMirror, "_deliver", quiet)


def lost_members_keep_their_sessions(patch: MonkeyPatch) -> None:
    patch.setattr(GroupMirror, "lost", lambda *arguments: None)


def a_member_that_came_back_is_removed(patch: MonkeyPatch) -> None:
    real = LostMembers.set

    def forgetful(self: LostMembers, key: Any, at: int | None, fire: Any) -> None:
        if at is not None:
            real(self, key, at, fire)

    patch.setattr(LostMembers, "set", forgetful)
    a_member_that_may_have_come_back_is_removed(patch)


def a_member_that_may_have_come_back_is_removed(patch: MonkeyPatch) -> None:
    patch.setattr(LostMembers, "arrived", lambda *arguments: None)


def in_worlds(*faults: str, ways: Sequence[int | None] = (0,)) -> Callable[[], None]:
    """Return a function that lives through worlds, until a check fails."""

    def look() -> None:
        for seed in SEEDS:
            world = live_through(seed, ways=ways, faults=faults)
            assert not world.fenced, "a member is fenced"
            assert faults or not world.read_twice, "records are read twice"
            world.check_holds()

    return look


def a_member_behind_a_gateway_that_is_cut_off() -> None:
    world = World(1)
    member = world.join()
    world.run(30_000)
    world.cut_off(0, 12_000)
    member.reconnect()
    world.run(20_000)
    assert not world.fenced


def a_quiet_group() -> None:
    for client in tests.CLIENTS:
        tests.test_the_coordinator_of_a_quiet_group_gets_few_more_heartbeats(client, 2)


def a_held_heartbeat() -> None:
    """A change, after which nobody may be kept waiting."""
    for seed in SEEDS:
        world = World(seed)
        for client in tests.CLIENTS:
            world.join(client=client)
        world.run(30_000)
        world.join()
        world.run(500)
        world.check_holds()


change = tests.test_a_change_that_passes_the_gateway_reaches_all_members_at_once
crash = tests.test_the_partitions_of_a_crashed_member_are_given_away_within_the_grace


@pytest.mark.parametrize(
    ("put", "look", "finding"),
    [
        (a_heartbeat_overtakes_a_probe, in_worlds("cut"), "a member is fenced"),
        (news_of_a_probe_are_forgotten, a_held_heartbeat, "is kept waiting"),
        (the_gateway_acknowledges_for_its_members, in_worlds(), "two owners"),
        (news_of_a_probe_go_to_another_member, in_worlds(), "two owners"),
        (partitions_move_before_their_commits, in_worlds(), "read twice"),
        (nobody_is_asked_when_something_happens, change, "assert"),
        (heartbeats_are_passed_on_as_often_as_members_send_them, a_quiet_group, "assert"),
        (heartbeats_are_hardly_passed_on, in_worlds(), "has expired|is kept waiting"),
        (news_of_a_probe_wait_for_the_end_of_the_hold, a_held_heartbeat, "is kept waiting"),
        (lost_members_keep_their_sessions, crash, "assert"),
        (a_member_that_came_back_is_removed, in_worlds("reset"), "which lives"),
        (a_member_that_may_have_come_back_is_removed, a_member_behind_a_gateway_that_is_cut_off, "which lives"),
    ],
)  # fmt: skip
def test_a_planted_bug_is_found(put: Put, look: Callable[[], None], finding: str, monkeypatch: MonkeyPatch) -> None:
    put(monkeypatch)
    with pytest.raises(AssertionError, match=finding):
        look()
