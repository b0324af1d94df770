"""SyncGroups of a cooperative group that wait for a member to give something up, and how long they do."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.coordinator import GroupConfig
from kohort.model import TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.shell import Shell


class Group:
    """A group of two: the first owns both partitions, and its leader gives it only one from now on."""

    def __init__(self) -> None:
        self.shell = Shell(GroupConfig(initial_rebalance_delay_ms=0, heartbeat_hold_ms=9_000))
        self.shell.set_topics({"t": 2})
        self.answers: dict[object, Message] = {}
        self.join("", "first")
        self.wait(0)
        [self.giver] = self.shell.shard.groups["g"].members
        self.sync(self.giver, {self.giver: [0, 1]})
        self.join("", "second")
        self.join(self.giver, "again", owned=[0, 1])
        self.wait(0)
        [self.other] = self.shell.shard.groups["g"].members.keys() - {self.giver}

    def wait(self, milliseconds: int) -> None:
        for effects in self.shell.wait(milliseconds):
            self.answers |= effects.replies

    def join(self, member_id: str, token: str, owned: list[int] | None = None) -> None:
        subscription = Subscription(["t"], owned_partitions=[TopicPartition("t", n) for n in owned or ()])
        protocol = JoinGroupRequestProtocol(name="cooperative-sticky", metadata=encode_subscription(subscription))
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self.answers |= self.shell.handle(request, token, 3).replies

    def sync(self, member_id: str, shares: Mapping[str, list[int]]) -> SyncGroupResponse | None:
        """The answer, if it does not wait."""
        token = f"sync of {member_id} at {self.shell.now}"
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(Assignment([TopicPartition("t", n) for n in numbers]))
            )
            for member_id, numbers in shares.items()
        ]
        generation = self.shell.shard.groups["g"].generation
        request = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, assignments=assignments)
        self.answers |= self.shell.handle(request, token, 3).replies
        answer = self.answers.get(token)
        assert answer is None or isinstance(answer, SyncGroupResponse)
        return answer

    def share(self) -> None:
        """The leader takes 1 from the giver."""
        group = self.shell.shard.groups["g"]
        for member_id in sorted(group.members, key=lambda every: every == group.leader_id):
            shares = {self.giver: [0], self.other: []} if member_id == group.leader_id else {}
            self.sync(member_id, shares)

    def synced(self) -> set[str]:
        return {
            token.split()[2]
            for token, answer in self.answers.items()
            if isinstance(token, str) and isinstance(answer, SyncGroupResponse)
        }


def test_the_others_wait_for_half_a_second_and_then_have_their_assignments() -> None:
    group = Group()
    group.answers.clear()
    group.share()
    assert group.synced() == {group.giver}
    group.wait(499)
    assert group.synced() == {group.giver}
    group.wait(1)
    assert group.synced() == {group.giver, group.other}


def test_a_sync_that_a_member_repeats_meanwhile_waits_as_long() -> None:
    group = Group()
    group.share()
    group.wait(100)
    assert group.sync(group.other, {}) is None
    group.wait(399)
    waiting = f"sync of {group.other} at {group.shell.now - 399}"
    assert waiting not in group.answers
    group.wait(1)
    assert waiting in group.answers


def test_a_sync_after_that_is_answered_at_once() -> None:
    group = Group()
    group.share()
    group.wait(500)
    group.wait(100)
    assert group.sync(group.other, {}) is not None
