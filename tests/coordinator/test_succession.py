"""An eager group whose leavers have been coming back hears of a leave and of the join that follows it as of one."""

from itertools import count

import pytest

from kohort.coordinator import Behind, GroupConfig, GroupState
from kohort.errors import ErrorCode
from kohort.wire.consumer_protocol import Subscription, encode_subscription
from kohort.wire.heartbeat import HeartbeatRequest
from kohort.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.sync_group import SyncGroupRequest
from tests.coordinator.shell import Shell

RESTART = 800
"""Milliseconds that a process takes to be there again."""


class Conversation:
    """A group and its members, none of which has anything but its id."""

    def __init__(self, assignor: str = "range") -> None:
        self.shell = Shell(GroupConfig(heartbeat_hold_ms=9_000, initial_rebalance_delay_ms=0))
        self.answers: dict[object, object] = {}
        self._assignor = assignor
        self._strangers = count()

    def wait(self, milliseconds: int) -> None:
        for effects in self.shell.wait(milliseconds):
            self.answers.update(effects.replies)
        self._tell()

    def _tell(self) -> None:
        while self.shell.shard.has_news:
            self.answers.update(self.shell.apply(self.shell.shard.tell(self.shell.now)).replies)

    def join(self, member_id: str = "", version: int = 3) -> str:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=self._assignor, metadata=encode_subscription(Subscription(["t"])))
            ],
        )
        token = f"join of {member_id or next(self._strangers)} at {self.shell.now}"
        self.answers.update(self.shell.handle(request, token, version).replies)
        self.wait(0)  # for the delay of the first rebalance
        return token

    def share(self) -> None:
        """Whoever is told of a rebalance joins again, and all get their answers."""
        for member_id in self.told():
            self.join(member_id)
        group = self.shell.shard.groups["g"]
        for member_id in sorted(group.members, key=lambda one: one != group.leader_id):
            request = SyncGroupRequest(group_id="g", generation_id=group.generation, member_id=member_id)
            self.shell.handle(request, f"sync of {member_id} at {self.shell.now}", 3)
        assert group.state is GroupState.STABLE

    def beat(self, *member_ids: str) -> None:
        """Each sends a heartbeat, which is held."""
        for member_id in member_ids:
            self.answers.pop(member_id, None)
            request = HeartbeatRequest(group_id="g", generation_id=self.generation, member_id=member_id)
            assert not self.shell.beat(request, member_id).replies, "it is held"
        self._tell()

    def told(self) -> list[str]:
        """Whose heartbeats were answered that the group rebalances."""
        refused = ErrorCode.REBALANCE_IN_PROGRESS
        return [one for one in self.members if getattr(self.answers.get(one), "error_code", None) == refused]

    def leave(self, member_id: str) -> None:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
        self.answers.update(self.shell.handle(request, f"leave of {member_id}", 3).replies)
        self._tell()

    @property
    def members(self) -> list[str]:
        return list(self.shell.shard.groups["g"].members)

    @property
    def generation(self) -> int:
        return self.shell.shard.groups["g"].generation

    def at_rest(self, members: int = 3) -> "Conversation":
        """So many have joined, and the heartbeat of each is held."""
        for _ in range(members):
            self.join()
            self.share()
            self.beat(*self.members)
        return self

    def restart(self) -> None:
        """One is restarted, by which the group learns how long that takes, and all are at rest again."""
        self.leave(self.members[0])
        self.share()
        self.beat(*self.members)
        self.wait(RESTART)
        self.join()
        self.share()
        self.beat(*self.members)


@pytest.fixture
def group() -> Conversation:
    made = Conversation().at_rest()
    made.restart()
    return made


def test_the_first_leave_is_told_at_once() -> None:
    group = Conversation().at_rest()
    group.leave(group.members[0])
    assert group.told() == group.members


def test_when_one_came_back_the_next_leave_is_told_with_the_join_that_follows_it(group: Conversation) -> None:
    before = group.generation
    group.leave(group.members[0])
    group.wait(RESTART)
    assert not group.told(), "they go on processing"
    survivors = group.members
    group.join()
    assert group.told() == survivors
    group.share()
    assert (group.generation, len(group.members)) == (before + 1, 3)


def test_the_members_are_told_as_soon_as_the_successor_asks_for_an_id(group: Conversation) -> None:
    group.leave(group.members[0])
    group.join(version=4)
    assert group.told() == group.members


def test_who_comes_late_is_not_waited_for_and_nor_is_the_next(group: Conversation) -> None:
    group.leave(group.members[0])
    group.wait(2 * RESTART)
    assert group.told() == group.members
    group.share()
    group.beat(*group.members)
    group.leave(group.members[0])
    assert group.told() == group.members


def test_of_two_that_leave_both_are_waited_for(group: Conversation) -> None:
    first, second, survivor = group.members
    group.leave(first)
    group.leave(second)
    group.join()
    assert not group.told()
    group.join()
    assert group.told() == [survivor]


def test_when_one_member_has_to_be_told_all_are(group: Conversation) -> None:
    # It gives up everything and waits for the others.
    leaver, impatient, other = group.members
    group.leave(leaver)
    released = group.shell.apply(group.shell.shard.release(impatient, Behind.REQUEST, group.shell.now)).replies
    group.answers.update(released)
    assert group.told() == [impatient]
    group.join(impatient)
    assert set(group.told()) == {impatient, other}


def test_members_of_a_cooperative_assignor_are_told_at_once() -> None:
    # They go on processing what they have, so only what the one that left had would wait.
    group = Conversation("cooperative-sticky").at_rest()
    group.restart()
    group.leave(group.members[0])
    assert group.told() == group.members


def test_a_short_rebalance_timeout_removes_nobody_who_was_not_told() -> None:
    group = Conversation().at_rest()
    group.restart()
    for member in group.shell.shard.groups["g"].members.values():
        member.rebalance_timeout_ms = RESTART
    group.leave(group.members[0])
    group.wait(RESTART // 2)
    survivors = group.members
    assert group.told() == survivors
    group.share()
    assert group.members == survivors
    assert isinstance(group.answers[f"join of {survivors[-1]} at {group.shell.now}"], JoinGroupResponse)
