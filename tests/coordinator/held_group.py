"""A classic group of the pure coordinator whose members' heartbeats are held; tests of how they are told."""

from __future__ import annotations

from itertools import count

from kohort.coordinator import GroupConfig, GroupState, WaitingRequest
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.shell import Shell

RESTART = 800
"""Milliseconds that a process takes to be there again."""
REBALANCE = 400
"""Milliseconds from the news of a rebalance to the assignment: so long that a successor is worth the wait."""


class HeldGroup:
    """A group and its members, which have only their ids."""

    def __init__(self, assignor: str = "range", protocol_type: str = "consumer") -> None:
        self.shell = Shell(GroupConfig(heartbeat_hold_ms=9_000, initial_rebalance_delay_ms=0))
        self.answers: dict[object, object] = {}
        self._assignor = assignor
        self._protocol_type = protocol_type
        self._strangers = count()

    def wait(self, milliseconds: int) -> None:
        for effects in self.shell.wait(milliseconds):
            self.answers.update(effects.replies)
        self._tell()

    def _tell(self) -> None:
        while self.shell.shard.has_news:
            self.answers.update(self.shell.apply(self.shell.shard.answer_news(self.shell.now)).replies)

    def join(self, member_id: str = "", version: int = 3, instance_id: str | None = None) -> str:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=self._protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=self._assignor, metadata=encode_subscription(Subscription(["t"])))
            ],
        )
        token = f"join of {member_id or next(self._strangers)} at {self.shell.now}"
        self.answers.update(self.shell.handle(request, token, version).replies)
        self.wait(0)  # for the delay of the first rebalance
        return token

    def share(self, takes: int = 0) -> None:
        """Let all members that learned of a rebalance join again, until all are answered."""
        group = self.shell.shard.groups["g"]
        while group.rebalance.notice.new_members_until is not None:
            self.wait(50)  # for more newcomers
        for member_id in self.notified():
            self.join(member_id)
        self.wait(takes)
        for member_id in sorted(group.members, key=lambda every: every != group.leader_id):
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

    def notified(self) -> list[str]:
        """Whose heartbeats were answered that the group rebalances."""
        refused = ErrorCode.REBALANCE_IN_PROGRESS
        return [member for member in self.members if getattr(self.answers.get(member), "error_code", None) == refused]

    def leave(self, member_id: str) -> None:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
        self.answers.update(self.shell.handle(request, f"leave of {member_id}", 3).replies)
        self._tell()

    def release(self, member_id: str, behind: WaitingRequest = WaitingRequest.REQUEST) -> None:
        """The member sends a commit, or its next heartbeat, which waits behind the one that is held."""
        effects = self.shell.shard.release(member_id, behind, self.shell.now)
        self.answers.update(self.shell.apply(effects).replies)
        self._tell()

    def answer_to(self, member_id: str) -> ErrorCode:
        """Return the response to its last heartbeat."""
        answer = self.answers[member_id]
        assert isinstance(answer, HeartbeatResponse)
        return ErrorCode(answer.error_code)

    @property
    def members(self) -> list[str]:
        return list(self.shell.shard.groups["g"].members)

    @property
    def generation(self) -> int:
        return self.shell.shard.groups["g"].generation

    def at_rest(self, members: int = 3) -> HeldGroup:
        """Let that many members join, and hold a heartbeat of each."""
        for _ in range(members):
            self.join()
            self.share()
            self.beat(*self.members)
        return self

    def restart(self, rebalance: int = REBALANCE) -> None:
        """One is restarted, by which the group learns how long that takes, and all are at rest again."""
        self.leave(self.members[0])
        self.share(rebalance)
        self.beat(*self.members)
        self.wait(RESTART - rebalance)
        self.join()
        self.share(rebalance)
        self.beat(*self.members)
